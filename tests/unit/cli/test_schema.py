"""The list of all settings: read from the classes and their comments."""

from __future__ import annotations

import json
import re

import pytest
from pydantic import BaseModel

from recnas.cli.main import main
from recnas.cli.schema import FAMILIES, settings_of, settings_rows


def key_exists(cls: type[BaseModel], key: str) -> bool:
    """Whether a settings class takes a key, by pydantic's own description of it."""
    schema = cls.model_json_schema()
    nodes = [schema]
    for part in key.split("."):
        name, _, choice = part.partition("[")
        found = []
        for node in nodes:
            for one in _options(node, schema):
                if name in one.get("properties", {}):
                    found += _options(one["properties"][name], schema)
        if choice:
            found = [
                one for one in found if one.get("properties", {}).get("method", {}).get("const") == choice.rstrip("]")
            ]
        if not found:
            return False
        nodes = found
    return True


def _options(node: dict, schema: dict) -> list[dict]:
    """The node itself, or what it refers to or may be."""
    if "$ref" in node:
        return _options(schema["$defs"][node["$ref"].rpartition("/")[2]], schema)
    choices = node.get("anyOf") or node.get("oneOf") or node.get("allOf")
    return [inner for choice in choices for inner in _options(choice, schema)] if choices else [node]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_setting_has_a_type_and_a_meaning(family: str):
    rows = settings_rows(settings_of(family))
    keys = [row.key for row in rows]
    assert len(keys) == len(set(keys))
    for row in rows:
        assert row.type
        assert not re.search("typing|<class|Union|Literal|None", row.type), row
        assert "PydanticUndefined" not in row.default
        assert key_exists(settings_of(family), row.key), row.key
    # The others are choices that the row above them lists.
    assert {row.key.rpartition(".")[2] for row in rows if not row.meaning} <= {"task", "method", "search"}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_setting_is_left_out(family: str):
    listed = {re.sub(r"\[.*?\]", "", row.key) for row in settings_rows(settings_of(family))}
    schema = settings_of(family).model_json_schema()

    def walk(node: dict, prefix: str) -> set[str]:
        found = set()
        for one in _options(node, schema):
            for name, inner in one.get("properties", {}).items():
                found |= {prefix + name} | walk(inner, f"{prefix}{name}.")
        return found

    assert walk(schema, "") == listed


def test_defaults_are_those_of_the_class():
    rows = {row.key: row for row in settings_rows(settings_of("search"))}
    assert rows["seed"].default == "0"
    assert rows["final.candidates"].default == "15"
    assert rows["final.rows"].default == "null"
    assert rows["supernet.head_lr_share"].default == "0.05"
    assert rows["search[evolution].mutations"].type == "falling | int"
    assert rows["score.proxies"].type == "tuple[str, ...]"
    assert rows["final.rows"].type == "int | null"
    assert rows["evaluator"].type == "proxy | shared-weights | training | none"
    assert rows["final.candidates"].meaning == "trained from scratch; validation chooses"
    assert not any(key.startswith("final.train.head_lr_share") for key in rows)


def test_the_command(capsys):
    assert main(["configs", "schema", "search"]) == 0
    text = capsys.readouterr().out
    assert "search[evolution].population" in text
    assert text.splitlines()[0].split() == ["setting", "type", "default", "meaning"]
    assert main(["configs", "schema", "search", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"key", "type", "default", "meaning"} == set(rows[0])
    assert "search[evolution].population" in {row["key"] for row in rows}
    assert main(["configs", "schema", "serch"]) == 2
    assert "did you mean 'search'" in capsys.readouterr().err
