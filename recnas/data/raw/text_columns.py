"""Turn many text cells into numbers at once.

A block of text stays one byte array; a column is a pair of index arrays (start, end). Digits are
decoded eight at a time inside 64-bit words, so a column costs a few numpy passes instead of a Python
call per cell. Each function returns (values, bad) where `bad` marks cells that are not of the kind;
empty cells are the caller's business and give value 0 here.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

PAD = 32  # bytes that must surround the text in its buffer, so that word reads never leave it

_U = np.uint64
_ZEROS = _U(0x3030303030303030)
_HIGH_BITS = _U(0x8080808080808080)


class Cells(NamedTuple):
    """Cells of a block, one column [n] or several [n, k]: cell i is `text[start[i]:end[i]]`."""

    text: np.ndarray  # uint8, PAD bytes longer on both sides than the lines
    start: np.ndarray  # int64
    end: np.ndarray  # int64

    @property
    def length(self) -> np.ndarray:
        return self.end - self.start

    def at(self, places: tuple[np.ndarray, ...]) -> Cells:
        return Cells(self.text, self.start[places], self.end[places])

    def bytes_of(self, place: int | tuple[int, ...]) -> bytes:
        return self.text[self.start[place] : self.end[place]].tobytes()


# Which bytes of a word belong to a cell of 0 to 8 characters that ends where the word ends.
_KEEP = np.array([0] + [(2**64 - 1) << (64 - 8 * n) & (2**64 - 1) for n in range(1, 9)], dtype=np.uint64)


def _words_before(
    text: np.ndarray, end: np.ndarray, length: np.ndarray, flip: np.uint64
) -> tuple[np.ndarray, np.ndarray]:
    """The 8 bytes that end at `end` as one word, xor `flip`, bytes before the cell set to 0; and the mask.

    Byte 0 of the word is the most significant character.
    """
    unaligned = np.ndarray(len(text) - 7, dtype="<u8", buffer=text.data, strides=(1,))
    words = unaligned[end - 8]
    keep = np.take(_KEEP, length, mode="clip")
    words ^= flip
    words &= keep
    return words, keep


def _eight_digits(text: np.ndarray, end: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Value of the last (up to) 8 characters as decimal digits, and which cells are not digits."""
    words, _ = _words_before(text, end, length, _ZEROS)
    bad = ((words + _U(0x7676767676767676)) | words) & _HIGH_BITS != 0
    words *= _U(2561)  # 10 * 256 + 1: pairs of digits
    words >>= _U(8)
    words &= _U(0x00FF00FF00FF00FF)
    words *= _U(6553601)  # 100 * 65536 + 1
    words >>= _U(16)
    words &= _U(0x0000FFFF0000FFFF)
    words *= _U(42949672960001)  # 10000 * 2^32 + 1
    words >>= _U(32)
    return words, bad


