from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recnas.data.raw.lines import split_lines
from recnas.data.raw.sources import block_at, find_sources, stream_blocks
from recnas.errors import DataError

line = st.lists(st.text("ab1", max_size=3), min_size=1, max_size=4).map(lambda cells: ",".join(cells).encode())


@given(st.lists(line, min_size=1, max_size=30), st.booleans(), st.booleans())
def test_every_line_is_either_a_row_or_bad(lines, last_newline, returns):
    ending = b"\r\n" if returns else b"\n"
    block = ending.join(lines) + (ending if last_newline else b"")
    if not block:
        return
    table = split_lines(block, ",", 3)
    expected = block.removesuffix(b"\n").split(b"\n")
    good = [k for k, text in enumerate(expected) if text.count(b",") == 2]
    assert table.lines == len(expected)
    assert table.line.tolist() == good
    assert sorted(table.line.tolist() + [fault.line for fault in table.bad]) == list(range(len(expected)))
    for row, number in enumerate(good):
        cells = [table.cells(c).bytes_of(row) for c in range(3)]
        assert cells == expected[number].removesuffix(b"\r").split(b",")


def test_quotes_are_removed_and_an_open_quote_is_a_bad_line():
    table = split_lines(b'1,"a,b"\n2,"x\n3,"say ""hi"""\n', ",", 2, quoted=True)
    assert [table.cells(1).bytes_of(r) for r in range(2)] == [b"a,b", b'say "hi"']
    assert [(fault.line, fault.reason) for fault in table.bad] == [(1, "a quote that does not close on its line")]


cell = st.binary(max_size=6).filter(lambda c: b"\n" not in c)


@given(st.lists(st.tuples(cell, cell, cell), min_size=1, max_size=8), st.sampled_from([",", "_", "\x1f", " "]))
def test_quoted_cells_keep_every_byte(rows, separator):
    """Whatever bytes a cell holds, separators, quotes and any stand-in for them included."""
    quoted = [separator.encode().join(b'"' + c.replace(b'"', b'""') + b'"' for c in row) for row in rows]
    table = split_lines(b"\n".join(quoted) + b"\n", separator, 3, quoted=True)
    assert not table.bad
    assert [tuple(table.cells(c).bytes_of(r) for c in range(3)) for r in range(len(rows))] == rows


@given(st.lists(st.integers(0, 40), max_size=40), st.booleans(), st.sampled_from([1, 2, 7, 16, 64, 1000]))
def test_blocks_do_not_depend_on_how_they_are_read(tmp_path_factory, lengths, tail, size):
    text = b"".join(b"x" * n + b"\n" for n in lengths) + (b"tail" if tail else b"") or b"one\n"
    folder = tmp_path_factory.mktemp("blocks")
    (folder / "plain").write_bytes(text)
    (folder / "same.gz").write_bytes(gzip.compress(text))
    with pa.output_stream(str(folder / "same.zst"), compression="zstd") as out:
        out.write(text)
    plain, zipped, zstd = (find_sources([folder / name])[0] for name in ("plain", "same.gz", "same.zst"))
    streamed = list(stream_blocks(plain, size))
    assert b"".join(streamed) == text
    assert streamed == list(stream_blocks(zipped, size)) == list(stream_blocks(zstd, size))
    seeked = [block_at(plain, k, size) for k in range(-(-len(text) // size))]
    assert [b for b in seeked if b] == [b for b in streamed if b]


def test_a_folder_stands_for_its_files_in_order(tmp_path: Path):
    for name in ("b", "a", "_SUCCESS", ".hidden"):
        (tmp_path / name).write_text("1\n")
    assert [source.path.name for source in find_sources([tmp_path])] == ["a", "b"]


def test_missing_empty_and_cut_files_say_so(tmp_path: Path):
    with pytest.raises(DataError, match="no file"):
        find_sources([tmp_path / "absent"])
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        find_sources([tmp_path / "empty"])
    whole = gzip.compress(b"some line\n" * 10_000)
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cannot be decompressed"):
        list(stream_blocks(find_sources([tmp_path / "cut.gz"])[0], 100))


def test_a_binary_file_is_refused(tmp_path: Path):
    (tmp_path / "binary").write_bytes(b"\x00" * (3 << 20))
    source = find_sources([tmp_path / "binary"])[0]
    with pytest.raises(DataError, match="not a text log"):
        list(stream_blocks(source, 1000))
    with pytest.raises(DataError, match="not a text log"):
        block_at(source, 1, 1000)
