"""Counter-based numbers: a value's effect is a pure function of (seed, column, value).

Drawing effects from a random stream would make them depend on how many values were met before, so
a file of 10,000 rows and one of 10,000,000 would have different truths. A hash has no such memory.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
F64 = npt.NDArray[np.float64]

_GOLDEN = 0x9E3779B97F4A7C15


def key_of(*parts: str | int) -> int:
    """64-bit key of a tuple of names and numbers, the same in every process."""
    text = "\x1f".join(str(part) for part in parts).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def scatter64(values: npt.NDArray[np.integer], key: int) -> U64:
    """Well-mixed 64-bit hash of each value under `key` (the finaliser of splitmix64)."""
    mixed = values.astype(np.uint64)
    mixed *= np.uint64(_GOLDEN)  # unsigned arithmetic wraps, which is what is wanted here
    mixed += np.uint64(key)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def scatter32(values: npt.NDArray[np.integer], key: int) -> U32:
    """A one-to-one map of 32-bit numbers: distinct values of a column never share an id."""
    mixed = values.astype(np.uint32)
    mixed += np.uint32(key & 0xFFFFFFFF)
    mixed ^= mixed >> np.uint32(16)
    mixed *= np.uint32(0x7FEB352D)
    mixed ^= mixed >> np.uint32(15)
    mixed *= np.uint32(0x846CA68B)
    mixed ^= mixed >> np.uint32(16)
    return mixed


def uniform(values: npt.NDArray[np.integer], key: int) -> F64:
    """One number in [0, 1) per value."""
    return (scatter64(values, key) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def signed_effect(values: npt.NDArray[np.integer], key: int) -> F64:
    """A random sign times a magnitude in [0.6, 1.4): no value is left without an effect.

    Normal effects would leave some frequent values near zero and make the strength of a term a
    matter of luck of the seed.
    """
    bits = scatter64(values, key)
    sign = np.where((bits & np.uint64(1)).astype(bool), 1.0, -1.0)
    return sign * (0.6 + 0.8 * (bits >> np.uint64(11)) * 2.0**-53)
