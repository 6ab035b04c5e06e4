"""docs/recipes.md is the reference of the recipe language: complete, and every example loads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from recnas.data.prepare.split import PROTOCOLS
from recnas.data.raw.bag_sections import BagGroup, SequenceGroup
from recnas.data.raw.recipe import MISSING_NUMBERS, Recipe, load_recipe
from recnas.data.raw.sections import (
    DenseGroup,
    Derivation,
    Join,
    Label,
    SparseGroup,
    SparseKind,
    TimeFormat,
    TimeOrder,
    Transform,
    Weight,
)

DOCS = Path(__file__).parents[4] / "docs"
PAGE = (DOCS / "recipes.md").read_text()
SECTIONS = {
    "The file": Recipe,
    "`label`": Label,
    "`weight`": Weight,
    "`dense`": DenseGroup,
    "`sparse`": SparseGroup,
    "`bags`": BagGroup,
    "`sequences`": SequenceGroup,
    "`joins`": Join,
    "`time`": TimeOrder,
}
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("title", "settings"), SECTIONS.items(), ids=list(SECTIONS))
def test_every_key_has_its_row_and_no_row_is_of_the_past(title: str, settings):
    (section,) = [part for part in PAGE.split("\n## ") if part.startswith(title)]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|", section, re.MULTILINE)
    assert {name for name, _, _ in rows} == set(settings.model_fields)
    for name, _, default in rows:
        field = settings.model_fields[name]
        assert (default == "required") == field.is_required()
        if default.startswith("`") or default.isdigit() or default in ("true", "false"):
            assert yaml.safe_load(default.strip("`")) == field.default


def test_every_name_a_key_can_take_is_on_the_page():
    names = [
        *get_args(SparseKind),
        *get_args(TimeFormat),
        *get_args(Transform),
        *get_args(Derivation),
        *PROTOCOLS,
        *MISSING_NUMBERS,
    ]
    for name in names:
        assert f"`{name}`" in PAGE


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: text.split("\n")[0].removeprefix("name: "))
def test_every_example_loads(text: str, tmp_path: Path):
    (tmp_path / "r.yaml").write_text(text)
    assert load_recipe(str(tmp_path / "r.yaml")).input_columns()


def test_the_page_can_be_found():
    assert len(EXAMPLES) >= 6
    for page in ("README.md", "prepare.md"):
        assert "(recipes.md)" in (DOCS / page).read_text()
