"""The arrays that a model is given, from typed columns: for `prepare` and for `predict`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from recnas.data.raw.dense import model_values
from recnas.data.raw.id_table import Ids
from recnas.data.schema import MISSING_ID, DenseField


def dense_inputs(rows: int, fields: Sequence[DenseField], values: Callable[[str], np.ndarray]) -> np.ndarray:
    """float32 [rows, I] of transformed columns, given by name."""
    dense = np.empty((rows, len(fields)), dtype=np.float32)
    for i, field in enumerate(fields):
        dense[:, i] = model_values(values(field.name), field)
    return dense


def id_inputs(
    rows: int,
    tables: Mapping[str, Ids],
    keys: Callable[[str], np.ndarray],
    missing: Callable[[str], np.ndarray | None],
) -> np.ndarray:
    """int32 [rows, F] of columns of keys, given by name, with masks of missing cells."""
    ids = np.empty((rows, len(tables)), dtype=np.int32)
    for j, (name, table) in enumerate(tables.items()):
        ids[:, j] = table.look_up(keys(name))
        mask = missing(name)
        if mask is not None:
            ids[mask, j] = MISSING_ID
    return ids
