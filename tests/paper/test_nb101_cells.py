"""NAS-Bench-101's own names and parameter counts for 20,001 published cells.

    RECNAS_SHARED=../shared scripts/test -m paper tests/paper/test_nb101_cells.py

The table names every cell by its hash but its graphs are re-derived, so some are another writing of the cell
that was trained; a writing decides which vertex gets a left-over channel. Takes about a minute.
"""

from __future__ import annotations

import os
from itertools import permutations
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from recnas.space.blueprint import count
from recnas.space.nasbench101.arch import Nb101Arch, key, official_hash
from recnas.space.nasbench101.skeleton import Nb101Blueprint, Nb101Skeleton

ROOT = Path(__file__).parents[2]
TABLE = Path(os.environ.get("RECNAS_SHARED", ROOT.parent / "shared")) / "data/nb101_sample.parquet"


def writings(cell: Nb101Arch):
    """Every order of the inner vertices in which edges lead onwards."""
    n = cell.vertices
    for order in permutations(range(1, n - 1)):
        whole = (0, *order, n - 1)
        matrix = tuple(tuple(cell.matrix[i][j] for j in whole) for i in whole)
        if not any(matrix[i][j] for i in range(n) for j in range(i + 1)):
            yield Nb101Arch(matrix, tuple(cell.ops[v - 1] for v in order))


@pytest.mark.paper
@pytest.mark.skipif(not TABLE.exists(), reason=f"needs {TABLE}")
def test_published_names_and_parameter_counts():
    rows = pq.read_table(TABLE, columns=["hash", "adjacency", "ops", "params"]).to_pylist()
    body, keys, as_written = Nb101Skeleton(), set(), 0
    for row in rows:
        cell = Nb101Arch.from_text(f"{row['adjacency']}/{row['ops']}")
        assert official_hash(cell) == row["hash"]
        keys.add(key(cell))
        if count(Nb101Blueprint(cell, body)).params == row["params"]:
            as_written += 1
        else:
            assert row["params"] in {count(Nb101Blueprint(other, body)).params for other in writings(cell)}, row
    assert len(keys) == len(rows)
    print(f"{as_written:,} of {len(rows):,} counts as written, the others under another writing of the cell")
    assert as_written > 0.95 * len(rows)
