"""Every kind of column: what is prepared, what `predict` encodes and what an export serves are the same inputs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
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
from recnas.data.raw.sections import Clock
from recnas.data.raw.serving import RowReader, Vocabularies
from recnas.data.raw.text_columns import PAD, Cells
from recnas.data.raw.times import parse_times, seconds_of_arrow
from recnas.data.raw.values import seconds_of
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
