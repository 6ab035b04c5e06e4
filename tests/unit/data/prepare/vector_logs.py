"""A small log, and vectors of some of its items."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

RECIPE = """
name: vectors
separator: ","
header: true
label: {column: click}
dense: [{columns: [price], transform: none}]
sparse: [{columns: [user, item]}]
vectors: [{column: item, file: items.parquet}]
"""


def vectors_of(width: int = 6) -> dict[str, list[float]]:
    """Of the items i0 to i7 and of some that no log has."""
    rng = np.random.default_rng(1)
    return {f"i{n}": rng.normal(size=width).astype(np.float32).tolist() for n in (*range(8), *range(100, 120))}


def log_of(
    folder: Path, rows: int, vectors: dict[str, list[float]] | None = None, seed: int = 0, items: int = 11
) -> Path:
    """`log.csv` of items i0, i1 ..., and `items.parquet`."""
    rng = np.random.default_rng(seed)
    user, item, price = rng.integers(0, 9, rows), rng.integers(0, items, rows), rng.normal(size=rows).round(4)
    click = rng.random(rows) < 1 / (1 + np.exp(-(price + user / 4 - item / 5)))
    table = {
        "click": click.astype(int),
        "price": price,
        "user": [f"u{n}" for n in user],
        "item": [f"i{n}" for n in item],
    }
    pd.DataFrame(table).to_csv(folder / "log.csv", index=False)
    known = vectors or vectors_of()
    pq.write_table(
        pa.table({"id": list(known), "vector": pa.array(list(known.values()), pa.list_(pa.float32()))}),
        folder / "items.parquet",
    )
    return folder / "log.csv"
