"""What to type next; only what works for the task of the run."""

from __future__ import annotations

import shlex

from recnas.runs.run import Run


def compare_command(run: Run, more: str = "") -> str:
    """Against hand-crafted models on the same rows; for searches on clicks."""
    data = run.data.path if run.data is not None and run.data.path is not None else "DATA"
    return (
        f"recnas compare --data {shlex.quote(data)} --models dlrm deepfm dcn-v2 {_quoted(run)}:best{more} "
        "--out runs/compare"
    )


def resume_command(run: Run) -> str:
    return f"recnas search --resume {_quoted(run)}"


def draw_command(run: Run) -> str:
    return f"recnas draw {_quoted(run)}:best -o best.svg"


def next_commands(run: Run) -> list[str]:
    """Commands that make sense now."""
    if not run.finished:
        return [
            resume_command(run) if run.is_search else f"repeat the command it was started with, --out {_quoted(run)}"
        ]
    report = f"recnas report {_quoted(run)} -o report.html"
    if run.searches_clicks:
        return [compare_command(run), f"recnas report {_quoted(run)} runs/compare -o report.html"]
    if run.is_search:
        return [report, draw_command(run)]
    return [report] if run.kind in ("compare", "train") else []


def _quoted(run: Run) -> str:
    return shlex.quote(str(run.path))
