from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import torch

from recnas.cli.main import main
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepare.split import SPLITS, RowsOfChunk, assign_split
from recnas.data.prepared import PreparedData
from recnas.data.raw import encoder as raw_encoder
from recnas.data.raw.encoder import RawEncoder
from recnas.data.synthetic import generate
from recnas.errors import ConfigError, DataError
from recnas.runs.folder import RunDir
from recnas.serve.load import load_trained
from recnas.serve.predict import predict


def split_of_rows(data: PreparedData, rows: int) -> np.ndarray:
    everything = RowsOfChunk(0, rows, np.arange(rows), np.zeros(rows, np.uint8), None)
    return assign_split("random-8-1-1", data.manifest["options"]["seed"], [everything], None, None)[0]


def in_file_order(data: PreparedData, array: str) -> np.ndarray:
    """The prepared rows, put back where they stood in the raw file."""
    split = split_of_rows(data, sum(data.rows(name) for name in SPLITS))
    parts = [data.array(name, array) for name in SPLITS]
    whole = np.empty((len(split), *parts[0].shape[1:]), parts[0].dtype)
    for number, part in enumerate(parts):
        whole[split == number] = part
    return whole


def joined(encoder: RawEncoder) -> dict[str, np.ndarray]:
    blocks = list(encoder.blocks())
    return {name: np.concatenate([getattr(block, name) for block in blocks]) for name in ("dense", "ids", "label")}


@pytest.fixture
def small_blocks(monkeypatch):
    """Several blocks from a small file."""
    monkeypatch.setattr(raw_encoder, "BLOCK_BYTES", 1 << 17)


@pytest.mark.parametrize("layout", ["criteo", "avazu", "kdd12"])
def test_raw_rows_get_the_inputs_that_prepare_gave_them(layout: str, tmp_path: Path, small_blocks):
    raw = tmp_path / "raw.txt"
    made = generate(layout, 3000, 5, raw, threads=1)
    data = prepare(layout, [raw], tmp_path / "data", PrepareOptions(min_count=3, cap=200, parquet=False), threads=1)
    found = joined(RawEncoder(data, [raw], tuple(map(str, made.side_paths))))
    for name in ("dense", "ids", "label"):
        np.testing.assert_array_equal(found[name], in_file_order(data, name))
    assert {0, 1} <= set(np.unique(found["ids"]))


def test_predictions_are_those_of_the_prepared_rows(
    trained_run: Path, criteo_data, criteo_file: Path, tmp_path: Path, small_blocks
):
    out = tmp_path / "p.parquet"
    result = predict(f"{trained_run}:best", [criteo_file], out, batch=333)
    model = load_trained(f"{trained_run}:best")
    expected = model.predict(
        torch.from_numpy(in_file_order(criteo_data, "dense")),
        torch.from_numpy(in_file_order(criteo_data, "ids").astype(np.int64)),
    ).numpy()
    table = pq.read_table(out)
    np.testing.assert_allclose(table["probability"].to_numpy(), expected, atol=1e-6)
    np.testing.assert_array_equal(table["row"].to_numpy(), np.arange(20_000))
    np.testing.assert_array_equal(table["label"].to_numpy(), in_file_order(criteo_data, "label"))
    assert table["reason"].null_count == 20_000
    assert (result["rows"], result["rejects"], result["labelled"]) == (20_000, 0, 20_000)


def test_metrics_are_those_of_the_training_run(trained_run: Path, criteo_data, criteo_file: Path, tmp_path: Path):
    split = split_of_rows(criteo_data, 20_000)
    lines = criteo_file.read_bytes().splitlines(keepends=True)
    part = tmp_path / "test.tsv.gz"
    part.write_bytes(gzip.compress(b"".join(line for line, s in zip(lines, split) if s == 2)))
    result = predict(str(trained_run), [part])
    measured = RunDir.open(trained_run).ledger.read()[0]["test"]
    for name in ("logloss", "auc", "click_rate", "mean_prediction"):
        assert result[name] == pytest.approx(measured[name], abs=1e-6)
    assert result["out"] is None


def test_rows_without_labels_get_the_same_predictions(trained_run: Path, criteo_file: Path, tmp_path: Path):
    lines = criteo_file.read_text().splitlines()[:500]
    whole, cut, empty = tmp_path / "whole.tsv", tmp_path / "cut.tsv", tmp_path / "empty.tsv"
    whole.write_text("\n".join(lines) + "\n")
    cut.write_text("\n".join(line.partition("\t")[2] for line in lines))
    empty.write_text("\n".join("\t" + line.partition("\t")[2] for line in lines))
    expected = None
    for file in (whole, cut, empty):
        result = predict(str(trained_run), [file], tmp_path / "p.csv")
        table = pa_csv.read_csv(tmp_path / "p.csv")
        probability = table["probability"].to_numpy()
        expected = probability if expected is None else expected
        np.testing.assert_array_equal(probability, expected)
        assert ("logloss" in result) == (file == whole)
        assert ("label" in table.column_names) == (file != cut)
    with pytest.raises(ConfigError, match="no label column"):
        predict(str(trained_run), [cut])


