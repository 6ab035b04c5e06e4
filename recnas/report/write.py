"""Write a report and the files beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recnas.errors import ConfigError
from recnas.files import make_folder, make_place, write_text
from recnas.report import markdown, page
from recnas.report.content import all_files, make_report


def write_report(
    paths: Sequence[Path | str], out: Path | str, files: Path | str | None = None, keep_files: bool = True
) -> dict[str, Any]:
    """`report.html` or `report.md`, by the suffix of `out`; figures and tables go to `files`.

    Args:
        paths: run directories, and files that `recnas correlate --json` printed.
        files: folder for SVG and CSV; None puts `<name>_files` beside the report. keep_files=False writes none.
    """
    out = Path(out)
    renderers = {".html": page.render, ".htm": page.render, ".md": markdown.render}
    if out.suffix.lower() not in renderers:
        raise ConfigError(
            f"a report is written as .html or .md, not as {out.name!r}.",
            f"Use -o {out.stem or 'report'}.html",
        )
    folder = Path(files) if files is not None else out.with_name(f"{out.stem}_files")
    shown = os.path.relpath(folder, out.parent).replace(os.sep, "/")
    report = make_report(paths, shown)
    make_place(out)
    if keep_files:
        make_folder(folder, "--files")
    text = renderers[out.suffix.lower()](report, shown if keep_files else None)
    beside = all_files(report) if keep_files else {}
    for name, content in beside.items():
        write_text(folder / name, content)
    write_text(out, text)
    return {
        "out": str(out), "bytes": len(text.encode()), "verdict": report.verdict.sentence,
        "runs": [str(run.path) for run in report.runs], "files": str(folder) if keep_files else None, "written": sorted(beside),
    }  # fmt: skip
