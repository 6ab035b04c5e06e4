"""Whatever bytes a file holds: no crash but our own errors, and rows in = rows out + rejects."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.raw.recipe import load_recipe, shipped_recipes
from recnas.errors import RecnasError

TEXT_RECIPES = [name for name in shipped_recipes() if load_recipe(name).format == "text"]
junk = st.one_of(st.binary(max_size=40), st.just(b""), st.just(b"\xff\xfe\t,"), st.just(b'"'), st.just(b"\r"))
SKIP = PrepareOptions(on_error="skip", min_count=1, parquet=False)


def skipping(name: str) -> PrepareOptions:
    """One file cannot be a ready split, so recipes of such data are given another protocol."""
    return replace(SKIP, protocol="random-8-1-1") if load_recipe(name).protocol == "files" else SKIP


def good_line(name: str, k: int) -> bytes:
    recipe = load_recipe(name)
    kinds = {column.source: (column.kind, column.suffix or "") for column in recipe.input_columns(True)}
    cells = []
    for column in recipe.columns or ("label", "price", "user", "item"):
        if column == recipe.label.column:
            cells.append(str(k % 2 * (5 if name == "movielens" else 1)))
        elif column == "hour":
            cells.append(f"1410{21 + k % 5}0{k % 10}")
        else:
            cells.append(f"{k % 7}{kinds.get(column, ('', ''))[1]}")
    return recipe.separator.join(cells).encode()


@pytest.mark.parametrize("name", TEXT_RECIPES)
@settings(max_examples=10)
@given(st.lists(junk, max_size=6), st.integers(0, 2**32))
def test_no_row_is_lost(tmp_path_factory, name: str, bad: list[bytes], seed: int):
    folder: Path = tmp_path_factory.mktemp("bad")
    recipe = load_recipe(name)
    lines = [good_line(name, k) for k in range(60)]
    for k, text in enumerate(bad):
        lines.insert((seed // (k + 1)) % len(lines) + 1, text)  # after the first line, which names the file's kind
    if recipe.header:
        lines.insert(0, recipe.separator.join(recipe.columns or ("label", "price", "user", "item")).encode())
    text = b"\n".join(lines) + b"\n"
    (folder / "raw").write_bytes(text)
    for join in recipe.joins:
        (folder / join.file).write_text("1\t1\t2\n2\t2\t3\n")
    data = prepare(name, [folder / "raw"], folder / "out", skipping(name))
    rows_in = text.count(b"\n") - (1 if recipe.header else 0)
    assert data.manifest["rows_in"] == rows_in
    assert rows_in == sum(data.manifest["rows"].values()) + data.manifest["rejects"]
    if data.manifest["rejects"]:
        assert len((folder / "out" / "rejects.tsv").read_text().split("\n")) == data.manifest["rejects"] + 2


@pytest.mark.parametrize("name", sorted(shipped_recipes()))
@settings(max_examples=10)
@given(st.binary(min_size=1, max_size=300))
def test_any_bytes_give_an_error_of_ours_or_a_result(tmp_path_factory, name: str, content: bytes):
    folder: Path = tmp_path_factory.mktemp("any")
    (folder / "raw").write_bytes(content)
    for join in load_recipe(name).joins:
        (folder / join.file).write_text("1\t1\t2\n")
    try:
        data = prepare(name, [folder / "raw"], folder / "out", skipping(name))
    except RecnasError:
        return
    assert data.manifest["rows_in"] == sum(data.manifest["rows"].values()) + data.manifest["rejects"]


@settings(max_examples=10)
@given(
    st.lists(st.one_of(st.none(), st.floats(), st.integers(-3, 3)), min_size=40, max_size=40),
    st.lists(st.one_of(st.none(), st.text(max_size=5)), min_size=40, max_size=40),
)
def test_parquet_rows_are_not_lost_either(tmp_path_factory, prices, users):
    folder: Path = tmp_path_factory.mktemp("pq")
    buffer = io.BytesIO()
    columns = {
        "label": [k % 2 if k % 11 else 7 for k in range(40)],
        "price": pa.array([None if p is None else float(p) for p in prices], pa.float64()),
        "user": users,
        "item": users[::-1],
    }
    try:
        pq.write_table(pa.table(columns), buffer)
    except UnicodeEncodeError:
        return
    (folder / "raw.parquet").write_bytes(buffer.getvalue())
    data = prepare("parquet", [folder / "raw.parquet"], folder / "out", SKIP)
    assert data.manifest["rejects"] >= 4
    assert data.manifest["rows_in"] == 40 == sum(data.manifest["rows"].values()) + data.manifest["rejects"]
