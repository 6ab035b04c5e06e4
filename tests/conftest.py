"""Shared fixtures. Everything runs on data generated here; nothing outside the repository is needed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "recnas", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], print_blob=True
)
settings.load_profile("recnas")

STARTING = [Path(__file__).parent / name for name in ("jobs", "attack")]
IN_EVERY_SPACE_SUITE = "test_keys_are_the_same_in_other_processes"  # of recnas.testing, which knows no marks of ours


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Jobs and attacks start processes: all of tests/jobs and tests/attack counts as `spawns`. Elsewhere tests that start processes say so themselves."""
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in STARTING) or item.name == IN_EVERY_SPACE_SUITE:
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


WEIGHTED_RECIPE = """
name: weighted
separator: ","
header: true
label: {column: clicked}
weight: {column: heavy}
dense: [{columns: [price], transform: none}, {columns: [seen]}]
sparse: [{columns: [user, item]}]
"""


@pytest.fixture(scope="session")
def weighted_rows():
    """Makes generated rows of a small log with weights 1, 2 and 3 that say something about clicks."""
    import numpy as np
    import pandas as pd

    def make(rows: int, seed: int = 0) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        user, item, price = rng.integers(0, 12, rows), rng.integers(0, 9, rows), rng.normal(size=rows).round(3)
        logit = np.linspace(-1.5, 1, 12)[user] + np.linspace(0.8, -0.8, 9)[item] + 0.7 * price - 0.5
        clicked = (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(int)
        heavy = np.where(clicked == 1, rng.integers(1, 3, rows), rng.integers(1, 4, rows))
        seen = rng.integers(0, 30, rows)
        columns = {"clicked": clicked, "heavy": heavy, "price": price, "seen": seen}
        return pd.DataFrame({**columns, "user": [f"u{u}" for u in user], "item": [f"i{i}" for i in item]})

    return make


@pytest.fixture(scope="session")
def weighted_recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "weighted.yaml"
    path.write_text(WEIGHTED_RECIPE)
    return path


@pytest.fixture(scope="session")
def weighted_data(weighted_rows, weighted_recipe: Path, tmp_path_factory: pytest.TempPathFactory):
    """4,000 rows with weights, prepared. Read only."""
    from recnas.data.prepare.prepare import prepare

    folder = tmp_path_factory.mktemp("weighted")
    weighted_rows(4000).to_csv(folder / "log.csv", index=False)
    return prepare(str(weighted_recipe), [folder / "log.csv"], folder / "data")


BAGGED_RECIPE = """
name: bagged
separator: ","
quote: true
header: true
label: {column: clicked}
dense: [{columns: [price], transform: none}]
sparse: [{columns: [item, user]}]
bags:
  - {columns: [genres], max_values: 4, pool: sum, missing: ["(none)"]}
  - {columns: [codes], kind: int, separator: ";", max_values: 3, pool: max, min_count: 3}
sequences: [{columns: [last], shares: item, max_values: 5, pool: attention}]
"""


@pytest.fixture(scope="session")
def bagged_rows():
    """Makes generated rows with bags and a sequence; genres hold the separator of the file."""
    import numpy as np
    import pandas as pd

    def make(rows: int, seed: int = 0) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        genres, codes = (
            np.array(["a", "b", "c, d", "é", "(none)", ""]),
            np.array(["7", "-5", "1000000", "NA", "3", "4"]),
        )
        item, user, price = rng.integers(0, 14, rows), rng.integers(0, 9, rows), rng.normal(size=rows).round(3)
        bag = [rng.choice(6, n, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.1]) for n in rng.integers(0, 7, rows)]
        seen = [rng.integers(0, 17, n) for n in rng.integers(0, 9, rows)]
        logit = np.array([(one == 0).sum() - (one == 1).sum() for one in bag]) + 0.2 * (item - 7) + 0.5 * price
        logit += [0.7 * (i in one) for i, one in zip(item, seen)]
        return pd.DataFrame(
            {
                "clicked": (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(int),
                "price": price,
                "item": [f"i{i}" for i in item],
                "user": [f"u{u}" for u in user],
                "genres": ["|".join(genres[one]) for one in bag],
                "codes": [";".join(codes[rng.integers(0, 6, n)]) for n in rng.integers(0, 5, rows)],
                "last": [
                    " ".join([f"i{i}" for i in one] + [f"only{row}"] * (row % 50 == 7)) for row, one in enumerate(seen)
                ],
            }
        )

    return make


@pytest.fixture(scope="session")
def bagged_recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "bagged.yaml"
    path.write_text(BAGGED_RECIPE)
    return path


@pytest.fixture(scope="session")
def bagged_data(bagged_rows, bagged_recipe: Path, tmp_path_factory: pytest.TempPathFactory):
    """4,000 rows with bags, prepared. Read only."""
    from recnas.data.prepare.prepare import prepare

    folder = tmp_path_factory.mktemp("bagged")
    bagged_rows(4000).to_csv(folder / "log.csv", index=False)
    return prepare(str(bagged_recipe), [folder / "log.csv"], folder / "data")
