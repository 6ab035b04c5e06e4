"""Every kind of column: what is prepared, what `predict` encodes and what an export serves are the same inputs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepared import PreparedData
from recnas.data.raw.encoder import RawEncoder
from recnas.data.raw.recipe import load_recipe
from recnas.data.raw.sections import Clock
from recnas.data.raw.serving import RowReader, Vocabularies
from recnas.data.raw.text_columns import PAD, Cells
from recnas.data.raw.times import parse_times, seconds_of_arrow
from recnas.data.raw.transforms import TRANSFORMS
from recnas.data.raw.values import seconds_of
from recnas.errors import ConfigError, DataError
from recnas.serve.check_rows import real_rows, rebuilt_rows
from recnas.serve.manifest import describe_inputs, write_vocabularies

Rows = list[dict[str, str]]


def cells_of(texts: list[str]) -> Cells:
    parts = [text.encode() for text in texts]
    ends = np.cumsum([len(part) for part in parts])
    starts = ends - [len(part) for part in parts]
    text = np.frombuffer(bytes(PAD) + b"".join(parts) + bytes(PAD), np.uint8)
    return Cells(text, starts + PAD, ends + PAD)


def write(folder: Path, rows: Rows) -> tuple[Path, Path]:
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    columns = {name: pa.array([row[name] or None for row in rows], pa.string()) for name in rows[0]}
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    return folder / "rows.csv", folder / "rows.parquet"


def prepared(folder: Path, recipe: str, rows: Rows) -> PreparedData:
    """All rows but two are training rows, in file order."""
    text, parquet = write(folder, rows)
    np.save(folder / "index.npy", np.array([0] * (len(rows) - 2) + [1, 2], np.uint8))
    options = PrepareOptions(protocol="index", split_index=str(folder / "index.npy"))
    (folder / "t.yaml").write_text(f"name: t\nseparator: ','\nheader: true\n{recipe}")
    (folder / "p.yaml").write_text(f"name: p\nformat: parquet\n{recipe}")
    data = prepare(str(folder / "t.yaml"), [text], folder / "t", options, threads=1)
    assert prepare(str(folder / "p.yaml"), [parquet], folder / "p", options, threads=1).fingerprint == data.fingerprint
    return data


def check_agreement(data: PreparedData, folder: Path, rows: Rows) -> RowReader:
    """Prepared arrays, the encoder of `predict` and the module that exports carry, on the same rows."""
    text = folder / "rows.csv"
    (block,) = RawEncoder(data, [text]).blocks()
    assert not block.bad
    np.testing.assert_array_equal(block.ids[: data.rows("train")], data.array("train", "ids"))
    np.testing.assert_array_equal(block.dense[: data.rows("train")], data.array("train", "dense"))
    write_vocabularies(data, folder / "served")
    model = json.loads(json.dumps(describe_inputs(data)))
    reader = RowReader(model, Vocabularies(folder / "served", model))
    as_objects = "\n".join(json.dumps(row) for row in rows).encode()
    for served in (reader.rows(text.read_bytes()), reader.rows(as_objects)):
        assert [ids for _, ids in served] == block.ids.tolist()
        np.testing.assert_allclose([dense for dense, _ in served], block.dense, rtol=1e-6)
    for made in (real_rows(data), *rebuilt_rows(data)):  # as `export` checks itself
        assert made is not None
        assert made.lines
        served = reader.rows("\n".join(made.lines).encode())
        assert [ids for _, ids in served] == made.ids.tolist()
        np.testing.assert_allclose([dense for dense, _ in served], made.dense, rtol=2e-6, atol=2e-6)
    return reader


moments = st.integers(-2208988800, 7258118399)


@settings(max_examples=80)
@given(texts=st.lists(st.one_of(
    moments.map(str),
    st.builds(lambda s, ms: f"{s}.{ms:03}", moments, st.integers(0, 999)),
    moments.map(lambda s: str(s * 1000 + 7)),
    st.builds(
        lambda s, form, tail: (datetime(1970, 1, 1) + timedelta(seconds=s)).strftime(form) + tail,
        st.integers(-1_000_000_000, 7_000_000_000),
        st.sampled_from(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S"]),
        st.sampled_from(["", "", "Z", "+02:00", "-0530", "+01", ".25", ".123456Z", " ", "+25:00", "x"]),
    ),
    st.sampled_from(["2024-02-30", "2023-02-29", "2024-02-29", "2024-13-01", "2024-01-01T24:00", "2024-01-01T10:60", "1_0", "nan",
                     "0000-01-01", "9999-01-01", "1e9", "-1", "inf", "é024-01-01", "2024-1-1"]),
), min_size=1, max_size=5), form=st.sampled_from(["iso", "epoch-seconds", "epoch-milliseconds"]),
    offset=st.sampled_from([0, 7200, -19800]))  # fmt: skip
def test_times_of_a_column_are_those_of_its_cells(texts, form, offset):
    values, bad = parse_times(cells_of(texts), Clock(format=form, offset=offset))
    alone = [seconds_of(text, form, offset) for text in texts]
    assert [None if b else int(v) for v, b in zip(values, bad)] == alone


@settings(max_examples=50)
@given(seconds=st.integers(-1_000_000_000, 7_000_000_000), hours=st.integers(-12, 14))
def test_times_are_those_of_the_standard_library(seconds, hours):
    """Written in one zone, read on the clock of another."""
    zone = timezone(timedelta(hours=hours))
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    on_clock = (moment + timedelta(hours=hours)).replace(tzinfo=None) - datetime(1970, 1, 1)
    expected = on_clock // timedelta(seconds=1)
    assert seconds_of(str(seconds), "epoch-seconds", hours * 3600) == expected
    assert seconds_of(moment.isoformat(), "iso", hours * 3600) == expected
    assert seconds_of(moment.astimezone(zone).isoformat(), "iso", hours * 3600) == expected
    for array in (pa.array([moment]), pa.array([moment.astimezone(zone).replace(tzinfo=None)], pa.timestamp("ns"))):
        values, bad = seconds_of_arrow(array, Clock(format="iso", offset=hours * 3600))
        assert (int(values[0]), bool(bad[0])) == (expected, False)


@pytest.mark.parametrize("form", ["epoch-seconds", "epoch-milliseconds", "iso"])
def test_hours_weekdays_and_days_of_timestamps(form: str, tmp_path: Path):
    rng = np.random.default_rng(1)
    zone = timezone(timedelta(hours=-3, minutes=-30))
    rows, expected = [], []
    for i in range(120):
        moment = datetime(2024, 2, 20, tzinfo=UTC) + timedelta(seconds=int(rng.integers(20 * 86400)))
        on_clock = moment.astimezone(zone)
        stamp = int(moment.timestamp())
        texts = {
            "epoch-seconds": f"{stamp}.5" if i % 3 else str(stamp),
            "epoch-milliseconds": str(stamp * 1000 + 999),
            "iso": moment.isoformat().replace("+00:00", "Z") if i % 2 else on_clock.replace(tzinfo=None).isoformat(" "),
        }
        missing = i % 11 == 0
        rows.append(
            {
                "y": str(i % 2),
                "x": str(i),
                "at": ["", "NA", "2000-01-01"][i % 3 if form == "iso" else i % 2] if missing else texts[form],
            }
        )
        expected.append(None if missing else (on_clock.hour, on_clock.weekday(), on_clock.day))
    recipe = (
        "label: {column: y}\ndense: [{columns: [x]}]\nsparse:\n"
        f"- {{columns: [at], kind: time, format: {form}, zone: '-03:30', missing: ['2000-01-01'],\n"
        "   derive: {h: hour, w: weekday, d: day}}\n"
    )
    data = prepared(tmp_path, recipe, rows)
    check_agreement(data, tmp_path, rows)
    for place, name in enumerate("hwd"):
        values = pq.read_table(data.path / "vocab" / f"{name}.parquet")["value"].to_pylist()
        for ids, parts in zip(data.array("train", "ids"), expected):
            assert (None if ids[place] == 1 else int(values[ids[place] - 2])) == (parts and parts[place])


def numbers_log() -> Rows:
    rng = np.random.default_rng(2)
    rows = []
    for i in range(400):
        price = "" if i % 9 == 0 else "-1" if i % 50 == 1 else f"{rng.lognormal(2, 1.5):.4f}"
        rows.append(
            {
                "y": str(i % 2),
                "price": price,
                "views": "NA" if i % 13 == 0 else str(int(rng.integers(4)) ** 3),
                "age": "" if i % 7 == 0 else str(rng.integers(-50, 90)),
                "id": str([2**64 - 1 - i % 17, 2**63 + i % 5, 2**53 + 1 + i % 3, -1000 - i % 4][i % 4])
                if i % 8
                else "",
                "tag": f"{i % 31:x}",
                "word": f"w{i % 37}",
            }
        )
    return rows


NUMBERS = """
label: {column: y}
dense:
- {columns: [price], transform: quantile, embed: true, buckets: 5, indicator: true, missing: ["-1"], fill: 0.25}
- {columns: [views], transform: bucketise, buckets: 4, indicator: true}
- {columns: [age], transform: bucketise, edges: [0, 18, 65.5], embed: true}
sparse:
- {columns: [id], kind: int, hash: 100000, hash_seed: 5}
- {columns: [tag], kind: hex, hash: 7}
- {columns: [word], hash: 64, hashes: 2, missing: [w3]}
"""


def test_numbers_in_buckets_quantiles_and_hashes(tmp_path: Path):
    rows = numbers_log()
    data = prepared(tmp_path, NUMBERS, rows)
    reader = check_agreement(data, tmp_path, rows)
    dense, ids = data.array("train", "dense"), data.array("train", "ids")
    names = [field.name for field in data.schema.dense]
    assert names == ["price", "price_missing", "views", "views_missing", "age"]
    assert [field.name for field in data.schema.sparse] == [
        "price_bucket",
        "age_bucket",
        "id",
        "tag",
        "word_1",
        "word_2",
    ]
    assert data.schema.table_rows == (7, 6, 100_002, 9, 66, 66)
    training = rows[:-2]
    gone = np.array([row["price"] in ("", "-1") for row in training])
    price = np.array([float(row["price"] or 0) for row in training])
    np.testing.assert_array_equal(dense[:, 1] == 1, gone)
    assert set(dense[gone, 0]) == {0.25}
    # The share of the training rows below, within a step of the quantiles.
    rank = np.searchsorted(np.sort(price[~gone]), price[~gone]) / (~gone).sum()
    np.testing.assert_allclose(dense[~gone, 0], rank, atol=0.011)
    np.testing.assert_array_equal(ids[:, 0] == 1, gone)
    assert np.bincount(ids[~gone, 0])[2:].tolist() == pytest.approx([(~gone).sum() / 5] * 5, abs=1)
    known = [(place, int(row["age"])) for place, row in enumerate(training) if row["age"]]
    for place, age in known:
        bucket = (age >= 0) + (age >= 18) + (age >= 65.5)
        assert ids[place, 1] == 2 + bucket
        assert dense[place, 4] == np.float32(bucket / 3)
    # Every value has one row, of all that there are; missing cells have theirs.
    seen = {row["id"]: int(ids[place, 2]) for place, row in enumerate(training)}
    assert all(int(ids[place, 2]) == seen[row["id"]] for place, row in enumerate(training))
    assert len(set(seen.values())) == len(seen)  # numbers that a float64 could not tell apart
    assert seen[""] == 1
    assert {row["word"] for row, i in zip(training, ids[:, 4]) if i == 1} == {"w3"}
    pairs = {row["word"]: (int(a), int(b)) for row, a, b in zip(training, ids[:, 4], ids[:, 5])}
    assert (
        len(set(pairs.values()))
        == len(pairs)
        > max(len({a for a, _ in pairs.values()}), len({b for _, b in pairs.values()}))
    )
    assert not list((data.path / "vocab").glob("*"))
    assert reader.model["sparse"][2]["hash"] == {"rows": 100_000, "seed": 5, "number": 0}


@settings(max_examples=60)
@given(
    edges=st.lists(st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6)), max_size=6).map(sorted),
    x=st.one_of(st.integers(-4, 4).map(float), st.floats(-1e7, 1e7)),
    name=st.sampled_from(["quantile", "bucketise"]),
)
def test_a_number_and_a_column_are_transformed_alike(edges, x, name):
    fitted = TRANSFORMS[name].fitted
    assert fitted is not None
    with np.errstate(over="ignore", invalid="ignore"):
        column = fitted.column(np, np.array([x, np.nan]), np.array(edges))
    assert column[0] == pytest.approx(fitted.number(x, edges), abs=1e-12)
    assert np.isnan(column[1])
    assert 0 <= column[0] <= 1


def test_standardise_is_a_transform(tmp_path: Path):
    rows = [{"y": str(i % 2), "x": str(i % 5), "c": "a"} for i in range(60)]
    sparse = "sparse: [{columns: [c]}]\n"
    data = prepared(tmp_path, "label: {column: y}\ndense: [{columns: [x], transform: standardise}]\n" + sparse, rows)
    check_agreement(data, tmp_path, rows)
    assert abs(float(data.array("train", "dense").mean())) < 1e-6


@pytest.mark.parametrize(
    ("group", "says"),
    [
        ("dense: [{columns: [x], edges: [1, 2]}]", "edges are of transform: bucketise"),
        ("dense: [{columns: [x], transform: bucketise, edges: [2, 2]}]", "each larger than the one before"),
        ("dense: [{columns: [x], transform: quantile, standardise: true}]", "leave standardise out"),
        ("dense: [{columns: [x], indicator: true}]\nsparse: [{columns: [x_missing]}]", "inputs named twice: x_missing"),
        ("sparse: [{columns: [x], hash: 10, min_count: 3}]", "no minimum count"),
        ("sparse: [{columns: [x], hashes: 2}]", "go with hash"),
        ("sparse: [{columns: [x], kind: time}]", "say what it gives"),
        ("sparse: [{columns: [x], kind: int, derive: {h: hour}}]", "derived from a column of kind time"),
    ],
)
def test_groups_that_cannot_be(group: str, says: str, tmp_path: Path):
    (tmp_path / "r.yaml").write_text(f"name: r\nheader: true\nlabel: {{column: y}}\n{group}\n")
    with pytest.raises(ConfigError, match=says):
        load_recipe(str(tmp_path / "r.yaml"))


def test_whole_numbers_that_a_float_cannot_hold_are_refused(tmp_path: Path):
    (tmp_path / "r.yaml").write_text(
        "name: r\nformat: parquet\nlabel: {column: y}\nsparse: [{columns: [id], kind: int}]\n"
    )
    labels = pa.array([0, 1] * 30)
    ids = {"exact": [Decimal(2**63 + i) for i in range(60)], "lost": [float(2**60 + i) for i in range(60)]}
    pq.write_table(
        pa.table({"y": labels, "id": pa.array(ids["exact"], pa.decimal128(38, 0))}), tmp_path / "exact.parquet"
    )
    pq.write_table(pa.table({"y": labels, "id": ids["lost"]}), tmp_path / "lost.parquet")
    data = prepare(str(tmp_path / "r.yaml"), [tmp_path / "exact.parquet"], tmp_path / "d", threads=1)
    values = pq.read_table(data.path / "vocab" / "id.parquet")["value"].to_pylist()
    assert len(set(values)) == len(values) > 30
    assert all(-(2**63) <= int(value) < -(2**63) + 60 for value in values)  # the same 64 bits
    with pytest.raises(DataError, match="row 1, column id: not an integer"):
        prepare(str(tmp_path / "r.yaml"), [tmp_path / "lost.parquet"], tmp_path / "e", threads=1)
