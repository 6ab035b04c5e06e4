"""Tables that are narrower than the vectors, as genes: columns of the data by number, each with a share of the width.

A field with the share 1/4 keeps the leading quarter of its vector; what is beyond reads as zeros. A field with the
share 0 is dropped: all of its vector reads as zeros, it has no weight of its own (`first_order`) and no table. Columns that are
not named have the full width. Operators see vectors of full width in any case, so every operator works with every share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from numpy.random import Generator

from recnas.space.nasrec.rules import is_int
from recnas.space.nasrec.sampling import pick

SHARES = (0.0, 0.25, 0.5)  # that a search chooses from, beside the full width
_DRAWN = (0.0, 0.25, 0.25, 0.5, 0.5)  # dropped half as often as narrowed
Narrow = tuple[tuple[int, float], ...]  # (column, share), by column


def kept(share: float, width: int) -> int:
    """Components that a field with this share keeps of a vector."""
    return min(width, max(1, round(share * width))) if share else 0


def with_share(narrow: Narrow, column: int, share: float) -> Narrow:
    """The same with another share for one column."""
    others = {c: s for c, s in narrow if c != column}
    return tuple(sorted((others if share == 1 else {**others, column: share}).items()))


def draw(fields: int, rng: Generator) -> Narrow:
    """Half of all draws have full tables; the others narrow a drawn share of them, so that every size is met."""
    if rng.random() < 0.5:
        return ()
    chance = rng.random()
    return tuple((column, pick(_DRAWN, rng)) for column in range(fields) if rng.random() < chance)


def changed(narrow: Narrow, fields: int, rng: Generator) -> Narrow:
    """One column with another share."""
    column = int(rng.integers(fields))
    share = dict(narrow).get(column, 1.0)
    return with_share(narrow, column, pick(tuple(one for one in (*SHARES, 1.0) if one != share), rng))


def changes(narrow: Narrow, fields: int) -> Iterator[Narrow]:
    """Every other share of every column."""
    for column in range(fields):
        share = dict(narrow).get(column, 1.0)
        yield from (with_share(narrow, column, one) for one in (*SHARES, 1.0) if one != share)


def faults(narrow: Any) -> Iterator[str]:
    if not isinstance(narrow, tuple) or not all(isinstance(one, tuple) and len(one) == 2 for one in narrow):
        yield f"narrow is {narrow!r}, which is not a tuple of (column, share)"
        return
    columns = [column for column, _ in narrow]
    if not all(is_int(column) and column >= 0 for column in columns):
        yield f"narrow names {columns}; columns are numbered from 0"
    elif columns != sorted(set(columns)):
        yield f"narrow names {columns}; name each column once, in increasing order"
    for column, share in narrow:
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
            yield f"narrow gives column {column} the share {share!r}; shares are from 0 (dropped) to below 1"


def to_lists(narrow: Iterable[tuple[int, float]]) -> list[list[float]]:
    return [[column, float(share)] for column, share in narrow]
