"""Fixtures of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def short_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3,000 generated rows in Criteo's raw format: for jobs that train many networks."""
    from recnas.data.synthetic import generate

    path = tmp_path_factory.mktemp("short") / "criteo.tsv"
    generate("criteo", 3_000, 1, path)
    return path


@pytest.fixture(scope="session")
def short_data(short_file: Path, tmp_path_factory: pytest.TempPathFactory):
    """The same rows, prepared. Read only."""
    from recnas.data.prepare.options import PrepareOptions
    from recnas.data.prepare.prepare import prepare

    return prepare("criteo", [short_file], tmp_path_factory.mktemp("prepared") / "short", PrepareOptions(min_count=5))
