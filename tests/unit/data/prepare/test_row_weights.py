"""Weights of rows from the raw file to batches: kept with their rows, bad ones rejected, no effect on other data sets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from recnas.cli.main import main
from recnas.data.loader import BatchLoader
from recnas.data.prepare.arrayfile import ArrayFile
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepare.split import SPLITS
from recnas.data.raw.recipe import Recipe
from recnas.data.raw.sources import ReadySplit
from recnas.errors import ConfigError, DataError


def recipe_of(folder: Path, base: Path, **changes: object) -> str:
    """The recipe `base` with lines added or changed."""
    text = base.read_text()
    for key, value in changes.items():
        lines = [line for line in text.splitlines() if not line.startswith(f"{key}:")]
        text = "\n".join(lines if value is None else [*lines, f"{key}: {value}"]) + "\n"
    path = folder / f"recipe-{abs(hash(text))}.yaml"
    path.write_text(text)
    return str(path)


def test_every_row_keeps_its_weight(weighted_data, weighted_rows):
    rows = weighted_rows(4000)
    stored = {split: np.asarray(weighted_data.array(split, "weight")) for split in SPLITS}
    assert {array.dtype.str for array in stored.values()} == {"<f4"}
    # Prices are nearly unique and pass through unchanged, so they tell which raw row each stored row is.
    known = rows.drop_duplicates("price", keep=False).set_index("price")
    known.index = known.index.astype(np.float32)
    for split in SPLITS:
        price = np.asarray(weighted_data.array(split, "dense"))[:, 0]
        label = np.asarray(weighted_data.array(split, "label"))
        some = np.isin(price, known.index)
        assert some.sum() > 50
        assert stored[split][some].tolist() == known.loc[price[some]].heavy.tolist()
        assert label[some].tolist() == known.loc[price[some]].clicked.tolist()
        sums = weighted_data.manifest
        assert sums["weight"][split] == stored[split].sum()
        assert sums["click_rate"][split] == pytest.approx(np.average(label, weights=stored[split]))
        assert sums["effective_rows"][split] == pytest.approx(stored[split].sum() ** 2 / (stored[split] ** 2).sum())
        copy = pq.read_table(weighted_data.path / f"{split}.parquet")
        assert copy.column("weight").to_pylist() == stored[split].tolist()
    assert weighted_data.verify() == []


def test_batches_carry_weights_shuffled_or_not(weighted_data):
    whole = np.asarray(weighted_data.array("train", "weight"))
    dense = np.asarray(weighted_data.array("train", "dense"))
    batches = list(BatchLoader(weighted_data, "train", 300).epoch())
    assert np.concatenate([batch.weight for batch in batches]).tolist() == whole.tolist()
    pairs = {(float(row[0]), float(row[1]), float(heavy)) for row, heavy in zip(dense, whole)}
    mixed = list(BatchLoader(weighted_data, "train", 300, shuffle=True, seed=3).epoch())
    found = [(float(r[0]), float(r[1]), float(w)) for batch in mixed for r, w in zip(batch.dense, batch.weight)]
    assert set(found) == pairs
    assert len(found) == len(whole)


def test_data_without_weights_are_as_they_were(weighted_rows, weighted_recipe: Path, tmp_path: Path):
    weighted_rows(500).to_csv(tmp_path / "log.csv", index=False)
    plain = recipe_of(tmp_path, weighted_recipe, weight=None)
    data = prepare(plain, [tmp_path / "log.csv"], tmp_path / "d")
    assert not any("weight" in name for name in data.manifest["checksums"])
    assert {"weight", "effective_rows"}.isdisjoint(data.manifest)
    assert "weight" not in data.manifest["options"]["recipe"]
    assert next(BatchLoader(data, "train", 10).epoch()).weight is None
    weighted = prepare(str(weighted_recipe), [tmp_path / "log.csv"], tmp_path / "w")
    assert weighted.fingerprint != data.fingerprint
    same = ("train/dense.f32", "train/ids.i32", "train/label.i8", "schema.json", "vocab/user.parquet")
    assert all(weighted.manifest["checksums"][name] == data.manifest["checksums"][name] for name in same)


def test_fingerprints_of_data_without_weights_have_not_moved(tmp_path: Path):
    """Rows made by arithmetic; the fingerprint is that of versions before weights."""
    lines = [f"{i * 7 % 3 // 2},{i * 37 % 101},{i % 5 - 2},user {i * i % 11},{i % 7}\n" for i in range(600)]
    (tmp_path / "log.csv").write_text("".join(lines))
    (tmp_path / "r.yaml").write_text(
        'name: plain\nseparator: ","\ncolumns: [y, a, b, u, v]\nlabel: {column: y}\nmin_count: 2\n'
        "dense: [{columns: [a]}, {columns: [b], transform: none}]\nsparse: [{columns: [u]}, {columns: [v], kind: int}]\n"
    )
    assert (
        prepare(str(tmp_path / "r.yaml"), [tmp_path / "log.csv"], tmp_path / "d").fingerprint[:16] == "9a6e0385f288a582"
    )


def test_a_weight_may_be_an_input_too_and_parquet_gives_the_same_data(weighted_rows, weighted_recipe, tmp_path: Path):
    rows = weighted_rows(800)
    rows.to_csv(tmp_path / "log.csv", index=False)
    rows.to_parquet(tmp_path / "log.parquet", index=False)
    dense = "[{columns: [heavy, price], transform: none}]"
    text = prepare(recipe_of(tmp_path, weighted_recipe, dense=dense), [tmp_path / "log.csv"], tmp_path / "t")
    typed = recipe_of(tmp_path, weighted_recipe, dense=dense, format="parquet", header="false")
    parquet = prepare(typed, [tmp_path / "log.parquet"], tmp_path / "p")
    assert text.fingerprint == parquet.fingerprint
    heavy = np.asarray(text.array("train", "weight"))
    assert np.asarray(text.array("train", "dense"))[:, 0].tolist() == heavy.tolist()


def test_a_dense_column_called_weight_does_not_hide_the_weights(weighted_rows, weighted_recipe, tmp_path: Path):
    weighted_rows(300).rename(columns={"price": "weight"}).to_csv(tmp_path / "log.csv", index=False)
    recipe = recipe_of(tmp_path, weighted_recipe, dense="[{columns: [weight], transform: none}]")
    data = prepare(recipe, [tmp_path / "log.csv"], tmp_path / "d")
    copy = pq.read_table(data.path / "train.parquet")
    assert copy.column("row_weight").to_pylist() == np.asarray(data.array("train", "weight")).tolist()


BAD = {"-1": "negative", "": "is empty", "nan": "not a finite number", "inf": "not a finite number",
       "three": "not a finite number", "1e39": "too large"}  # fmt: skip


@pytest.mark.parametrize("cell", BAD)
def test_bad_weights_stop_or_are_rejects_that_are_counted(cell: str, weighted_rows, weighted_recipe, tmp_path: Path):
    rows = weighted_rows(300).astype({"heavy": str})
    rows.loc[17, "heavy"] = cell
    rows.to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(DataError, match=rf"line 19, column heavy: the weight .*{BAD[cell]}") as caught:
        prepare(str(weighted_recipe), [tmp_path / "log.csv"], tmp_path / "d")
    assert "leave `weight` out" in str(caught.value)
    data = prepare(str(weighted_recipe), [tmp_path / "log.csv"], tmp_path / "d", PrepareOptions(on_error="skip"))
    assert (data.manifest["rejects"], sum(data.rows(split) for split in SPLITS)) == (1, 299)
    (reject,) = (data.path / "rejects.tsv").read_text().splitlines()[1:]
    assert reject.split("\t")[:3] == ["log.csv", "19", "heavy"]
    assert BAD[cell] in reject


@pytest.mark.parametrize("value", [-1.0, None, float("inf")])
def test_bad_weights_of_parquet_files(value, weighted_rows, weighted_recipe, tmp_path: Path):
    rows = weighted_rows(300).astype({"heavy": float})
    rows.loc[17, "heavy"] = value
    rows.to_parquet(tmp_path / "log.parquet", index=False)
    recipe = recipe_of(tmp_path, weighted_recipe, format="parquet", header="false")
    with pytest.raises(DataError, match="row 18, column heavy: the weight"):
        prepare(recipe, [tmp_path / "log.parquet"], tmp_path / "d")


@pytest.mark.parametrize("split", SPLITS)
def test_a_split_without_any_weight_is_refused(split: str, weighted_rows, weighted_recipe: Path, tmp_path: Path):
    parts = {}
    for name in SPLITS:
        rows = weighted_rows(200, seed=len(name))
        rows["heavy"] = 0 if name == split else rows.heavy
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
        parts[name] = [tmp_path / f"{name}.csv"]
    with pytest.raises(DataError, match=f"All rows of the {split} split have weight 0 in column heavy") as caught:
        prepare(str(weighted_recipe), ReadySplit(**parts), tmp_path / "d")
    assert "--protocol" in str(caught.value)
    assert not (tmp_path / "d").exists()


def test_ready_splits_and_files_without_a_header(weighted_rows, weighted_recipe: Path, tmp_path: Path):
    parts, frames = {}, {}
    for seed, name in enumerate(SPLITS):
        frames[name] = weighted_rows(150, seed=seed)
        frames[name].to_csv(tmp_path / f"{name}.csv", index=False, header=False, sep="\t")
        parts[name] = [tmp_path / f"{name}.csv"]
    columns = "[clicked, heavy, price, seen, user, item]"
    recipe = recipe_of(tmp_path, weighted_recipe, columns=columns, header="false", separator='"\\t"')
    data = prepare(recipe, ReadySplit(**parts), tmp_path / "d")
    for name in SPLITS:
        assert np.asarray(data.array(name, "weight")).tolist() == frames[name].heavy.tolist()


def test_rows_with_weight_zero_and_an_unfinished_preparation(weighted_rows, weighted_recipe, tmp_path, monkeypatch):
    rows = weighted_rows(2000).astype({"heavy": float})
    rows["heavy"] = np.where(np.arange(2000) % 3 == 0, 0.0, rows.heavy / 7)
    rows.to_csv(tmp_path / "log.csv", index=False)
    whole = prepare(str(weighted_recipe), [tmp_path / "log.csv"], tmp_path / "whole")

    import recnas.data.prepare.publish as publish

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publish, "repeated_share", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(str(weighted_recipe), [tmp_path / "log.csv"], tmp_path / "cut")
    # The encoded weights of the first attempt are damaged: they must be noticed and written anew.
    file = tmp_path / "cut" / ".work" / "done" / "train" / "weight.f32"
    file.write_bytes(b"\0" * file.stat().st_size)
    again = prepare(str(weighted_recipe), [tmp_path / "log.csv"], tmp_path / "cut")
    assert again.fingerprint == whole.fingerprint
    assert again.manifest["weight"] == whole.manifest["weight"]


def test_a_chunk_without_rows_has_weights_too(tmp_path: Path, weighted_recipe: Path):
    from recnas.data.prepare.chunks import ChunkWriter
    from recnas.data.raw.recipe import load_recipe

    writer = ChunkWriter(tmp_path, load_recipe(str(weighted_recipe)), [], [()], {})
    assert isinstance(chunk := writer.text_block(0, 1, b""), ArrayFile)
    assert chunk.read("weight").shape == (0,)


def test_inspect_says_that_rows_have_weights(weighted_data, capsys):
    assert main(["inspect", str(weighted_data.path)]) == 0
    said = capsys.readouterr().out
    assert "sum of weights" in said
    assert f"{weighted_data.manifest['weight']['train']:,.6g}" in said
    assert "rows have weights" in said
    assert main(["inspect", str(weighted_data.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["weight"] == weighted_data.manifest["weight"]


def test_the_label_is_no_weight():
    from recnas.config import check_settings

    with pytest.raises(ConfigError, match="the label clicked cannot be the weight too"):
        check_settings(
            Recipe,
            {"name": "x", "header": True, "label": {"column": "clicked"}, "weight": {"column": "clicked"},
             "sparse": [{"columns": ["user"]}]},
            "x.yaml",
        )  # fmt: skip


def test_a_missing_weight_column_is_named(weighted_rows, weighted_recipe: Path, tmp_path: Path):
    pd.DataFrame(weighted_rows(50)).drop(columns="heavy").to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(DataError, match="the header has no column heavy"):
        prepare(str(weighted_recipe), [tmp_path / "log.csv"], tmp_path / "d")
