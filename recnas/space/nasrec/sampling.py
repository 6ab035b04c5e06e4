"""Drawing NASRec architectures: search candidates, and the paths that weight-sharing training walks.

| strategy | operators per stream | dense_in, sparse_in | left, right |
|---|---|---|---|
| `any-connection` | one | 1..max_inputs, see `draw_connections` | one each |
| `single-path` | one | one | one each |
| `any-path` | any non-empty set | any non-empty set, no cap | any non-empty set |
| `full_path` (no draw) | all | all | all |

Widths and the two bits are uniform in the three drawn strategies and at their maximum in the full path.
Only the first two give search candidates.
"""

from __future__ import annotations

from typing import Any, TypeVar

from numpy.random import Generator

from recnas.errors import SpaceError
from recnas.space.base import nearest_name
from recnas.space.nasrec.arch import Block
from recnas.space.nasrec.rules import NasrecRules

ANY_CONNECTION = "any-connection"
SINGLE_PATH = "single-path"
ANY_PATH = "any-path"
STRATEGIES = (ANY_CONNECTION, SINGLE_PATH, ANY_PATH)

BINOMIAL = "binomial"
UNIFORM = "uniform"
CONNECTION_LAWS = (BINOMIAL, UNIFORM)

T = TypeVar("T")


def draw_block(rules: NasrecRules, b: int, law: str, strategy: str, rng: Generator) -> Block:
    """Block number `b` (1-based, so it may read inputs 0..b-1) under one of the strategies above."""
    if strategy not in STRATEGIES:
        raise SpaceError(f"unknown path strategy {strategy!r}", nearest_name(strategy, STRATEGIES))

    def operators(offered: tuple[str, ...]) -> tuple[str, ...]:
        return _some(offered, rng) if strategy == ANY_PATH else (pick(offered, rng),)

    def side() -> tuple[int, ...]:
        return _some(tuple(range(b)), rng) if strategy == ANY_PATH else (int(rng.integers(b)),)

    def inputs() -> tuple[int, ...]:
        return draw_connections(b, rules.max_inputs, law, rng) if strategy == ANY_CONNECTION else side()

    return Block(
        dense_ops=operators(rules.dense_ops),
        sparse_ops=operators(rules.sparse_ops),
        dense_dim=pick(rules.dense_dims, rng),
        sparse_dim=pick(rules.sparse_dims, rng),
        merge=bool(rng.integers(2)),
        fm=bool(rng.integers(2)),
        dense_in=inputs(),
        sparse_in=inputs(),
        left=side(),
        right=side(),
    )


def full_block(rules: NasrecRules, b: int) -> Block:
    """Everything block `b` can use at once, at full width."""
    everything = tuple(range(b))
    return Block(
        dense_ops=rules.dense_ops,
        sparse_ops=rules.sparse_ops,
        dense_dim=max(rules.dense_dims),
        sparse_dim=max(rules.sparse_dims),
        merge=True,
        fm=True,
        dense_in=everything,
        sparse_in=everything,
        left=everything,
        right=everything,
    )


def draw_connections(b: int, max_inputs: int, law: str, rng: Generator) -> tuple[int, ...]:
    """Distinct inputs of block `b`: first how many, then which (uniformly).

    `uniform` takes each count 1..min(max_inputs, b) equally often; `binomial` takes 1 + Binomial(n - 1, 1/2)
    of at most n, which is what NASRec trains its supernets with.
    """
    most = min(max_inputs, b)
    count = 1 + int(rng.binomial(most - 1, 0.5)) if law == BINOMIAL else int(rng.integers(1, most + 1))
    return tuple(sorted(rng.permutation(b)[:count].tolist()))


def draw_gene(rules: NasrecRules, gene: str, b: int, law: str, rng: Generator) -> Any:
    """A fresh value for one field of block `b`, by the same rules as an any-connection sample."""
    if gene in ("dense_in", "sparse_in"):
        return draw_connections(b, rules.max_inputs, law, rng)
    if gene in ("left", "right"):
        return (int(rng.integers(b)),)
    if gene in ("merge", "fm"):
        return bool(rng.integers(2))
    if gene in ("dense_ops", "sparse_ops"):
        return (pick(getattr(rules, gene), rng),)
    return pick(rules.dense_dims if gene == "dense_dim" else rules.sparse_dims, rng)


def pick(options: tuple[T, ...], rng: Generator) -> T:
    """One of `options`, uniformly, as the plain Python value (numpy's choice would wrap it)."""
    return options[int(rng.integers(len(options)))]


def _some(options: tuple[T, ...], rng: Generator) -> tuple[T, ...]:
    """A non-empty subset in the given order, every one equally likely (coins until one shows heads)."""
    while True:
        coins = rng.integers(2, size=len(options))
        if coins.any():
            return tuple(option for option, heads in zip(options, coins) if heads)
