"""A recipe that is proposed for a file loads, prepares that file, and says what the file is."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recnas.cli.main import main
from recnas.data.guess.recipe import guess_recipe
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepared import PreparedData
from recnas.data.raw.recipe import Recipe, load_recipe, shipped_recipes
from recnas.errors import DataError

SAMPLES = [
    (name, sample) for name, path in shipped_recipes().items() for sample in sorted(path.parent.glob("sample.*"))
]


def guessed(file: Path, folder: Path, **options) -> tuple[Recipe, PreparedData]:
    (folder / "r.yaml").write_text(guess_recipe(file, **options))
    data = prepare(str(folder / "r.yaml"), [file], folder / "d", PrepareOptions(parquet=False), threads=1)
    return load_recipe(str(folder / "r.yaml")), data


@pytest.mark.parametrize(("name", "sample"), SAMPLES, ids=[sample.parent.name for _, sample in SAMPLES])
def test_samples_of_shipped_recipes(name: str, sample: Path, tmp_path: Path):
    shipped = load_recipe(name)
    label = shipped.label.column if shipped.header else f"c{shipped.columns.index(shipped.label.column) + 1}"
    recipe, data = guessed(sample, tmp_path, label=label)
    assert recipe.format == shipped.format
    if shipped.format == "text":
        assert (recipe.separator, recipe.header) == (shipped.separator, shipped.header)
    assert data.manifest["rejects"] == 0
    assert data.manifest["rows_in"] > 0


def rows(n: int = 400) -> tuple[list[str], list[list[str]]]:
    rng = np.random.default_rng(0)
    names = [
        "event_id",
        "clicked",
        "user_id",
        "price",
        "stock",
        "at",
        "country",
        "agent",
        "weather",
        "zip",
        "tags",
        "constant",
        "score",
    ]
    body = [
        [
            f"e{i}",
            "yes" if rng.random() < 0.3 else "no",
            str(rng.integers(100, 300)),
            f"{rng.lognormal(1):.2f}" if i % 7 else "unknown",
            str(rng.integers(0, 5000)),
            f"2024-03-{1 + i // 40:02} {i % 24:02}:15:00",
            f"c{i % 5}",
            f'"Browser; {i % 3}"',
            f"{rng.normal(0, 9):.1f}",
            f"0{i % 90 + 1000}",
            "a|b" if i % 2 else "c|a|d",
            "same",
            f"{rng.random():.6f}",
        ]
        for i in range(n)
    ]
    return names, body


def test_a_log_of_many_kinds(tmp_path: Path, capsys):
    names, body = rows()
    (tmp_path / "log.csv.gz").write_bytes(
        gzip.compress(("\n".join(";".join(row) for row in [names, *body]) + "\n").encode())
    )
    assert main(["datasets", "guess", str(tmp_path / "log.csv.gz"), "-o", str(tmp_path / "mine.yaml")]) == 0
    assert "recnas prepare" in capsys.readouterr().out
    recipe = load_recipe(str(tmp_path / "mine.yaml"))
    assert (recipe.separator, recipe.quote, recipe.header) == (";", True, True)
    assert (recipe.label.column, recipe.label.at_least) == ("clicked", None)
    assert (recipe.time.column, recipe.time.format, recipe.protocol) == ("at", "iso", "time-ratio")
    inputs = {column.name: column for column in recipe.input_columns()}
    assert set(inputs) == {
        "price",
        "stock",
        "weather",
        "score",
        "user_id",
        "country",
        "agent",
        "zip",
        "tags",
        "at_hour",
        "at_weekday",
    }
    assert {name for name, column in inputs.items() if column.is_dense} == {"price", "stock", "weather", "score"}
    assert "unknown" in inputs["price"].missing
    assert (inputs["price"].transform, inputs["weather"].transform) == ("log1p", "standardise")
    assert (inputs["user_id"].kind, inputs["zip"].kind) == ("int", "string")
    text = (tmp_path / "mine.yaml").read_text()
    for said in (
        "event_id: nearly every row",
        "constant: one value",
        '{columns: ["tags"], separator: "|"}',
        'group: "user_id"',
    ):
        assert said in text
    data = prepare(str(tmp_path / "mine.yaml"), [tmp_path / "log.csv.gz"], tmp_path / "d", threads=1)
    assert (data.manifest["rejects"], sum(data.manifest["rows"].values())) == (0, 400)
    assert main(["datasets", "guess", str(tmp_path / "log.csv.gz"), "-o", str(tmp_path / "mine.yaml")]) == 2


def test_parquet_with_types_of_its_own(tmp_path: Path):
    n = 300
    table = pa.table(
        {
            "click": pa.array([i % 4 == 0 for i in range(n)]),
            "ts": pa.array([1_709_251_200_000 + i * 10_000 for i in range(n)]),
            "item_id": pa.array([i % 40 for i in range(n)]),
            "price": pa.array([float(i % 77) / 3 for i in range(n)]),
            "history": pa.array([[1, 2]] * n),
            "nested": pa.array([{"a": 1}] * n),
            "city": pa.array([f"c{i % 9}" for i in range(n)]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "log.parquet")
    recipe, data = guessed(tmp_path / "log.parquet", tmp_path)
    assert (recipe.format, recipe.label.column, recipe.time.format) == ("parquet", "click", "epoch-milliseconds")
    assert [field.name for field in data.schema.dense] == ["price"]
    assert {field.name for field in data.schema.sparse} == {"item_id", "city", "ts_hour", "ts_weekday", "history"}
    assert "nested: cells of type struct" in (tmp_path / "r.yaml").read_text()


def test_a_rating_is_a_label_if_it_is_named(tmp_path: Path):
    lines = [f"{i % 30}\t{i % 17}\t{1 + i % 5}\t{1_000_000_000 + i * 1000}" for i in range(200)]
    (tmp_path / "u.data").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match="cannot be told what a click is") as caught:
        guess_recipe(tmp_path / "u.data")
    assert "--label COLUMN" in str(caught.value)
    recipe, data = guessed(tmp_path / "u.data", tmp_path, label="c3")
    assert recipe.label.at_least == 4
    assert recipe.columns == ("c1", "c2", "c3", "c4")
    assert 0.3 < data.manifest["click_rate"]["train"] < 0.5
    with pytest.raises(DataError, match="has no column 'c9'"):
        guess_recipe(tmp_path / "u.data", label="c9")


def test_files_that_are_no_tables(tmp_path: Path):
    (tmp_path / "words").write_text("one\ntwo\nthree\n")
    with pytest.raises(DataError, match="no separator"):
        guess_recipe(tmp_path / "words")
    (tmp_path / "head.csv").write_text("y,a,b\n")
    with pytest.raises(DataError, match="no rows to look at"):
        guess_recipe(tmp_path / "head.csv")


def test_columns_of_several_values_are_bags(tmp_path: Path):
    rng = np.random.default_rng(0)
    genres = ["|".join(rng.choice(["a", "b", "c", "d", "e", "f"], n)) for n in rng.integers(1, 5, 300)]
    seen = [rng.integers(0, 50, n).tolist() for n in rng.integers(0, 6, 300)]
    clicked = rng.integers(0, 2, 300)
    lines = [f"{c},{g},x {i}; y" for i, (c, g) in enumerate(zip(clicked, genres))]
    (tmp_path / "log.csv").write_text("clicked,genres,agent\n" + "\n".join(lines) + "\n")
    recipe, data = guessed(tmp_path / "log.csv", tmp_path)
    assert [(group.columns, group.separator) for group in recipe.bags] == [(("genres",), "|")]
    assert data.schema.bags[0].rows == 2 + 6
    (tmp_path / "p").mkdir()
    names = [f"n{g}" for g in rng.integers(0, 4, 300)]
    pq.write_table(pa.table({"clicked": clicked, "seen": seen, "name": names}), tmp_path / "log.parquet")
    recipe, data = guessed(tmp_path / "log.parquet", tmp_path / "p")
    assert [(group.columns, group.kind) for group in recipe.bags] == [(("seen",), "int")]
    assert sum(data.manifest["bags"][split]["seen"]["values"] for split in ("train", "valid", "test")) == sum(
        map(len, seen)
    )
