"""Names are neither paths nor code, and YAML of strangers is neither a bomb nor a traceback."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recnas.config import Settings, apply_overrides, check_settings, load_settings
from recnas.data.raw.recipe import load_recipe
from recnas.data.raw.sections import expand_names
from recnas.data.schema import Schema
from recnas.errors import ConfigError
from recnas.names import name_fault, shown
from recnas.yaml_text import parse_yaml

HOSTILE = [
    "../../victim", "/abs/name", "a/b", "a\\b", "a\0b", "..", ".", ".hidden", "x..y", "", " ", " a", "a\n", "a\tb", "a\x1b[31mb", "a\u202eb",
    'x"""; import os; os.system("echo INJECTED"); """y', "it's", "`id`", "$(id)", "a\u2028b", "\ud800", "x" * 201, "é" * 101, 7, None,
]  # fmt: skip
HARMLESS = ["user", "user id", "C1", "I-1", "site_id", "Preis (€)", "广告", "a.b", "x" * 200, "50%", "a+b=c", "<b>"]


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_hostile_names_are_refused(name: object, tmp_path: Path):
    assert name_fault(name) is not None


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_names_are_not(name: str):
    assert name_fault(name) is None


@given(st.text(max_size=300))
def test_a_name_is_one_part_of_a_path_and_prints_as_it_is(name: str):
    if name_fault(name) is None:
        assert (Path("folder") / f"{name}.parquet").parent == Path("folder")
        assert shown(name) == name
        assert name.isprintable()


def test_terminals_are_told_nothing():
    assert shown("a\x1b[2Jb\rc\x9bd\u202ee\nf\tg") == "a\\x1b[2Jb\\x0dc\\x9bd\\x202ee\nf\tg"


RECIPE = """
name: {name}
header: true
separator: ","
label: {{column: clicked}}
dense: [{{columns: [{dense}]}}]
sparse: [{{columns: [{sparse}]}}]
joins: [{{file: {side}, key: user, columns: [{joined}]}}]
"""


@pytest.mark.parametrize("part", ["name", "dense", "sparse", "side", "joined"])
def test_every_name_of_a_recipe_is_checked(part: str, tmp_path: Path):
    names = {"name": "mine", "dense": "price", "sparse": "user", "side": "side.txt", "joined": "age"}
    path = tmp_path / "r.yaml"
    path.write_text(RECIPE.format(**names))
    load_recipe(str(path))
    for hostile in ("../../victim", "/etc/passwd", 'x"""y'):
        path.write_text(RECIPE.format(**names | {part: json.dumps(hostile)}))
        with pytest.raises(ConfigError, match=r"the name .* of a"):
            load_recipe(str(path))


def test_a_schema_of_strangers_is_checked():
    good = {"dense": [{"name": "I1"}], "sparse": [{"name": "C1", "rows": 5}]}
    Schema.from_dict(good)
    for bad in (
        good | {"sparse": [{"name": "../x", "rows": 5}]},
        good | {"sparse": [{"name": "C1", "rows": 54.5}]},
        good | {"sparse": [{"name": "C1", "rows": 10**12}]},
        good | {"sparse": [{"name": "C1", "rows": True}]},
        good | {"dense": [{"name": "I1", "std": float("nan")}]},
        good | {"dense": [{"name": "I1", "mean": "0"}]},
        good | {"dense": ["I1"]},
        good | {"dense": 3},
        {},
        [],
    ):
        with pytest.raises((ValueError, KeyError, TypeError)):
            Schema.from_dict(bad)


class Small(Settings):
    name: str = "a"
    lr: float = 0.1
    rows: int = 1
    columns: tuple[str, ...] = ()


BOMB = "a: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
BAD_YAML = [
    BOMB + "name: *a9", "name: 0b_", "name: !!bool x", "name: !!timestamp x", "name: !!int ''", "name: !!float x",
    "name: " + "1" * 5000, "[" * 3000 + "]" * 3000, "a: " * 100, "name: !!python/object/apply:os.system [id]", "name: &a [*a]",
    "name: !!set {a}", "name: !!binary x", "name: !!omap [a: 1]", "lr: .nan", "lr: .inf", "columns: true", "- 1", "a", "\0", "name: *b",
    "? [a, b]\n: 1", "1: 2", "name: 2001-99-99\nlr: 2001-01-01", "x: {<<: 3}",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_YAML, ids=lambda text: text[:20])
def test_strange_yaml_is_a_fault_of_the_file(text: str, tmp_path: Path):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(Small, path)
    assert len(str(caught.value)) < 3000


def test_dates_are_text():
    assert parse_yaml("a: 2001-99-99") == {"a": "2001-99-99"}


@given(st.text(max_size=60) | st.binary(max_size=40).map(lambda b: b.decode("latin1")))
def test_whatever_is_typed_is_taken_or_refused(text: str):
    data: dict = {}
    faults = apply_overrides(data, [f"name={text}"])
    with suppress(ConfigError):
        check_settings(Small, data, "test", faults, [f"name={text}"])


def test_ranges_of_columns_are_bounded():
    assert expand_names(["I1..I3"]) == ("I1", "I2", "I3")
    for many in (["I1..I3000000000"], ["I0..I" + "9" * 5000], ["a1..a90000", "b1..b90000"]):
        with pytest.raises(ValueError, match="more than 100,000 columns"):
            expand_names(many)
    for wrong in (True, "I1", [1], [None]):
        with pytest.raises(ValueError, match="a list of names"):
            expand_names(wrong)