def test_bad_rows_are_reported_and_move_no_other(trained_run: Path, criteo_file: Path, tmp_path: Path):
    lines = criteo_file.read_text().splitlines()[:300]
    good, bad = tmp_path / "good.tsv", tmp_path / "bad.tsv"
    good.write_text("\n".join(lines) + "\n")
    for number, column, text in ((3, 2, "many"), (40, 20, "xyz")):
        cells = lines[number].split("\t")
        cells[column] = text
        lines[number] = "\t".join(cells)
    lines[0] = lines[0].partition("\t")[2]  # a cell short, in the very first line
    lines[100] = "7" + lines[100][1:]  # a label that is none
    bad.write_text("\n".join(lines) + "\n")
    predict(str(trained_run), [good], tmp_path / "good.parquet")
    result = predict(str(trained_run), [bad], tmp_path / "bad.parquet")
    before, after = pq.read_table(tmp_path / "good.parquet"), pq.read_table(tmp_path / "bad.parquet")
    rejected = [0, 3, 40]
    reasons = after["reason"].to_pylist()
    assert [row for row, reason in enumerate(reasons) if reason] == rejected
    assert reasons[0].startswith("39 fields instead of 40")
    assert reasons[3] == "column I2: not a number ('many')"
    assert reasons[40] == "column C7: not hexadecimal ('xyz')"
    keep = np.setdiff1d(np.arange(300), rejected)
    np.testing.assert_allclose(
        after["probability"].take(keep).to_numpy(), before["probability"].take(keep).to_numpy(), atol=1e-6
    )
    assert after["probability"].take(rejected).null_count == 3
    assert after["label"][100].as_py() is None
    assert (result["rejects"], result["predicted"], result["unlabelled"]) == (3, 297, 1)
    assert [fault["row"] for fault in result["first_rejects"]] == rejected


