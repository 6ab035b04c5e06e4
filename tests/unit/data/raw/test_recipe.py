from __future__ import annotations

from pathlib import Path

import pytest

from recnas.data.raw.recipe import load_recipe, shipped_recipes
from recnas.data.raw.sections import expand_names
from recnas.errors import ConfigError
from recnas.resources import resource_dir


def test_every_shipped_recipe_loads_and_is_complete():
    assert set(shipped_recipes()) >= {"criteo", "avazu", "kdd12", "frappe", "frappe_x1", "movielens", "csv", "parquet"}
    for name, path in shipped_recipes().items():
        recipe = load_recipe(name)
        assert recipe.name == name
        assert recipe.title
        assert path.with_name("README.md").read_text().startswith("# ")


def test_criteo_has_the_shape_of_the_papers():
    inputs = load_recipe("criteo").input_columns()
    assert sum(column.is_dense for column in inputs) == 13
    assert sum(not column.is_dense for column in inputs) == 26


def test_no_python_lives_under_datasets():
    assert list(resource_dir("datasets").rglob("*.py")) == []


def test_ranges_expand():
    assert expand_names(["user_2_0..2", "v2_8..v2_9"]) == ("user_2_0", "user_2_1", "user_2_2", "v2_8", "v2_9")
    assert expand_names(["label", "I1..I3", "C9..C10"]) == ("label", "I1", "I2", "I3", "C9", "C10")


def test_unknown_recipe_suggests_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'criteo'"):
        load_recipe("critteo")


def test_all_faults_of_a_recipe_come_at_once(tmp_path: Path):
    path = tmp_path / "bad.yaml"
    path.write_text(
        "name: bad\nseperator: ','\nheader: maybe\nlabel: {colum: y}\nsparse: [{columns: [a], kind: strng}]\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_recipe(str(path))
    text = str(caught.value)
    for part in (
        "'seperator'; did you mean 'separator'",
        "header",
        "'label.colum'; did you mean 'column'",
        "sparse.0.kind",
        "label.column is required",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\nlabel: {column: y}\nsparse: [{columns: [a]}]\n", "columns is required"),
        ("name: x\nheader: true\nlabel: {column: y}\nsparse: [{columns: [a, a]}]\n", "inputs named twice: a"),
        ("name: x\ncolumns: [y, a]\nlabel: {column: y}\nsparse: [{columns: [b]}]\n", "not in columns: b"),
        (
            "name: x\nheader: true\nseparator: '::'\nlabel: {column: y}\nsparse: [{columns: [b]}]\n",
            "one ASCII character",
        ),
    ],
)
def test_inconsistent_recipes_say_why(tmp_path: Path, text: str, message: str):
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_recipe(str(path))


@pytest.mark.parametrize("fill", ["1e39", "-.inf", ".nan"])
def test_a_filling_that_is_no_32_bit_number_is_a_fault_of_the_recipe(tmp_path: Path, fill: str):
    path = tmp_path / "r.yaml"
    path.write_text(f"name: x\nheader: true\nlabel: {{column: y}}\ndense: [{{columns: [p], fill: {fill}}}]\n")
    with pytest.raises(ConfigError, match="fill"):
        load_recipe(str(path))
