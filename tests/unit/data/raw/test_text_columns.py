from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recnas.data.raw.text_columns import PAD, Cells, parse_hex, parse_integers, parse_numbers, parse_strings


def cells(values: list[bytes]) -> Cells:
    text, start, end = b"\n" * PAD, [], []
    for value in values:
        start.append(len(text))
        text += value
        end.append(len(text))
        text += b"\t"
    text += b"\n" * PAD
    return Cells(np.frombuffer(text, np.uint8), np.array(start, np.int64), np.array(end, np.int64))


@given(st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1))
def test_integers_are_read_exactly(numbers):
    values, bad = parse_integers(cells([str(n).encode() for n in numbers]))
    assert not bad.any()
    assert [int(v) for v in values] == [n if n < 2**63 else n - 2**64 for n in numbers]


def _as_python_reads_it(cell: bytes) -> int | None:
    digits = cell[1:] if cell[:1] == b"-" else cell
    if not digits or not all(c in b"0123456789" for c in digits) or len(digits) > 20:
        return None
    value = int(cell)
    return value if -(2**63) <= value < 2**64 else None


@given(
    st.lists(
        st.one_of(st.binary(min_size=1, max_size=24), st.from_regex(rb"-?[0-9]{1,22}", fullmatch=True)),
        min_size=1,
    )
)
def test_what_is_not_an_integer_is_marked(raw):
    raw = [cell.replace(b"\t", b" ") for cell in raw]
    _, bad = parse_integers(cells(raw))
    assert [not b for b in bad] == [_as_python_reads_it(cell) is not None for cell in raw]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.sampled_from(["%x", "%X", "%08x"]))
def test_hexadecimal_is_read_exactly(numbers, form):
    values, bad = parse_hex(cells([(form % n).encode() for n in numbers]))
    assert not bad.any()
    assert [int(v) for v in values] == numbers


def test_every_single_byte_as_hexadecimal():
    every = [bytes([c]) for c in range(256) if c not in b"\t"]
    _, bad = parse_hex(cells(every))
    assert {cell for cell, b in zip(every, bad) if not b} == {c.encode() for c in "0123456789abcdefABCDEF"}


def test_long_hexadecimal_is_bad():
    _, bad = parse_hex(cells([b"0" * 16, b"0" * 17, b"1234567g", b"g1234567"]))
    assert bad.tolist() == [False, True, True, True]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_numbers_are_read_exactly(numbers):
    values, bad = parse_numbers(cells([repr(n).encode() for n in numbers]))
    assert not bad.any()
    assert values.tolist() == numbers


def test_what_is_not_a_finite_number_is_marked():
    _, bad = parse_numbers(cells([b"1.5", b"-2e3", b"nan", b"inf", b"1_0", b"abc", b"1e400", b"--1"]))
    assert bad.tolist() == [False, False, True, True, True, True, True, True]


@given(st.lists(st.binary(max_size=12), min_size=1))
def test_equal_strings_have_equal_keys_and_no_others(raw):
    raw = [cell.replace(b"\t", b" ") for cell in raw]
    strings, bad = parse_strings(cells(raw))
    assert len(set(strings.keys.tolist())) == len(set(raw))
    assert dict(zip(strings.unique_keys.tolist(), strings.unique_bytes)) == dict(zip(strings.keys.tolist(), raw))
    for cell, is_bad in zip(raw, bad):
        try:
            cell.decode("utf-8")
        except UnicodeDecodeError:
            assert is_bad
        else:
            assert not is_bad


def test_several_columns_at_once_equal_one_by_one():
    rng = np.random.default_rng(0)
    rows = [[str(v).encode() for v in rng.integers(-(10**12), 10**12, 5)] for _ in range(50)]
    flat = cells([cell for row in rows for cell in row])
    together = Cells(flat.text, flat.start.reshape(50, 5), flat.end.reshape(50, 5))
    values, bad = parse_integers(together)
    assert values.tolist() == [[int(cell) for cell in row] for row in rows]
    assert not bad.any()