def parse_integers(cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    """Decimal integers with an optional minus sign, as int64.

    Values from 2^63 to 2^64-1 keep their bits (display URLs of KDD Cup 2012 are unsigned 64-bit).
    """
    length = cells.length
    value, bad = _eight_digits(cells.text, cells.end, length)
    # Signs and long numbers are few in most columns: give them their own smaller pass.
    unusual = (length > 8) | (cells.text[cells.start] == ord("-"))
    if unusual.any():
        special = np.nonzero(unusual)
        some = cells.at(special)
        negative = some.text[some.start] == ord("-")
        start = some.start + negative
        digits = some.end - start
        low, bad_low = _eight_digits(some.text, some.end, digits)
        middle, bad_middle = _eight_digits(some.text, some.end - 8, np.clip(digits - 8, 0, 8))
        high, bad_high = _eight_digits(some.text, some.end - 16, np.clip(digits - 16, 0, 8))
        # 20 digits reach 2^64; more, or a carry past it, is not a 64-bit number.
        too_long = (
            (digits > 20) | (high > _U(1844)) | ((high == _U(1844)) & (middle * _U(10**8) + low > _U(6744073709551615)))
        )
        signed_overflow = negative & (
            (high > _U(922)) | ((high == _U(922)) & (middle * _U(10**8) + low > _U(3372036854775808)))
        )
        total = (high * _U(10**16) + middle * _U(10**8) + low).view(np.int64)
        value[special] = np.where(negative, -total, total).view(np.uint64)
        bad[special] = bad_low | bad_middle | bad_high | too_long | signed_overflow | (digits == 0)
    return value.view(np.int64), bad


def _eight_nibbles(text: np.ndarray, end: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    words, keep = _words_before(text, end, length, _U(0))
    letter = words >> _U(6)
    letter &= _U(0x0101010101010101)
    nibble = words & _U(0x0F0F0F0F0F0F0F0F)
    nibble += letter * _U(9)
    # Encode back in lower case and compare: exact, and cheaper than four range checks per byte.
    letter <<= _U(5)
    words |= letter
    again = nibble + _U(0x7676767676767676)
    again &= _HIGH_BITS
    again >>= _U(7)
    again *= _U(0x27)
    again += nibble
    again += _ZEROS
    again ^= words
    again |= nibble & _U(0xF0F0F0F0F0F0F0F0)  # 'g' would be a nibble of 16
    again &= keep
    bad = again != 0
    nibble = _pack(nibble, 4, _U(0x00FF00FF00FF00FF))
    nibble = _pack(nibble, 8, _U(0x0000FFFF0000FFFF))
    return _pack(nibble, 16, _U(0x00000000FFFFFFFF)), bad


def _pack(words: np.ndarray, bits: int, mask: np.uint64) -> np.ndarray:
    """Join neighbouring groups of `bits` into groups of twice as many."""
    right = words >> _U(2 * bits)
    words <<= _U(bits)
    words |= right
    words &= mask
    return words


def parse_hex(cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    """Up to 16 hexadecimal digits, either case, as uint64."""
    length = cells.length
    value, bad = _eight_nibbles(cells.text, cells.end, length)
    is_long = length > 8
    if is_long.any():
        long = np.nonzero(is_long)
        some = cells.at(long)
        high, bad_high = _eight_nibbles(some.text, some.end - 8, np.minimum(some.length - 8, 8))
        value[long] |= high << _U(32)
        bad[long] |= bad_high | (some.length > 16)
    return value, bad


def parse_numbers(cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    """Any finite decimal number, as float64. Integers take the fast path."""
    whole, not_whole = parse_integers(cells)
    value = whole.astype(np.float64)
    not_whole |= cells.length > 15  # beyond this an int64 is not exact as a float anyway
    bad = np.zeros(value.shape, dtype=bool)
    for place in zip(*np.nonzero(not_whole & (cells.length > 0))):
        cell = cells.bytes_of(place)
        try:
            number = float(cell)
        except ValueError:
            number = np.nan
        if not np.isfinite(number) or b"_" in cell:
            bad[place] = True
            number = 0.0
        value[place] = number
    return value, bad


def which_word(cells: Cells, words: tuple[bytes, ...], ignore_case: bool = False) -> np.ndarray:
    """For every cell of one column the number of the word it is equal to, or -1.

    `ignore_case` is for words of small letters only.
    """
    found = np.full(len(cells.start), -1)
    length = cells.length
    word, keep = _words_before(cells.text, cells.end, length, _U(0))
    if ignore_case:
        # This bit turns capitals into small letters, and nothing else into a letter.
        word |= _U(0x2020202020202020) & keep
    for number, text in enumerate(words):
        same = length == len(text)
        if len(text) <= 8:
            same &= word == _U(int.from_bytes(text.rjust(8, b"\0"), "little"))
        else:
            for place in np.flatnonzero(same):
                cell = cells.bytes_of(int(place))
                same[place] = (cell.lower() if ignore_case else cell) == text
        found[same] = number
    return found


class StringKeys(NamedTuple):
    """A string column: a 64-bit key per row, and the bytes behind each distinct key."""

    keys: np.ndarray  # uint64 per row
    unique_keys: np.ndarray  # uint64 per distinct cell
    unique_bytes: list[bytes]


def parse_strings(cells: Cells) -> tuple[StringKeys, np.ndarray]:
    """Keys are the first 8 bytes of BLAKE2b of the cell: the same on every machine and in every run."""
    import pyarrow as pa

    length = cells.length
    offsets = np.zeros(len(length) + 1, dtype=np.int64)
    np.cumsum(length, out=offsets[1:])
    index = np.repeat(cells.start - offsets[:-1], length) + np.arange(offsets[-1])
    packed = cells.text[index]
    array = pa.Array.from_buffers(pa.large_binary(), len(length), [None, pa.py_buffer(offsets), pa.py_buffer(packed)])
    encoded = array.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    return string_keys(distinct, encoded.indices.to_numpy(zero_copy_only=False))


def string_keys(distinct: list[bytes], codes: np.ndarray) -> tuple[StringKeys, np.ndarray]:
    digests = b"".join(hashlib.blake2b(cell, digest_size=8).digest() for cell in distinct)
    unique = np.frombuffer(digests, dtype="<u8")
    bad_unique = np.fromiter((not _is_utf8(cell) for cell in distinct), dtype=bool, count=len(distinct))
    if not len(distinct):
        return StringKeys(np.zeros(0, np.uint64), unique, distinct), np.zeros(0, bool)
    return StringKeys(unique[codes], unique, distinct), bad_unique[codes]


def _is_utf8(cell: bytes) -> bool:
    if cell.isascii():
        return True
    try:
        cell.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
