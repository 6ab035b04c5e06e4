"""Headers that are not quite those of the recipe: what is let through, and what is said about the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recnas.data.prepare.prepare import prepare
from recnas.errors import DataError

RECIPE = """
name: own
separator: ","
header: true
columns: [clicked, price, age, user, item, city, hour]
label: {column: clicked}
dense: [{columns: [price, age], transform: none, standardise: false}]
sparse: [{columns: [user, item]}]
"""
COLUMNS = ["clicked", "price", "age", "user", "item", "city", "hour"]


def log_of(folder: Path, header: list[str], columns: str = "") -> tuple[str, list[Path]]:
    """A log whose cells say which column they are of."""
    cells = {"clicked": "{b}", "price": "{i}", "age": "{i}.5", "user": "u{b}", "item": "i{b}"}
    lines = [",".join(cells.get(name, "other").format(i=i, b=i % 2) for name in header) for i in range(100)]
    (folder / "log.csv").write_text("\n".join([",".join(header), *lines]) + "\n")
    text = RECIPE if not columns else RECIPE.replace(RECIPE.splitlines()[4], columns)
    (folder / "own.yaml").write_text(text)
    return str(folder / "own.yaml"), [folder / "log.csv"]


@pytest.mark.parametrize("place", [0, 3, 7])
def test_other_columns_may_stand_between_those_of_the_recipe(place: int, tmp_path: Path):
    header = [*COLUMNS[:place], "origin", *COLUMNS[place:]]
    data = prepare(*log_of(tmp_path, header), tmp_path / "d")
    dense = np.asarray(data.array("train", "dense"))
    assert (dense[:, 1] - dense[:, 0] == 0.5).all()
    assert data.manifest["cardinality"] == {"user": 4, "item": 4}
    assert data.manifest["columns"] == header


FAULTS = {
    "a column is missing": (["clicked", "price", "age", "user", "item", "city"], "it has no hour"),
    "one has another name": ([*COLUMNS[:6], "time"], "it has no hour; it has time besides"),
    "two places are exchanged": (
        ["clicked", "price", "age", "item", "user", "city", "hour"],
        "the order differs from the 4th column on, which is item and should be user",
    ),
    "a column is there twice": ([*COLUMNS, "user"], "user stands there more than once"),
    "another file": (["a", "b"], "it has no clicked, price, age, user, item, city and 1 more (none of its columns is there); it has a, b besides"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_differs_is_named(fault: str, tmp_path: Path):
    header, said = FAULTS[fault]
    with pytest.raises(DataError) as caught:
        prepare(*log_of(tmp_path, header), tmp_path / "d")
    assert f"the header is not the one of own: {said}." in str(caught.value)
    assert "change `columns` in the recipe" in str(caught.value)


def test_a_column_that_is_read_must_not_be_there_twice(tmp_path: Path):
    given = log_of(tmp_path, [*COLUMNS, "user"], columns="source: nowhere")
    with pytest.raises(DataError, match="names user more than once"):
        prepare(*given, tmp_path / "d")
    given = log_of(tmp_path, [*COLUMNS, "city"], columns="source: nowhere")
    prepare(*given, tmp_path / "d")
