"""A row gives the same inputs as quoted text, as Parquet and as JSON to the module that is served."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepared import PreparedData
from recnas.data.raw.encoder import RawEncoder
from recnas.data.raw.serving import RowReader, Vocabularies
from recnas.serve.manifest import describe_inputs, write_vocabularies

COLUMNS = ["clicked", "price", "seen", "age", "city", "tag", "item", "hour"]
INPUTS = (
    "label: {column: clicked}\n"
    "dense:\n- {columns: [price], missing: ['-1', 'none'], fill: 0.5}\n- {columns: [seen], transform: none}\n"
    "- {columns: [age], transform: log-squared, standardise: true}\n"
    "sparse:\n- {columns: [city], missing: ['?']}\n- {columns: [tag], kind: hex, missing: ['-']}\n"
    "- {columns: [item], kind: int, suffix: ':1', missing: ['7']}\n"
    "- {columns: [hour], kind: int, derive: {hour_of_day: yymmddhh-hour, weekday: yymmddhh-weekday}}\n"
)
text = st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=8)
known_cities = st.sampled_from(["London, UK", "London", 'the "Hague"', "a\x1fb", "é", "", "?", " ", "NA", "{"])
number = st.one_of(
    st.sampled_from(["", "NA", "NaN", "nan", "null", "NULL", "None", "N/A"]),
    st.integers(-(10**18), 10**18).map(str),
    st.floats(-1e30, 1e30).map(repr),
    st.sampled_from(["-0", "+5", "007", " 3", "1e5", "-1.0", "870000000"]),
)
row = st.fixed_dictionaries(
    {
        "clicked": st.sampled_from(["0", "1", "yes", "No", "TRUE", "f"]),
        "price": st.one_of(number, st.just("none")),
        "seen": number,
        "age": number,
        "city": st.one_of(known_cities, text),
        "tag": st.one_of(st.sampled_from(["", "-", "1F", "0000001f"]), st.integers(0, 2**64 - 1).map(hex).map(lambda t: t[2:])),
        "item": st.one_of(st.sampled_from(["", "7:1", "05:1", ":1", "NA:1"]), st.integers(-(2**63), 2**64 - 1).map("{}:1".format)),
        "hour": st.one_of(
            st.sampled_from(["", "NA"]),
            st.builds("{:02}{:02}{:02}{:02}".format, st.integers(0, 99), st.integers(1, 12), st.integers(1, 31), st.integers(0, 23)),
        ),
    }
)  # fmt: skip


def as_csv(rows: list[dict[str, str]], quoting: int = csv.QUOTE_MINIMAL) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n", quoting=quoting)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def as_parquet(rows: list[dict[str, str]], path: Path) -> None:
    pq.write_table(pa.table({name: [row[name] or None for row in rows] for name in COLUMNS}), path)


def write_rows(folder: Path, rows: list[dict[str, str]]) -> tuple[Path, Path]:
    (folder / "rows.csv").write_text(as_csv(rows), encoding="utf-8")
    as_parquet(rows, folder / "rows.parquet")
    return folder / "rows.csv", folder / "rows.parquet"


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> tuple[PreparedData, PreparedData]:
    """The same 300 rows prepared from text and from Parquet."""
    folder = tmp_path_factory.mktemp("both")
    rng = np.random.default_rng(0)
    rows = [
        {
            "clicked": str(rng.choice(["yes", "no"])),
            "price": str(rng.choice(["", "NA", "-1", "none", "2.5", "9"])),
            "seen": str(870_000_000 + int(rng.integers(10**6))),
            "age": str(rng.integers(99)),
            "city": str(rng.choice(["London, UK", "London", 'the "Hague"', "a\x1fb", "é", "", "?", "NA"])),
            "tag": str(rng.choice(["1f", "abcdef0123456789", "", "-"])),
            "item": f"{2**53 + int(rng.integers(5))}:1",
            "hour": f"2403{int(rng.integers(1, 32)):02}{int(rng.integers(24)):02}",
        }
        for _ in range(300)
    ]
    text_file, parquet_file = write_rows(folder, rows)
    (folder / "t.yaml").write_text("name: t\nseparator: ','\nquote: true\nheader: true\n" + INPUTS)
    (folder / "p.yaml").write_text("name: p\nformat: parquet\n" + INPUTS)
    options = PrepareOptions(parquet=False)
    return (
        prepare(str(folder / "t.yaml"), [text_file], folder / "from-text", options, threads=1),
        prepare(str(folder / "p.yaml"), [parquet_file], folder / "from-parquet", options, threads=1),
    )


def served(data: PreparedData, folder: Path) -> RowReader:
    """What an export of a model on these data would serve rows with."""
    write_vocabularies(data, folder)
    model = describe_inputs(data)
    return RowReader(model, Vocabularies(folder, model))


@pytest.fixture(scope="module")
def readers(both, tmp_path_factory) -> list[RowReader]:
    return [served(data, tmp_path_factory.mktemp("served") / "it") for data in both]


def test_text_and_parquet_of_the_same_rows_are_the_same_data(both):
    from_text, from_parquet = both
    assert from_text.fingerprint == from_parquet.fingerprint
    for field in from_text.schema.sparse:
        files = [pq.read_table(data.path / "vocab" / f"{field.name}.parquet") for data in both]
        assert files[0] == files[1]
    cities = pq.read_table(from_text.path / "vocab" / "city.parquet")["value"].to_pylist()
    assert set(cities) == {"London, UK", "London", 'the "Hague"', "a\x1fb", "é", "NA"}  # NA is a text like any other
    assert [field.standardised for field in from_text.schema.dense] == [False, True, True]


LIKE_A_COLUMN = {
    "clicked": "0",
    "price": "none",
    "seen": "",
    "age": "",
    "city": "seen",
    "tag": "",
    "item": "",
    "hour": "",
}


@settings(max_examples=60)
@example(rows=[LIKE_A_COLUMN], quote_all=False, crlf=False)  # a text that is called like a numeric column is no header
@given(rows=st.lists(row, min_size=1, max_size=6), quote_all=st.booleans(), crlf=st.booleans())
def test_text_parquet_and_json_give_the_same_inputs(both, readers, tmp_path_factory, rows, quote_all, crlf):
    folder: Path = tmp_path_factory.mktemp("rows")
    text_file, parquet_file = write_rows(folder, rows)
    written = as_csv(rows, csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL)
    written = written.replace("\n", "\r\n") if crlf else written
    text_file.write_bytes(written.encode())
    (from_text,) = RawEncoder(both[0], [text_file]).blocks()
    (from_parquet,) = RawEncoder(both[1], [parquet_file]).blocks()
    assert not from_text.bad
    np.testing.assert_array_equal(from_text.ids, from_parquet.ids)
    np.testing.assert_array_equal(from_text.dense, from_parquet.dense)
    np.testing.assert_array_equal(from_text.label, from_parquet.label)
    assert from_text.label.tolist() == [float(row["clicked"].lower() in ("1", "yes", "true")) for row in rows]
    body = written.split("\n", 1)[1]
    objects = "\n".join(json.dumps({k: v or None for k, v in row.items() if k != "clicked"}) for row in rows)
    of_text, of_parquet = readers
    for reader, given_text in ((of_text, written), (of_text, body), (of_text, objects), (of_parquet, objects)):
        found = reader.rows(given_text.encode())
        assert [ids for _, ids in found] == from_text.ids.tolist()
        np.testing.assert_allclose([dense for dense, _ in found], from_text.dense, rtol=1e-5, atol=1e-5)


def test_typed_parquet_and_json_numbers_agree(tmp_path: Path):
    """Integers beyond 2^53, booleans and NaN, as Parquet's own types and as JSON's."""
    big = [2**53 + n % 7 for n in range(200)]
    table = pa.table(
        {
            "label": [n % 3 == 0 for n in range(200)],
            "price": pa.array([float(n) if n % 5 else float("nan") for n in range(200)]),
            "user": pa.array(big, pa.int64()),
            "item": pa.array([n % 2 == 0 for n in range(200)]),
        }
    )
    pq.write_table(table, tmp_path / "raw.parquet")
    data = prepare("parquet", [tmp_path / "raw.parquet"], tmp_path / "data", PrepareOptions(min_count=1), threads=1)
    assert data.manifest["click_rate"]["train"] is not None
    users = pq.read_table(data.path / "vocab" / "user.parquet")["value"].to_pylist()
    assert set(users) == {str(value) for value in big}
    (block,) = RawEncoder(data, [tmp_path / "raw.parquet"]).blocks()
    assert block.label.tolist() == [float(n % 3 == 0) for n in range(200)]
    found = served(data, tmp_path / "served").rows("\n".join(json.dumps(row) for row in table.to_pylist()).encode())
    assert [ids for _, ids in found] == block.ids.tolist()
    np.testing.assert_allclose([dense for dense, _ in found], block.dense, rtol=1e-6)


def test_libfm_lines_with_and_without_their_label(tmp_path: Path):
    rng = np.random.default_rng(0)
    lines = [f"{rng.choice([-1, 1])} " + " ".join(f"{n}:1" for n in rng.integers(0, 9, 10)) for _ in range(300)]
    (tmp_path / "f.libfm").write_text("\n".join(lines) + "\n")
    data = prepare("frappe", [tmp_path / "f.libfm"], tmp_path / "data", PrepareOptions(parquet=False), threads=1)
    (block,) = RawEncoder(data, [tmp_path / "f.libfm"]).blocks()
    reader = served(data, tmp_path / "served")
    for text in ("\n".join(lines), "\n".join(line.partition(" ")[2] for line in lines)):
        assert [ids for _, ids in reader.rows(text.encode())] == block.ids.tolist()
    with pytest.raises(ValueError, match=r"9 cells.*has 11.*or 10 without label"):
        reader.rows(lines[0].split(" ", 2)[2].encode())
