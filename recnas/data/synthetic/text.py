"""Columns of numbers to lines of text without a Python loop over rows.

Each column becomes an array of fixed-width byte strings in which NUL means "nothing here". The
columns are laid side by side in one packed record array, separators between them, and a single
sweep drops the NULs. An empty cell is a string of NULs, so it costs nothing special.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.bytes_] | npt.NDArray[np.unsignedinteger]


def hex8(numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """Eight lower-case hex digits per number, as the 8 bytes of one big-endian word."""
    word = numbers.astype(np.uint64)
    # Give every 4-bit digit a byte of its own: halves, quarters, eighths.
    for shift, mask in ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F)):
        word |= word << np.uint64(shift)
        word &= np.uint64(mask)
    # Adding 6 carries into bit 4 exactly for the digits a..f, which lie 39 above '0' + 10.
    letters = word + np.uint64(0x0606060606060606)
    letters >>= np.uint64(4)
    letters &= np.uint64(0x0101010101010101)
    letters *= np.uint64(39)
    word += letters
    word += np.uint64(0x3030303030303030)
    return word.byteswap(inplace=True)


@cache
def _four_digits() -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Texts of 0..9999 as words of 4 bytes: padded with zeros, and with NULs in front."""
    padded = np.array([b"%04d" % i for i in range(10_000)], dtype="S4").view(np.uint32)
    bare = np.frombuffer(b"".join((b"%d" % i).rjust(4, b"\0") for i in range(10_000)), dtype=np.uint32)
    return padded, bare


def decimal(numbers: npt.NDArray[np.integer], digits: int) -> npt.NDArray[np.bytes_]:
    """Decimal digits of non-negative numbers below 10**digits, leading positions NUL."""
    padded, bare = _four_digits()
    groups = -(-digits // 4)
    words = np.empty((len(numbers), groups), dtype=np.uint32)
    rest = numbers.astype(np.uint64 if digits > 9 else np.uint32)
    for group in range(groups - 1, -1, -1):
        if group == 0:
            low, rest = rest, np.zeros_like(rest)
        else:
            rest, low = np.divmod(rest, rest.dtype.type(10_000))
        first = rest == 0  # nothing stands before this group
        text = np.where(first, bare[low], padded[low])
        if group < groups - 1:
            text[first & (low == 0)] = 0
        words[:, group] = text
    return words.view(f"S{4 * groups}").ravel()


def signed_decimal(numbers: npt.NDArray[np.integer], digits: int) -> list[Cells]:
    """Sign and digits as two cells that `join_rows` is to glue together."""
    sign = np.where(numbers < 0, np.uint8(ord("-")), np.uint8(0))
    return [sign, decimal(np.abs(numbers), digits)]


def lookup(texts: Sequence[str]) -> npt.NDArray[np.bytes_]:
    """Texts of a short list as a table to `take` from."""
    return np.array([text.encode() for text in texts], dtype=np.bytes_)


def blank(cells: Cells, where: npt.NDArray[np.bool_]) -> Cells:
    """Empty the cells that are missing, in place."""
    cells[where] = 0 if cells.dtype.kind == "u" else b""
    return cells


def join_rows(columns: Sequence[Cells | list[Cells]], separator: str) -> bytes:
    """Lines of text, one per row. A column given as a list is glued without separators."""
    glued = [column if isinstance(column, list) else [column] for column in columns]
    parts: list[Cells | np.uint8] = []
    for pieces in glued:
        parts.extend(pieces)
        parts.append(np.uint8(ord(separator)))
    parts[-1] = np.uint8(ord("\n"))
    record = np.empty(len(glued[0][0]), dtype=[(f"p{i}", part.dtype) for i, part in enumerate(parts)])
    for i, part in enumerate(parts):
        record[f"p{i}"] = part
    # Deleting bytes in C is several times faster than a boolean mask over the same memory.
    return record.tobytes().translate(None, b"\0")