def test_the_command_prints_figures_or_json(trained_run: Path, criteo_file: Path, tmp_path: Path, capsys):
    command = ["predict", f"{trained_run}:best", "--raw", str(criteo_file), "--quiet"]
    assert main([*command, "--out", str(tmp_path / "p.csv"), "--batch", "1k"]) == 0
    text = capsys.readouterr().out
    assert "20,000 of 20,000 rows predicted" in text
    assert "log loss" in text
    assert "AUC" in text
    assert main([*command, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {"rows", "rejects", "click_rate", "logloss", "auc"} <= result.keys()
    assert not list(tmp_path.glob(".*"))


def test_faults_say_what_to_type_next(trained_run: Path, criteo_file: Path, tmp_path: Path, capsys):
    def fault(*options: str) -> str:
        assert main(["predict", str(trained_run), "--raw", str(criteo_file), *options]) == 2
        return capsys.readouterr().err

    assert "did you mean '.parquet'" in fault("--out", str(tmp_path / "p.parquett"))
    assert "the raw file itself" in fault("--raw", str(_copy(criteo_file, tmp_path / "r.csv")), "--out",
                                          str(tmp_path / "r.csv"))  # fmt: skip
    assert "mkdir -p" in fault("--out", str(tmp_path / "no" / "p.csv"))
    assert "--batch must be at least 1" in fault("--batch", "0")
    assert "There is no file" in fault("--raw", str(tmp_path / "none.tsv"))
    other = tmp_path / "other.tsv"
    generate("criteo", 1000, 9, other, threads=1)
    data = prepare("criteo", [other], tmp_path / "other", PrepareOptions(parquet=False), threads=1)
    text = fault("--data", str(data.path))
    assert "other data than the model was trained on" in text
    assert "--data DIR" in text
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("a,b\n1,2\n")
    assert "None of the 2 rows" in fault("--raw", str(wrong))


def _copy(source: Path, target: Path) -> Path:
    target.write_bytes(source.read_bytes())
    return target


def test_a_changed_vocabulary_is_refused(tmp_path: Path):
    raw = tmp_path / "raw.csv"
    generate("avazu", 1000, 2, raw, threads=1)
    data = prepare("avazu", [raw], tmp_path / "data", PrepareOptions(parquet=False), threads=1)
    (data.path / "vocab" / "site_id.parquet").write_bytes(b"x")
    with pytest.raises(DataError, match="site_id") as error:
        RawEncoder(data, [raw])
    assert "prepare the data again" in str(error.value)


def test_headers_are_read_by_name_and_side_files_are_asked_for(tmp_path: Path):
    raw = tmp_path / "raw.csv"
    generate("avazu", 1000, 2, raw, threads=1)
    data = prepare("avazu", [raw], tmp_path / "data", PrepareOptions(parquet=False), threads=1)
    cells = [line.split(",") for line in raw.read_text().splitlines()]
    without = tmp_path / "without.csv"  # as Avazu's own test file: no click column
    without.write_text("\n".join(",".join([row[0], *row[2:]]) for row in cells) + "\n")
    encoder = RawEncoder(data, [without])
    assert not encoder.labelled
    ids = np.concatenate([block.ids for block in encoder.blocks()])
    np.testing.assert_array_equal(ids, joined(RawEncoder(data, [raw]))["ids"])

    folder = tmp_path / "kdd"
    folder.mkdir()
    made = generate("kdd12", 1000, 2, folder / "training.txt", threads=1)
    kdd = prepare("kdd12", [folder / "training.txt"], tmp_path / "kdd-data", PrepareOptions(parquet=False), threads=1)
    rows = [line.split("\t") for line in (folder / "training.txt").read_text().splitlines()]
    test = tmp_path / "test.txt"  # as the contest's: neither clicks nor impressions
    test.write_text("\n".join("\t".join(row[2:]) for row in rows) + "\n")
    with pytest.raises(DataError, match=r"userid_profile.txt.*\n.*--side"):
        RawEncoder(kdd, [test])
    encoder = RawEncoder(kdd, [test], (str(made.side_paths[0]),))
    ids = np.concatenate([block.ids for block in encoder.blocks()])
    np.testing.assert_array_equal(ids, in_file_order(kdd, "ids"))


def test_parquet_files_with_and_without_labels(tmp_path: Path):
    import pyarrow as pa

    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "clicked": rng.integers(0, 2, 900),
            "price": pa.array(rng.exponential(3, 900), mask=rng.random(900) < 0.1),
            "shop": pa.array([f"s{n}" for n in rng.integers(0, 40, 900)], mask=rng.random(900) < 0.1),
        }
    )
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "name: mine\nformat: parquet\nlabel: {column: clicked}\ndense: [{columns: [price]}]\n"
        "sparse: [{columns: [shop], kind: string}]\n"
    )
    pq.write_table(table, tmp_path / "raw.parquet")
    pq.write_table(table.drop_columns(["clicked"]), tmp_path / "cut.parquet")
    data = prepare(str(recipe), [tmp_path / "raw.parquet"], tmp_path / "data", threads=1)
    found = joined(RawEncoder(data, [tmp_path / "raw.parquet"]))
    for name in ("dense", "ids", "label"):
        np.testing.assert_array_equal(found[name], in_file_order(data, name))
    (block,) = RawEncoder(data, [tmp_path / "cut.parquet"]).blocks()
    assert block.label is None
    np.testing.assert_array_equal(block.ids, found["ids"])
    pq.write_table(table.drop_columns(["shop"]), tmp_path / "less.parquet")
    with pytest.raises(DataError, match="no column shop"):
        RawEncoder(data, [tmp_path / "less.parquet"])


def test_a_file_of_the_other_kind_is_refused_with_a_sentence(tmp_path: Path):
    import pyarrow as pa

    pq.write_table(pa.table({"label": [0, 1] * 50, "price": [1.0] * 100, "user": ["a"] * 100, "item": ["b"] * 100}),
                   tmp_path / "log.parquet")  # fmt: skip
    (tmp_path / "log.csv").write_text("label,price,user,item\n" + "0,1,a,b\n1,1,a,b\n" * 50)
    text = prepare("csv", [tmp_path / "log.csv"], tmp_path / "t", PrepareOptions(parquet=False), threads=1)
    parquet = prepare("parquet", [tmp_path / "log.parquet"], tmp_path / "p", PrepareOptions(parquet=False), threads=1)
    for data, other, said in (
        (text, "log.parquet", r"log\.parquet is a Parquet file, but the model was trained on csv as a text file"),
        (parquet, "log.csv", r"log\.csv is a text file, but the model was trained on parquet as a Parquet file"),
    ):
        with pytest.raises(DataError, match=said) as caught:
            RawEncoder(data, [tmp_path / other])
        assert "the recipe" not in str(caught.value)  # that of a trained model cannot be changed
