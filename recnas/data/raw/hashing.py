"""64-bit hashes of whole columns; `values.row_of_hash` says the same of one cell."""

from __future__ import annotations

import numpy as np

from recnas.data.raw.values import hash_start

_U = np.uint64


def mixed(z: np.ndarray) -> np.ndarray:
    """The SplitMix64 finaliser, in place."""
    z ^= z >> _U(30)
    z *= _U(0xBF58476D1CE4E5B9)
    z ^= z >> _U(27)
    z *= _U(0x94D049BB133111EB)
    z ^= z >> _U(31)
    return z


def rows_of_hashes(keys: np.ndarray, rows: int, seed: int, number: int) -> np.ndarray:
    """Which of `rows` rows the hash `number` of each key falls into."""
    return (mixed(keys.astype(np.uint64) + _U(hash_start(seed, number))) % _U(rows)).astype(np.int64)
