"""Preparation against an independent computation in pandas, and everything that can go wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from recnas.data.prepare import folder, stages
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepare.split import row_hash
from recnas.data.prepared import PreparedData
from recnas.errors import ConfigError, DataError, RunError

COLUMNS = ["label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]


@pytest.fixture(scope="module")
def frame(criteo_file: Path) -> pd.DataFrame:
    """The raw file as pandas reads it, with the split recomputed from its definition."""
    frame = pd.read_csv(criteo_file, sep="\t", header=None, names=COLUMNS, dtype={f"C{i}": str for i in range(1, 27)})
    tenth = [int(h) * 10 >> 64 for h in row_hash(2018, 0, len(frame))]
    frame["split"] = np.select([np.array(tenth) < 8, np.array(tenth) == 8], ["train", "valid"], "test")
    return frame


def test_rows_clicks_and_every_id_equal_pandas(criteo_data: PreparedData, frame: pd.DataFrame):
    train = frame[frame.split == "train"]
    for split in ("train", "valid", "test"):
        part = frame[frame.split == split]
        assert criteo_data.rows(split) == len(part)
        assert criteo_data.manifest["click_rate"][split] == pytest.approx(part.label.mean(), abs=1e-12)
        assert (criteo_data.array(split, "label") == part.label.to_numpy()).all()
    for j, column in enumerate(f"C{i}" for i in range(1, 27)):
        counts = train[column].dropna().map(lambda text: int(text, 16)).value_counts()
        kept = counts[counts >= 5].reset_index()
        kept.columns = ["value", "count"]
        kept = kept.sort_values(["count", "value"], ascending=[False, True]).reset_index(drop=True)
        ids = {value: i + 2 for i, value in enumerate(kept["value"])}
        assert criteo_data.schema.sparse[j].rows == len(kept) + 2
        for split in ("train", "test"):
            part = frame.loc[frame.split == split, column]
            expected = [1 if pd.isna(text) else ids.get(int(text, 16), 0) for text in part]
            assert criteo_data.array(split, "ids")[:, j].tolist() == expected


def test_dense_values_and_statistics_equal_pandas(criteo_data: PreparedData, frame: pd.DataFrame):
    expected = np.log1p(frame.loc[frame.split == "train", COLUMNS[1:14]].clip(lower=0))
    found = criteo_data.array("train", "dense")
    np.testing.assert_allclose(found, expected.fillna(0.0), rtol=1e-6)
    for field, (name, column) in zip(criteo_data.schema.dense, expected.items()):
        assert field.mean == pytest.approx(column.mean(), rel=1e-6)
        assert field.std == pytest.approx(column.std(ddof=0), rel=1e-5)
        assert not field.standardised
        summary = criteo_data.manifest["dense"][name]
        assert (summary["rows"], summary["missing"]) == (len(column), int(column.isna().sum()))
        assert summary["min"] == pytest.approx(column.min(), rel=1e-6)
        assert summary["max"] == pytest.approx(column.max(), rel=1e-6)
        assert summary["negative"] == int((frame.loc[frame.split == "train", name] < 0).sum())


def test_parquet_and_vocabulary_hold_the_same(criteo_data: PreparedData):
    table = pq.read_table(criteo_data.path / "valid.parquet").to_pandas()
    assert (table.label.to_numpy() == criteo_data.array("valid", "label")).all()
    assert (table[[f.name for f in criteo_data.schema.sparse]].to_numpy() == criteo_data.array("valid", "ids")).all()
    vocab = pq.read_table(criteo_data.path / "vocab" / "C3.parquet").to_pandas()
    assert vocab.id.tolist() == list(range(2, criteo_data.schema.sparse[2].rows))
    assert all(int(value, 16) == key for value, key in zip(vocab.value, vocab.key))
    counted = np.bincount(criteo_data.array("train", "ids")[:, 2], minlength=len(vocab) + 2)
    assert counted[2:].tolist() == vocab["count"].tolist()


def test_threads_memory_and_compression_do_not_change_the_fingerprint(
    criteo_file: Path, criteo_data: PreparedData, tmp_path: Path
):
    options = PrepareOptions(min_count=5)
    one = prepare("criteo", [criteo_file], tmp_path / "one", options, threads=1, memory=256 << 20)
    zipped = tmp_path / "criteo.tsv.gz"
    zipped.write_bytes(gzip.compress(criteo_file.read_bytes(), 1))
    packed = prepare("criteo", [zipped], tmp_path / "gz", options, threads=3)
    text = criteo_file.read_bytes()
    middle = text.index(b"\n", len(text) // 2) + 1
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "part-0").write_bytes(text[:middle])
    (folder / "part-1").write_bytes(text[middle:])
    parts = prepare("criteo", [folder], tmp_path / "two", options)
    assert one.fingerprint == packed.fingerprint == parts.fingerprint == criteo_data.fingerprint
    assert one.verify() == []


def test_limit_cap_and_scope(criteo_file: Path, frame: pd.DataFrame, tmp_path: Path):
    data = prepare(
        "criteo",
        [criteo_file],
        tmp_path / "d",
        PrepareOptions(limit=7001, cap=10, min_count=1, vocab_scope="all"),
    )
    assert sum(data.manifest["rows"].values()) == data.manifest["rows_in"] == 7001
    assert data.rows("train") == int((frame.split[:7001] == "train").sum())
    assert max(data.schema.table_rows) == 10
    counts = frame.C3[:7001].dropna().value_counts()
    assert data.array("train", "ids")[:, 2].max() == min(10, len(counts) + 2) - 1


def test_finished_data_is_returned_and_other_options_are_refused(criteo_file: Path, tmp_path: Path):
    first = prepare("criteo", [criteo_file], tmp_path / "d")
    stamp = (tmp_path / "d" / "train" / "ids.i32").stat().st_mtime_ns
    again = prepare("criteo", [criteo_file], tmp_path / "d")
    assert again.fingerprint == first.fingerprint
    assert (tmp_path / "d" / "train" / "ids.i32").stat().st_mtime_ns == stamp
    with pytest.raises(DataError, match="min_count was null, now 3"):
        prepare("criteo", [criteo_file], tmp_path / "d", PrepareOptions(min_count=3))


def test_an_unfinished_folder_with_other_options_is_refused(criteo_file: Path, tmp_path: Path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "assign_split", stop)
    with pytest.raises(KeyboardInterrupt):
        prepare("criteo", [criteo_file], tmp_path / "d")
    monkeypatch.undo()
    with pytest.raises(DataError, match="was not finished"):
        PreparedData.open(tmp_path / "d")
    with pytest.raises(DataError, match="unfinished preparation with other options: seed was 2018, now 3"):
        prepare("criteo", [criteo_file], tmp_path / "d", PrepareOptions(seed=3))
    assert prepare("criteo", [criteo_file], tmp_path / "d").verify() == []


def test_damaged_pieces_of_an_earlier_attempt_are_made_again(criteo_file: Path, tmp_path: Path, monkeypatch):
    whole = prepare("criteo", [criteo_file], tmp_path / "whole")

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(stages.Finisher, "run", stop)
    with pytest.raises(KeyboardInterrupt):
        prepare("criteo", [criteo_file], tmp_path / "d", memory=256 << 20)
    monkeypatch.undo()
    chunk = next((tmp_path / "d" / ".work" / "chunks").iterdir())
    data = bytearray(chunk.read_bytes())
    data[-100] ^= 255
    chunk.write_bytes(data)
    ids = tmp_path / "d" / ".work" / "done" / "train" / "ids.i32"
    written = bytearray(ids.read_bytes())
    written[40] ^= 255
    ids.write_bytes(written)
    with open(tmp_path / "d" / ".work" / "encoded.jsonl", "a") as journal:
        journal.write('{"chunk": 99, "ro')
    assert prepare("criteo", [criteo_file], tmp_path / "d").fingerprint == whole.fingerprint


def test_two_writers_are_kept_apart(criteo_file: Path, tmp_path: Path):
    from recnas.runs.folder import FolderLock

    with FolderLock(tmp_path / "d"), pytest.raises(RunError, match="being written by another process"):
        prepare("criteo", [criteo_file], tmp_path / "d")


def test_a_full_disk_says_so_and_the_same_command_continues(criteo_file: Path, tmp_path: Path, monkeypatch):
    import recnas.data.prepare.chunks as chunks

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(chunks, "write_arrays", full)
    with pytest.raises(DataError, match="is full"):
        prepare("criteo", [criteo_file], tmp_path / "d")
    monkeypatch.undo()
    assert prepare("criteo", [criteo_file], tmp_path / "d").verify() == []


def test_a_disk_that_is_too_small_is_told_before_the_work(criteo_file: Path, tmp_path: Path, monkeypatch):
    from collections import namedtuple

    monkeypatch.setattr(folder.shutil, "disk_usage", lambda _: namedtuple("U", "free")(1000))
    with pytest.raises(DataError, match="are free"):
        prepare("criteo", [criteo_file], tmp_path / "d")


@pytest.mark.parametrize(
    ("change", "line", "column", "reason"),
    [
        (lambda row: row[:-1], 3, None, "39 fields instead of 40"),
        (lambda row: [*row, "x"], 3, None, "41 fields instead of 40"),
        (lambda row: [row[0], "3x", *row[2:]], 3, "I1", "not a number"),
        (lambda row: ["2", *row[1:]], 3, "label", "the label is not 0 or 1"),
        (lambda row: ["", *row[1:]], 3, "label", "the label is empty"),
        (lambda row: [*row[:20], "xyz", *row[21:]], 3, "C7", "not hexadecimal"),
    ],
)
def test_a_bad_line_is_named_or_skipped_and_counted(criteo_file: Path, tmp_path: Path, change, line, column, reason):
    rows = [text.split("\t") for text in criteo_file.read_text().splitlines()[:500]]
    rows[line - 1] = change(rows[line - 1])
    bad = tmp_path / "bad.tsv"
    bad.write_text("".join("\t".join(row) + "\n" for row in rows))
    with pytest.raises(DataError) as caught:
        prepare("criteo", [bad], tmp_path / "stop")
    assert f"bad.tsv line {line}" in str(caught.value)
    assert reason in str(caught.value)
    assert column is None or f"column {column}" in str(caught.value)
    assert "--on-error skip" in str(caught.value)
    data = prepare("criteo", [bad], tmp_path / "skip", PrepareOptions(on_error="skip"))
    assert data.manifest["rejects"] == 1
    assert data.manifest["rows_in"] == 500
    assert sum(data.manifest["rows"].values()) == 499
    rejects = (tmp_path / "skip" / "rejects.tsv").read_text().splitlines()
    assert len(rejects) == 2
    assert rejects[1].split("\t")[1] == str(line)
    assert reason in rejects[1]


def test_bad_utf8_in_a_text_column_is_a_bad_row(tmp_path: Path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("name: mine\nseparator: ','\nheader: true\nlabel: {column: y}\nsparse: [{columns: [city]}]\n")
    (tmp_path / "log.csv").write_bytes(b"y,city\n1,Bern\n0,Z\xfcrich\n1,Basel\n" + b"0,Bern\n" * 50)
    with pytest.raises(DataError, match="line 3, column city: not valid UTF-8"):
        prepare(str(recipe), [tmp_path / "log.csv"], tmp_path / "d")


def test_files_of_another_kind(criteo_file: Path, tmp_path: Path):
    from recnas.data.synthetic import generate

    generate("avazu", 50, 1, tmp_path / "avazu.csv")
    with pytest.raises(DataError, match="looks like a avazu file"):
        prepare("criteo", [tmp_path / "avazu.csv"], tmp_path / "a")
    with pytest.raises(DataError, match="header is not the one of avazu") as caught:
        prepare("avazu", [criteo_file], tmp_path / "b")
    assert "looks like a criteo file" in str(caught.value)
    headed = tmp_path / "headed.tsv"
    headed.write_text("\t".join(COLUMNS) + "\n" + criteo_file.read_text()[:1000])
    with pytest.raises(DataError, match="looks like a header"):
        prepare("criteo", [headed], tmp_path / "c")
    (tmp_path / "empty.tsv").write_text("")
    with pytest.raises(DataError, match="is empty"):
        prepare("criteo", [tmp_path / "empty.tsv"], tmp_path / "e")


def test_option_faults_come_together():
    with pytest.raises(ConfigError) as caught:
        prepare("criteo", ["x"], "y", PrepareOptions(min_count=0, cap=1, limit=0, with_columns=("I99",)))
    assert all(name in str(caught.value) for name in ("--min-count", "--cap", "--limit", "--with"))


def test_own_csv_with_strings_floats_quotes_and_missing(tmp_path: Path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "clicked": (rng.random(600) < 0.3).astype(int),
            "price": rng.random(600).round(3) * 50,
            "user": [f"user, {k}" for k in rng.integers(0, 20, 600)],
            "item": rng.choice(["é", "b", "NA", ""], 600),
        }
    )
    frame.to_csv(tmp_path / "log.csv", index=False)
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "name: mine\nseparator: ','\nquote: true\nheader: true\nlabel: {column: clicked}\n"
        "dense: [{columns: [price], transform: none, standardise: false}]\n"
        "sparse: [{columns: [user, item], kind: string, missing: [NA]}]\nmin_count: 1\n"
    )
    data = prepare(str(recipe), [tmp_path / "log.csv"], tmp_path / "d")
    assert sum(data.manifest["rows"].values()) == 600
    vocab = pq.read_table(data.path / "vocab" / "item.parquet").to_pandas()
    assert sorted(vocab.value) == ["b", "é"]
    users = pq.read_table(data.path / "vocab" / "user.parquet")["value"].to_pylist()
    assert set(users) == set(frame.user)  # "user, 7", the comma as it is
    total = sum(data.manifest["missing"][split]["item"] for split in ("train", "valid", "test"))
    assert total == int(frame.item.isin(["NA", ""]).sum())
    written = np.concatenate([data.array(split, "dense")[:, 0] for split in ("train", "valid", "test")])
    np.testing.assert_allclose(np.sort(written), np.sort(frame.price.astype(np.float32)))


def test_parquet_input_gives_what_text_gives(tmp_path: Path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "label": rng.integers(0, 2, 500),
            "price": rng.random(500).round(2),
            "user": rng.integers(0, 30, 500).astype(str),
        }
    )
    frame.loc[::9, "user"] = None
    frame.to_csv(tmp_path / "log.csv", index=False)
    frame.to_parquet(tmp_path / "log.parquet")
    common = "label: {column: label}\ndense: [{columns: [price]}]\nsparse: [{columns: [user], kind: string}]\n"
    (tmp_path / "c.yaml").write_text("name: c\nseparator: ','\nheader: true\n" + common)
    (tmp_path / "p.yaml").write_text("name: p\nformat: parquet\n" + common)
    text = prepare(str(tmp_path / "c.yaml"), [tmp_path / "log.csv"], tmp_path / "a")
    parquet = prepare(str(tmp_path / "p.yaml"), [tmp_path / "log.parquet"], tmp_path / "b")
    assert text.fingerprint == parquet.fingerprint
    (tmp_path / "q.yaml").write_text("name: q\nformat: parquet\n" + common.replace("price", "prize"))
    with pytest.raises(DataError, match="has no column"):
        prepare(str(tmp_path / "q.yaml"), [tmp_path / "log.parquet"], tmp_path / "e")


def test_avazu_derives_time_and_splits_by_day(tmp_path: Path):
    from recnas.data.synthetic import generate

    generate("avazu", 5000, 3, tmp_path / "a.csv")
    frame = pd.read_csv(tmp_path / "a.csv", dtype=str)
    data = prepare("avazu", [tmp_path / "a.csv"], tmp_path / "d", PrepareOptions(protocol="time-last-day", min_count=1))
    day = frame.hour.str[:6]
    days = sorted(day.unique())
    assert data.rows("test") == int((day == days[-1]).sum())
    assert data.rows("valid") == int((day == days[-2]).sum())
    train = frame[~day.isin(days[-2:])]
    vocab = pq.read_table(data.path / "vocab" / "weekday.parquet").to_pandas().set_index("value")["count"]
    expected = pd.to_datetime(train.hour, format="%y%m%d%H").dt.day_of_week.value_counts()
    assert {int(k): int(v) for k, v in vocab.items()} == expected.to_dict()


def test_kdd12_joins_profiles_and_keeps_impressions_only_when_asked(tmp_path: Path):
    from recnas.data.synthetic import generate

    generate("kdd12", 4000, 3, tmp_path / "t.txt")
    raw = pd.read_csv(tmp_path / "t.txt", sep="\t", header=None, dtype=str)
    profile = pd.read_csv(tmp_path / "userid_profile.txt", sep="\t", header=None, dtype=str).set_index(0)
    data = prepare("kdd12", [tmp_path / "t.txt"], tmp_path / "d", PrepareOptions(min_count=1, vocab_scope="all"))
    assert [f.name for f in data.schema.dense] == ["depth", "position"]
    with_it = prepare("kdd12", [tmp_path / "t.txt"], tmp_path / "e", PrepareOptions(with_columns=("impressions",)))
    assert [f.name for f in with_it.schema.dense] == ["depth", "position", "impressions"]
    clicks = sum(data.manifest["click_rate"][s] * data.rows(s) for s in ("train", "valid", "test"))
    assert clicks == pytest.approx((raw[0].astype(int) > 0).sum())
    gender = profile.reindex(raw[11])[1]
    vocab = pq.read_table(data.path / "vocab" / "gender.parquet").to_pandas().set_index("value")["count"]
    assert vocab.to_dict() == gender.dropna().value_counts().to_dict()
    (tmp_path / "userid_profile.txt").unlink()
    with pytest.raises(DataError, match="--side"):
        prepare("kdd12", [tmp_path / "t.txt"], tmp_path / "f")


def test_the_manifest_is_complete(criteo_data: PreparedData):
    manifest = json.loads((criteo_data.path / "manifest.json").read_text())
    for name in (
        "fingerprint",
        "rows",
        "rows_in",
        "rejects",
        "click_rate",
        "cardinality",
        "sources",
        "checksums",
        "options",
        "versions",
    ):
        assert name in manifest
    assert not (criteo_data.path / ".work").exists()
    assert set(criteo_data.summary()) >= {
        "fingerprint",
        "rows",
        "rows_in",
        "rejects",
        "click_rate",
        "cardinality",
    }


def test_a_changed_file_is_found(criteo_file: Path, tmp_path: Path):
    data = prepare("criteo", [criteo_file], tmp_path / "d", PrepareOptions(limit=2000))
    path = data.path / "test" / "ids.i32"
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.write_bytes(content)
    (data.path / "vocab" / "C1.parquet").unlink()
    assert data.verify() == ["test/ids.i32: changed", "vocab/C1.parquet: missing"]
    path.write_bytes(content[:-4])
    with pytest.raises(DataError, match="bytes, but the manifest"):
        data.array("test", "ids")


def test_whole_numbers_beyond_the_reach_of_floats_stay_apart():
    import pyarrow as pa

    from recnas.data.raw.parquet import _integers

    column = pa.array([2**53, 2**53 + 1, None, -(2**62) - 1], pa.int64())
    missing = np.array([False, False, True, False])
    assert _integers(column, missing).values.tolist() == [2**53, 2**53 + 1, 0, -(2**62) - 1]


def test_the_fingerprint_covers_the_vocabulary(tmp_path: Path):
    """Two logs that differ only in what a value is called: the same arrays, other data."""
    found = []
    for name in ("Bern", "Basel"):
        text = "y,city\n" + "".join(f"{n % 2},{name if n % 3 else 'Chur'}\n" for n in range(300))
        (tmp_path / f"{name}.csv").write_text(text)
        (tmp_path / "r.yaml").write_text(
            "name: r\nseparator: ','\nheader: true\nlabel: {column: y}\nsparse: [{columns: [city]}]\n"
        )
        found.append(prepare(str(tmp_path / "r.yaml"), [tmp_path / f"{name}.csv"], tmp_path / name, threads=1))
    one, two = found
    assert one.schema == two.schema
    for split in ("train", "valid", "test"):
        for array in ("dense", "ids", "label"):
            np.testing.assert_array_equal(one.array(split, array), two.array(split, array))
    assert one.fingerprint != two.fingerprint
