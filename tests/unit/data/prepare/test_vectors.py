"""Pre-trained vectors: from a file to rows in id order, and what is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recnas.cli.main import main
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepare.vectors import directions
from recnas.data.prepared import PreparedData
from recnas.data.raw.recipe import load_recipe
from recnas.errors import ConfigError, DataError
from tests.unit.data.prepare.vector_logs import RECIPE, log_of, vectors_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    log_of(tmp_path, 400)
    return tmp_path


def made(folder: Path, out: str = "d", recipe: str = RECIPE, **options: object) -> PreparedData:
    (folder / "r.yaml").write_text(recipe)
    return prepare(str(folder / "r.yaml"), [folder / "log.csv"], folder / out, PrepareOptions(**options))


def test_rows_are_in_id_order_and_counted(folder: Path, capsys):
    data = made(folder)
    known = vectors_of()
    rows, basis = data.read_vectors("item")
    vocabulary = pq.read_table(data.path / "vocab" / "item.parquet").column("value").to_pylist()
    assert rows.shape == (2 + len(vocabulary), 6)
    assert np.isnan(rows[:2]).all()
    for value, row in zip(vocabulary, rows[2:]):
        if value in known:
            assert row.tolist() == known[value]
        else:
            assert np.isnan(row).all()
    found = sum(value in known for value in vocabulary)
    assert 0 < found < len(vocabulary)
    digest = hashlib.sha256((folder / "items.parquet").read_bytes()).hexdigest()
    about = {
        "file": "items.parquet",
        "sha256": digest,
        "width": 6,
        "values": len(vocabulary),
        "found": found,
        "train": True,
    }
    assert data.vectors == {"item": about}
    np.testing.assert_allclose(basis.T @ basis, np.eye(6), atol=1e-6)
    assert data.verify() == []
    assert main(["inspect", str(data.path)]) == 0
    assert f"vectors of item: {found} of {len(vocabulary)} values have one" in capsys.readouterr().out


def test_directions_are_those_of_a_singular_value_decomposition():
    rows = np.random.default_rng(0).normal(size=(50, 5)) * [5, 1, 3, 0.2, 2]
    found = directions(rows)
    _, strength, wanted = np.linalg.svd(rows, full_matrices=False)
    np.testing.assert_allclose(np.abs(found), np.abs(wanted.T), atol=1e-8)
    np.testing.assert_allclose(np.linalg.norm(rows @ found, axis=0), strength)


def test_npy_gives_the_same_data_and_the_file_decides_the_fingerprint(folder: Path):
    data = made(folder)
    known = vectors_of()
    array = np.array([(key, vector) for key, vector in known.items()], dtype=[("id", "U8"), ("vector", "f4", (6,))])
    np.save(folder / "items.npy", array)
    same = made(folder, "npy", RECIPE.replace("items.parquet", "items.npy"))
    assert same.fingerprint == data.fingerprint
    bare = made(folder, "bare", "\n".join(line for line in RECIPE.splitlines() if not line.startswith("vectors")))
    assert bare.fingerprint != data.fingerprint
    assert bare.vocabulary == data.vocabulary  # a model can be given either: its tables are its own
    assert "vectors" not in bare.manifest
    assert "vectors" not in bare.manifest["options"]["recipe"]
    for name in ("train/ids.i32", "train/label.i8", "schema.json"):
        assert bare.manifest["checksums"][name] == data.manifest["checksums"][name]
    known["i3"][0] += 1
    log_of(folder, 400, known)
    with pytest.raises(DataError, match=r"other options: vectors\.item"):
        made(folder)
    assert made(folder, "other").fingerprint != data.fingerprint


def test_numbers_as_ids_and_plain_arrays(folder: Path):
    rows = pd.read_csv(folder / "log.csv")
    rows["item"] = rows.item.str[1:].astype(int)
    rows.to_csv(folder / "log.csv", index=False)
    recipe = RECIPE.replace("[{columns: [user, item]}]", "[{columns: [user]}, {columns: [item], kind: int}]")
    array = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    np.save(folder / "items.npy", array)
    data = made(folder, recipe=recipe.replace("items.parquet", "items.npy"))
    found, _ = data.read_vectors("item")
    vocabulary = pq.read_table(data.path / "vocab" / "item.parquet").column("value").to_pylist()
    for value, row in zip(vocabulary, found[2:]):
        assert row.tolist() == array[int(value)].tolist() if int(value) < 9 else np.isnan(row).all()


def written(folder: Path, ids: list, vectors: list, **types: object) -> None:
    pq.write_table(pa.table({"id": ids, "vector": pa.array(vectors, **types)}), folder / "items.parquet")


@pytest.mark.parametrize(
    ("ids", "vectors", "said"),
    [
        (["i1", "i2"], [[1.0, 2.0], [1.0]], "vectors of 1, 2 numbers"),
        (["i1", "i2"], [[1.0, float("nan")], [1.0, 2.0]], "1 vectors hold NaN or infinite numbers, the first that of 'i1'"),
        (["i1", "i2"], [[1.0, float("inf")], [1.0, 2.0]], "NaN or infinite"),
        (["i1", "i2"], [[1.0, None], [1.0, 2.0]], "NaN or infinite"),
        (["i1", "i1"], [[1.0, 2.0], [1.0, 2.0]], "1 ids more than once, such as 'i1'"),
        (["i1", None], [[1.0, 2.0], [1.0, 2.0]], "without an id or without a vector"),
        (["i1", "i2"], [[1.0, 2.0], None], "without an id or without a vector"),
        (["i1", "i2"], ["a", "b"], "vectors are lists of numbers"),
        (["x", "y"], [[1.0], [2.0]], "a vector for none of the .* values of item; it has some for 'x', 'y'"),
        ([], [], "vectors are lists|holds no vectors"),
    ],
)  # fmt: skip
def test_files_that_are_refused(folder: Path, ids, vectors, said):
    written(folder, ids, vectors)
    with pytest.raises(DataError, match=said):
        made(folder)
    assert not (folder / "d" / "manifest.json").exists()


def test_other_refusals(folder: Path):
    (folder / "items.parquet").rename(folder / "elsewhere.parquet")
    with pytest.raises(DataError, match=r"vectors of item in items.parquet, which is not at") as error:
        made(folder)
    assert "--side" in error.value.fix
    (folder / "sub").mkdir()
    (folder / "elsewhere.parquet").rename(folder / "sub" / "items.parquet")
    data = made(folder, side=(str(folder / "sub" / "items.parquet"),))
    assert data.vectors["item"]["found"] > 0
    pq.write_table(pa.table({"key": ["i1"], "vector": [[1.0]]}), folder / "items.parquet")
    with pytest.raises(DataError, match="has no column id; it has key, vector"):
        made(folder, "e")
    (folder / "items.parquet").write_text("no Parquet")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        made(folder, "e")
    for change, said in (
        ("column: itm", "which is no sparse column; did you mean 'item'"),
        ("column: price", "which is no sparse column"),
        ("column: hashed", "hashed or buckets"),
    ):
        (folder / "r.yaml").write_text(
            RECIPE.replace("column: item", change).replace(
                "[user, item]}", "[user, item]}, {columns: [hashed], hash: 9}"
            )
        )
        with pytest.raises(ConfigError, match=said):
            load_recipe(str(folder / "r.yaml"))


def test_the_next_day_keeps_the_file(folder: Path, tmp_path_factory):
    first = made(folder)
    day = tmp_path_factory.mktemp("day")
    log_of(day, 300, seed=5, items=14)
    second = prepare(
        None, [day / "log.csv"], day / "d", PrepareOptions(extend=str(first.path), protocol="random-8-1-1")
    )
    rows, basis = second.read_vectors("item")
    before, same = first.read_vectors("item")
    np.testing.assert_array_equal(rows[: len(before)], before)
    np.testing.assert_array_equal(basis, same)
    assert len(rows) > len(before)
    known = vectors_of()
    known["i1"][0] += 1
    log_of(day, 300, known, seed=5)
    with pytest.raises(DataError, match="is not the file that"):
        prepare(None, [day / "log.csv"], day / "e", PrepareOptions(extend=str(first.path), protocol="random-8-1-1"))
