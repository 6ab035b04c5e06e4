"""Where checks against published results keep their runs, and where their tables go."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def paper_runs() -> Path:
    """Where runs are kept, so that a check that was stopped continues."""
    return Path(os.environ.get("RECNAS_PAPER_RUNS", ROOT / "paper-runs"))


@pytest.fixture(scope="session")
def write_down() -> Callable[[str, str, Sequence[str]], None]:
    """Puts lines between the marks of a part of a page in docs/results (RECNAS_PAPER_RESULTS), in place of what was there."""

    def write(page: str, part: str, lines: Sequence[str]) -> None:
        mark = f"<!-- {part} -->"
        path = Path(os.environ.get("RECNAS_PAPER_RESULTS", ROOT / "docs" / "results")) / page
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text() if path.exists() else ""
        before, _, rest = text.partition(mark)
        _, _, after = rest.partition(mark)
        gap = "" if mark in text or not before else "\n"
        path.write_text(before + gap + "\n".join([mark, *lines]) + "\n" + mark + (after or "\n"))

    return write
