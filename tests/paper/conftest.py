"""Where the files for checks against published figures lie, and where the figures go."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def paper_runs() -> Path:
    """Where runs are kept, so that a check that was stopped goes on."""
    return Path(os.environ.get("RECNAS_PAPER_RUNS", HERE.parents[1] / "paper-runs"))


@pytest.fixture(scope="session")
def write_down() -> Callable[[str, Sequence[str]], None]:
    """Puts lines between the marks of a part in README.md (RECNAS_PAPER_README), in place of what was there."""

    def write(part: str, lines: Sequence[str]) -> None:
        mark = f"<!-- {part} -->"
        path = Path(os.environ.get("RECNAS_PAPER_README", HERE / "README.md"))
        text = path.read_text() if path.exists() else ""
        before, _, rest = text.partition(mark)
        _, _, after = rest.partition(mark)
        gap = "" if mark in text or not before else "\n"
        path.write_text(before + gap + "\n".join([mark, *lines]) + "\n" + mark + (after or "\n"))

    return write
