"""Criteo Kaggle `train.txt`: label, I1..I13, C1..C26, TAB, no header; rows in time order.

Cardinalities are the published table sizes; exponent and shift of each law were fitted so that
10,000 generated rows show as many distinct values, and as frequent a top value, as 10,000 rows of
the real log. Columns that are missing together in the real log are missing together here. The
click model does not drift: row order stands for time, but nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from recnas.data.synthetic import text
from recnas.data.synthetic.hashing import key_of, scatter32
from recnas.data.synthetic.laws import LogNormalCount, Zipf
from recnas.data.synthetic.layout import Drawn, Labels, NoSideFile
from recnas.data.synthetic.planted import F64, TABLE_LIMIT, Inputs, Planted, code_ranks

CATEGORIES: dict[str, Zipf] = {
    "C1": Zipf(1461, 1.978, 0.972),
    "C2": Zipf(584, 1.86, 6.149),
    "C3": Zipf(10131227, 1.033, 1.177),
    "C4": Zipf(2202609, 1.103, 1.251),
    "C5": Zipf(306, 2.658, 1.066),
    "C6": Zipf(25, 4.0, 3.4),
    "C7": Zipf(12518, 1.179, 26.217),
    "C8": Zipf(634, 2.315, 1.035),
    "C9": Zipf(4, 4.0, 0.93),
    "C10": Zipf(93146, 1.05, 0.049),
    "C11": Zipf(5684, 1.288, 17.098),
    "C12": Zipf(8351593, 1.047, 1.362),
    "C13": Zipf(3195, 1.285, 15.982),
    "C14": Zipf(28, 4.0, 6.209),
    "C15": Zipf(14993, 1.449, 23.03),
    "C16": Zipf(5461307, 1.082, 1.87),
    "C17": Zipf(11, 2.275, 2.131),
    "C18": Zipf(5653, 1.577, 10.84),
    "C19": Zipf(2174, 1.173, 0.018),
    "C20": Zipf(5, 1.853, 3.54),
    "C21": Zipf(7046548, 1.062, 1.575),
    "C22": Zipf(19, 4.0, 3.0),
    "C23": Zipf(16, 1.582, 0.805),
    "C24": Zipf(286182, 1.235, 2.629),
    "C25": Zipf(106, 4.0, 5.814),
    "C26": Zipf(142573, 1.149, 1.687),
}

COUNTS: dict[str, LogNormalCount] = {
    "I1": LogNormalCount(0.3, 1.44, 5775),
    "I2": LogNormalCount(1.2, 2.85, 257675),
    "I3": LogNormalCount(2.0, 1.5, 65535),
    "I4": LogNormalCount(1.5, 1.15, 969),
    "I5": LogNormalCount(7.5, 2.0, 23159456),
    "I6": LogNormalCount(3.6, 1.7, 431037),
    "I7": LogNormalCount(1.2, 1.75, 56311),
    "I8": LogNormalCount(1.9, 1.15, 6047),
    "I9": LogNormalCount(3.7, 1.55, 29019),
    "I10": LogNormalCount(-0.2, 0.65, 11),
    "I11": LogNormalCount(0.3, 1.15, 231),
    "I12": LogNormalCount(-0.5, 1.2, 4008),
    "I13": LogNormalCount(1.7, 1.25, 7393),
}

# One coin per group: its columns are empty in the same rows.
MISSING_TOGETHER: dict[tuple[str, ...], float] = {
    ("I1", "I10"): 0.45,
    ("I3",): 0.21,
    ("I4", "I13"): 0.21,
    ("I5",): 0.03,
    ("I6",): 0.24,
    ("I7", "I9", "I11"): 0.045,
    ("I8",): 0.001,
    ("I12",): 0.77,
    ("C3", "C4", "C12", "C16", "C21", "C24"): 0.035,
    ("C6",): 0.13,
    ("C19", "C20", "C25", "C26"): 0.45,
    ("C22",): 0.80,
}

# Waves stand on columns that are rarely missing: many pipelines read an empty count as 0, and the
# effect of "empty" would blur that of small counts.
PLANTED: tuple[Planted, ...] = (
    *(Planted((column,), 0.31) for column in ("C2", "C6", "C14", "C17", "C20", "C23")),
    *(Planted((column,), 0.12) for column in ("C1", "C5", "C8", "C9", "C18", "C19", "C22", "C25")),
    *(Planted((column,), 0.06) for column in ("C3", "C4", "C7", "C10", "C11", "C13", "C15", "C26")),
    Planted((), 0.25, count="I9"),
    Planted((), 0.20, count="I8"),
    Planted(("C14",), 0.30, count="I2"),
    Planted(("C2", "C17"), 0.30),
    Planted(("C14", "C17"), 0.45),
    Planted(("C17", "C23"), 0.30),
    Planted(("C6", "C23"), 0.45),
    Planted(("C14", "C17", "C23"), 0.60),
    Planted(("C6", "C20", "C23"), 0.45),
)

_SMALL_TABLE = 1 << 16  # columns up to this size look their text up; larger ones compute it


@cache
def _ready_texts(column: str) -> npt.NDArray[np.uint64] | None:
    size = CATEGORIES[column].cardinality
    if size > _SMALL_TABLE:
        return None
    return text.hex8(scatter32(np.arange(size), key_of("criteo id", column)))


class Criteo(NoSideFile):
    name = "criteo"
    click_rate = 0.256
    bytes_per_row = 245
    header = b""

    def __init__(self) -> None:
        columns = {column for spec in PLANTED for column in spec.columns}
        self._laws = {c: CATEGORIES[c].probabilities(TABLE_LIMIT) for c in sorted(columns)}
        self._logged = sorted({spec.count for spec in PLANTED if spec.count})

    def laws(self) -> Mapping[str, F64]:
        return self._laws

    def planted(self) -> Sequence[Planted]:
        return PLANTED

    def draw(self, rng: np.random.Generator, when: F64) -> Drawn:
        rows = len(when)
        missing: dict[str, npt.NDArray[np.bool_]] = {}
        for group, rate in MISSING_TOGETHER.items():
            missing.update(dict.fromkeys(group, rng.random(rows, dtype=np.float32) < rate))
        counts = {column: law.draw(rng, rows) for column, law in COUNTS.items()}
        # The real I2 counts down to -2: some of its zeros become -1, very few -2.
        below = rng.random(rows, dtype=np.float32)
        zero = counts["I2"] == 0
        counts["I2"] -= zero & (below < 0.25)
        counts["I2"] -= zero & (below < 0.001)
        ranks = {column: law.draw(rng, rows) for column, law in CATEGORIES.items()}
        logs = {}
        for column in self._logged:
            logs[column] = np.log1p(np.maximum(counts[column], 0).astype(np.float32))
            if column in missing:
                logs[column][missing[column]] = np.nan
        codes = {c: code_ranks(ranks[c], law, missing.get(c)) for c, law in self._laws.items()}
        return Drawn(Inputs(codes, logs), {"counts": counts, "ranks": ranks, "missing": missing})

    def render(self, drawn: Drawn, clicked: Labels, rng: np.random.Generator) -> bytes:
        missing = drawn.cells["missing"]
        columns: list[text.Cells | list[text.Cells]] = [clicked.astype(np.uint8) + np.uint8(ord("0"))]
        for column, values in drawn.cells["counts"].items():
            digits = len(str(COUNTS[column].cap))
            cells: list[text.Cells]
            if column == "I2":
                cells = text.signed_decimal(values, digits)
            else:
                cells = [text.decimal(values, digits)]
            if column in missing:
                cells = [text.blank(cell, missing[column]) for cell in cells]
            columns.append(cells)
        for column, ranks in drawn.cells["ranks"].items():
            ready = _ready_texts(column)
            if ready is not None:
                words = ready.take(ranks)
            else:
                words = text.hex8(scatter32(ranks, key_of("criteo id", column)))
            columns.append(text.blank(words, missing[column]) if column in missing else words)
        return text.join_rows(columns, "\t")
