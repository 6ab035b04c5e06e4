"""Patterns, partitioned folders, standard input, and cells that hold line breaks."""

from __future__ import annotations

import csv
import gzip
import io
import sys
import types
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.raw.encoder import RawEncoder
from recnas.data.raw.lines import split_lines
from recnas.data.raw.parse import parse_rows, rows_of_text
from recnas.data.raw.recipe import Recipe
from recnas.data.raw.serving import RowError, RowReader, Vocabularies
from recnas.data.raw.sources import find_sources, record_blocks
from recnas.errors import ConfigError, DataError
from recnas.serve.check_rows import real_rows, rebuilt_rows
from recnas.serve.manifest import describe_inputs, write_vocabularies

INPUTS = """
label: {column: y}
dense: [{columns: [hour], transform: none}, {columns: [price]}]
sparse: [{columns: [item, country]}]
partitions: [dt, country, hour]
time: {column: dt, format: iso, zone: "+00:00"}
protocol: time-last-day
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    """Five days in two countries, as folders of text and of Parquet, and as one file with all columns."""
    folder = tmp_path_factory.mktemp("log")
    rng = np.random.default_rng(0)
    whole = ["y,price,item,dt,country,hour"]
    for day in range(1, 6):
        for country, name in (("é/x", "%C3%A9%2Fx"), ("", "__HIVE_DEFAULT_PARTITION__")):
            rows = [(int(rng.integers(2)), f"{rng.random():.3f}", f"i{rng.integers(9)}") for _ in range(40)]
            where = f"dt=2024-03-0{day}/country={name}/hour={day}"
            for kind in ("text", "parquet"):
                (folder / kind / where).mkdir(parents=True)
            (folder / "text" / "_SUCCESS").touch()
            lines = ["y,price,item", *(",".join(map(str, row)) for row in rows)]
            (folder / "text" / where / "part.csv").write_text("\n".join(lines) + "\n")
            columns = dict(zip(("y", "price", "item"), zip(*rows)))
            table = pa.table({"y": columns["y"], "price": [*map(float, columns["price"])], "item": columns["item"]})
            pq.write_table(table, folder / "parquet" / where / "part.parquet")
            whole += [f"{line},2024-03-0{day},{country},{day}" for line in lines[1:]]
    (folder / "whole.csv").write_text("\n".join(whole) + "\n")
    text = "name: t\nseparator: ','\nheader: true\n"
    (folder / "t.yaml").write_text(text + INPUTS)
    (folder / "bare.yaml").write_text("name: t\nseparator: ','\ncolumns: [y, price, item]\n" + INPUTS)
    (folder / "p.yaml").write_text("name: p\nformat: parquet\n" + INPUTS)
    (folder / "w.yaml").write_text(text + INPUTS.replace("partitions: [dt, country, hour]\n", ""))
    return folder


def test_partitions_are_columns(log: Path, tmp_path: Path):
    # Files of a folder in name order, as the one file has them.
    order = sorted(range(10), key=lambda i: (i // 2, i % 2 == 0))
    lines = (log / "whole.csv").read_text().splitlines()
    blocks = [lines[1 + 40 * i : 41 + 40 * i] for i in range(10)]
    by_name = [line for i in sorted(order, key=lambda i: (i // 2, ["%C3", "__H"][i % 2])) for line in blocks[i]]
    (tmp_path / "whole.csv").write_text("\n".join([lines[0], *by_name]) + "\n")
    whole = prepare(str(log / "w.yaml"), [tmp_path / "whole.csv"], tmp_path / "w", threads=1)
    text = prepare(str(log / "t.yaml"), [log / "text"], tmp_path / "t", threads=1)
    assert text.fingerprint == whole.fingerprint
    assert prepare(str(log / "p.yaml"), [log / "parquet"], tmp_path / "p", threads=1).fingerprint == whole.fingerprint
    pattern = [f"{log}/text/dt=*"]
    assert prepare(str(log / "t.yaml"), pattern, tmp_path / "g", threads=1).fingerprint == whole.fingerprint
    assert text.rows("test") == 80
    block = np.concatenate([block.ids for block in RawEncoder(text, [log / "text"]).blocks()])
    assert np.array_equal(block, np.concatenate([text.array(s, "ids") for s in ("train", "valid", "test")]))
    write_vocabularies(text, tmp_path / "served")
    reader = RowReader(describe_inputs(text), Vocabularies(tmp_path / "served", describe_inputs(text)))
    with pytest.raises(RowError, match="name its folder"):
        reader.rows(b"1,0.5,i3")
    objects, none = rebuilt_rows(text)
    assert none is real_rows(text) is None
    assert [ids for _, ids in reader.rows("\n".join(objects.lines).encode())] == objects.ids.tolist()


def test_a_file_outside_of_a_partition_is_named(log: Path, tmp_path: Path):
    with pytest.raises(DataError, match="lies in no folder dt=") as caught:
        prepare(str(log / "w.yaml").replace("w.yaml", "t.yaml"), [log / "text", log / "whole.csv"], tmp_path / "d")
    assert "whole.csv" in str(caught.value)
    with pytest.raises(DataError, match="No file matches"):
        find_sources([log / "nothing-*.csv"])


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input(log: Path, tmp_path: Path, monkeypatch, packed: bool):
    content = (log / "whole.csv").read_bytes()
    expected = prepare(str(log / "w.yaml"), [log / "whole.csv"], tmp_path / "w", threads=1)
    for _ in range(2):  # the second time it is finished already
        piped = io.BytesIO(gzip.compress(content, mtime=0) if packed else content)
        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=piped))
        data = prepare(str(log / "w.yaml"), ["-"], tmp_path / "d", threads=1)
        assert data.fingerprint == expected.fingerprint
        assert not (tmp_path / "d" / ".stdin").exists()
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO()))
    with pytest.raises(DataError, match="Standard input is empty"):
        prepare(str(log / "w.yaml"), ["-"], tmp_path / "e")
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(b"no,such,header\n1,2,3\n")))
    with pytest.raises(DataError, match="the header has no column"):
        prepare(str(log / "w.yaml"), ["-"], tmp_path / "e")
    assert not (tmp_path / "e").exists()


cell = st.lists(st.sampled_from(["a", "b", ",", '"', "\n", "\r\n", "é", "_", " "]), max_size=5).map("".join)


@settings(max_examples=60)
@given(rows=st.lists(st.tuples(cell, cell, cell), min_size=1, max_size=8), size=st.integers(1, 60))
def test_every_cell_comes_back(rows, size, tmp_path_factory):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    path.write_bytes(out.getvalue().encode())
    found = []
    for block in record_blocks(find_sources([path])[0], size):
        table = split_lines(block, ",", 3, quoted=True, line_breaks=True)
        assert not table.bad
        cells = table.cells(slice(0, 3))
        found += [tuple(cells.bytes_of((row, i)).decode() for i in range(3)) for row in range(len(table.line))]
    assert found == rows


@settings(max_examples=40)
@given(rows=st.lists(st.tuples(
    st.sampled_from(["0", "1", "", "maybe"]),
    st.one_of(
        st.datetimes(datetime(1950, 1, 1), datetime(2150, 1, 1)).map(lambda t: t.replace(microsecond=0).isoformat()),
        st.sampled_from(["", "yesterday", "2024-02-30", "2024-02-29", "24030117"]),
    ),
    cell,
), min_size=1, max_size=10))  # fmt: skip
def test_every_row_is_read_or_rejected(rows):
    """Times, and quoted separators and line breaks; which rows are good is told by other means."""
    recipe = Recipe.model_validate(
        {
            "name": "r", "separator": ",", "quote": True, "line_breaks": True, "columns": ["y", "at", "text"], "label": {"column": "y"},
            "sparse": [{"columns": ["text"]}, {"columns": ["at"], "kind": "time", "derive": {"hour": "hour"}}],
            "time": {"column": "at", "format": "iso", "zone": "+00:00"},
        }
    )  # fmt: skip
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    inputs = recipe.input_columns()
    found = rows_of_text(out.getvalue().encode(), True, recipe.columns, recipe, inputs)
    assert found is not None
    chunk = parse_rows(recipe, inputs, found, {})
    assert chunk.lines == len(rows) == len(chunk.line) + len(chunk.bad)
    good = []
    for number, (label, at, _) in enumerate(rows):
        try:
            moment = datetime.fromisoformat(at) if "-" in at else None
        except ValueError:
            moment = None
        if label in ("0", "1") and moment is not None:
            good.append(number)
            place = len(good) - 1
            assert int(chunk.time[place]) == (moment - datetime(1970, 1, 1)) // timedelta(seconds=1)
            assert int(chunk.keys["hour"][place]) == moment.hour
    assert chunk.line.tolist() == good


BREAKS = """
name: b
separator: ","
quote: true
header: true
line_breaks: true
label: {column: y}
sparse: [{columns: [text]}, {columns: [n], kind: int}]
"""


def test_rows_in_are_rows_out_and_rejects(tmp_path: Path):
    rows = [
        [i % 2, f'line {i % 5}\nand "more", {"x" * (i % 3)}' if i % 3 else "plain", i if i % 10 else "x"]
        for i in range(300)
    ]
    with open(tmp_path / "r.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["y", "text", "n"], *rows])
    (tmp_path / "r.yaml").write_text(BREAKS)
    data = prepare(
        str(tmp_path / "r.yaml"), [tmp_path / "r.csv"], tmp_path / "d", PrepareOptions(on_error="skip"), threads=2
    )
    assert (data.manifest["rows_in"], data.manifest["rejects"]) == (300, 30)
    assert sum(data.manifest["rows"].values()) == 270
    texts = set(pq.read_table(data.path / "vocab" / "text.parquet")["value"].to_pylist())
    assert texts == {row[1] for row in rows if row[2] != "x"}
    with pytest.raises(DataError, match="row 2, column n: not an integer"):
        prepare(str(tmp_path / "r.yaml"), [tmp_path / "r.csv"], tmp_path / "e", threads=1)
    good = [row for row in rows if row[2] != "x"]
    with open(tmp_path / "good.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["y", "text", "n"], *good])
    data = prepare(str(tmp_path / "r.yaml"), [tmp_path / "good.csv"], tmp_path / "g", threads=1)
    (block,) = RawEncoder(data, [tmp_path / "good.csv"]).blocks()
    write_vocabularies(data, tmp_path / "served")
    reader = RowReader(describe_inputs(data), Vocabularies(tmp_path / "served", describe_inputs(data)))
    assert [ids for _, ids in reader.rows((tmp_path / "good.csv").read_bytes())] == block.ids.tolist()
    made = real_rows(data)
    assert made is not None
    assert any("\n" in line for line in made.lines)
    assert [ids for _, ids in reader.rows("\n".join(made.lines).encode())] == made.ids.tolist()


def test_a_quote_that_never_closes_is_told(tmp_path: Path):
    (tmp_path / "r.yaml").write_text(BREAKS)
    (tmp_path / "r.csv").write_text('y,text,n\n1,"a,2\n' + "0,b,3\n" * 20)
    with pytest.raises(DataError, match="a quote that does not close"):
        prepare(str(tmp_path / "r.yaml"), [tmp_path / "r.csv"], tmp_path / "d", threads=1)
    (tmp_path / "n.yaml").write_text(BREAKS.replace("quote: true\n", ""))
    with pytest.raises(ConfigError, match="set quote: true too"):
        prepare(str(tmp_path / "n.yaml"), [tmp_path / "r.csv"], tmp_path / "d", threads=1)
