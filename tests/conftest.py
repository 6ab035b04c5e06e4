"""Shared fixtures. Everything runs on data generated here; nothing outside the repository is needed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "recnas", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], print_blob=True
)
settings.load_profile("recnas")

JOBS = Path(__file__).parent / "jobs"
IN_EVERY_SPACE_SUITE = "test_keys_are_the_same_in_other_processes"  # of recnas.testing, which knows no marks of ours


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Jobs start workers: all of tests/jobs counts as `spawns`. Elsewhere tests that start processes say so themselves."""
    for item in items:
        if item.path.is_relative_to(JOBS) or item.name == IN_EVERY_SPACE_SUITE:
            item.add_marker(pytest.mark.spawns)


@pytest.fixture(scope="session")
def criteo_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20,000 generated rows in Criteo's raw format."""
    from recnas.data.synthetic import generate

    path = tmp_path_factory.mktemp("synth") / "criteo.tsv"
    generate("criteo", 20_000, 1, path)
    return path


@pytest.fixture(scope="session")
def criteo_data(criteo_file: Path, tmp_path_factory: pytest.TempPathFactory):
    """The same rows, prepared. Read only."""
    from recnas.data.prepare.options import PrepareOptions
    from recnas.data.prepare.prepare import prepare

    return prepare("criteo", [criteo_file], tmp_path_factory.mktemp("prepared") / "criteo", PrepareOptions(min_count=5))
