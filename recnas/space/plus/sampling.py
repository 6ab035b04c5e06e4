"""Drawing architectures of `nasrec-plus`, so that a typical one costs about as much as hand-crafted models do.

Operators are drawn by weight: a perceptron layer or a cross is likelier than a gate, and an operator whose cost
grows with the square of its inputs is rare. Early blocks read the raw vectors, later ones mostly their
predecessors; the head reads the last block and what nobody else reads. Everything a mutation can reach is valid; this
law only says where a search begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from numpy import arange
from numpy.random import Generator

from recnas.space.nasrec.arch import DOT, EFC, FC, GATE, SUM, TRANSFORMER
from recnas.space.nasrec.liveness import live_parts
from recnas.space.nasrec.operators import OPERATORS
from recnas.space.nasrec.sampling import ANY_PATH, pick
from recnas.space.plus import field_operators as field
from recnas.space.plus import operators as ops
from recnas.space.plus import tables
from recnas.space.plus.arch import AS_DATA, Head, PlusArch, PlusBlock
from recnas.space.plus.rules import ACTIVATIONS, CHOICES, INNER, LOGITS, PlusRules, settled

WEIGHTS: dict[str, float] = {
    ops.DEEP: 6,
    ops.CROSS: 2,
    ops.CROSS_VECTOR: 0.5,
    ops.CROSS_GATED: 0.7,
    ops.CROSS_MASKED: 0.5,
    ops.MASK: 1,
    ops.PAIRS: 0.5,
    ops.GRAM: 1,
    ops.DOTS: 0.5,
    ops.FLAT: 0.3,
    FC: 0.5,
    DOT: 0.7,
    GATE: 0.2,
    SUM: 0.2,
    EFC: 2,
    TRANSFORMER: 1,
    ops.CIN: 1,
    ops.FIELDS: 1,
    ops.NORMAL: 1,
    field.FACTORISED: 0.7,
    field.GATED: 0.3,
    field.FUSION: 0.3,
    field.WEIGHTED: 0.3,
    field.ATTEND: 1,
    field.FIELD_GATE: 0.5,
    field.WUKONG: 1,
}
_WIDE_LAYERS = {16: 0.3, 32: 0.5, 64: 1, 128: 2, 256: 3, 400: 3, 512: 2}  # chances of a width; others count as 1
T = TypeVar("T")


def draw_arch(rules: PlusRules, most: int, rng: Generator, strategy: str) -> PlusArch:
    """An architecture of half of `most` to `most` blocks."""
    n = int(rng.integers((most + 1) // 2, most + 1))
    blocks: tuple[PlusBlock, ...] = ()
    for _ in range(n):
        blocks = (*blocks, draw_block(rules, blocks, rng, several=strategy == ANY_PATH))
    arch = PlusArch(rules.name, blocks, draw_head(rules, blocks, rng), first_order=bool(rng.random() < 0.3))
    return replace(arch, narrow=tables.draw(rules.fields, rng)) if rules.fields else arch


def draw_head(rules: PlusRules, blocks: tuple[PlusBlock, ...], rng: Generator) -> Head:
    """The last dense stream, its rows now and then, and half of the dense streams that nobody else reads."""
    n = len(blocks)
    rows = (n,) if rng.random() < 0.2 else ()
    live = live_parts(PlusArch(rules.name, blocks, Head((n,), rows)))
    left = [b for b in range(1, n) if not live[b - 1].dense and rng.random() < 0.5]
    numbers = [0] if rng.random() < 0.3 else []
    return Head((*numbers, *left, n), rows)


def draw_block(rules: PlusRules, before: Sequence[PlusBlock], rng: Generator, several: bool = False) -> PlusBlock:
    """The block after `before`; `several` operators per stream for the paths of weight-sharing training.

    These are normalised, and products are taken of raw rows only: many products of products overflow.
    """
    b = len(before) + 1
    dense_ops, sparse_ops = (
        _some(offered, rng) if several else (_weighted(offered, WEIGHTS, rng),)
        for offered in map(rules.searched, (rules.dense_ops, rules.sparse_ops))
    )
    if b == 1 and not several and ops.FLAT in rules.dense_ops and rng.random() < 0.5:
        dense_ops = (ops.FLAT,)  # what crosses start from
    op = dense_ops[0]
    # Operators of both streams may read a gene; the dense one's law decides.
    genes = {name: _gene(name, s, rng) for s in sparse_ops for name in OPERATORS[s].genes}
    genes |= {name: _gene(name, op, rng) for name in OPERATORS[op].genes}
    if several:
        genes |= {"norm": "layer", "residual": False}
    left, right = _sides(before, op, rng)
    raw = several or (op in LOGITS and rng.random() < 0.8)
    block = PlusBlock(
        dense_ops=dense_ops,
        sparse_ops=sparse_ops,
        dense_dim=_width(rules, op, several, rng),
        sparse_dim=pick(rules.sparse_dims, rng),
        merge=bool(rng.random() < 0.15),
        fm=bool(rng.random() < 0.15),
        dense_in=_recent(b, rules.max_inputs, rng),
        sparse_in=_recent(b, rules.max_inputs, rng),
        left=left,
        right=right,
        flat_in=(0,) if b == 1 or rng.random() < 0.4 else (),
        row_left=(0,) if raw else _recent(b, 1, rng),
        row_right=(0,) if several or rng.random() < 0.7 else _recent(b, 1, rng),
        **genes,
    )
    return settled(block)


def _sides(before: Sequence[PlusBlock], op: str, rng: Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What an operator with a left and a right input reads: a cross mostly goes on from the last, times the raw input."""
    b = len(before) + 1
    starts = [j for j, block in enumerate(before, start=1) if block.dense_ops == (ops.FLAT,)]
    chain = [j for j, block in enumerate(before, start=1) if block.dense_ops[0] in (*ops.CROSSES, ops.FLAT)]
    left, right = _recent(b, 1, rng), _recent(b, 1, rng)
    if op in ops.CROSSES and starts:
        left = (chain[-1],) if rng.random() < 0.7 else left
        right = (starts[0],) if rng.random() < 0.8 else right
    return left, right


def _width(rules: PlusRules, op: str, several: bool, rng: Generator) -> int:
    if several:
        return pick(tuple(d for d in rules.dense_dims if d) or rules.dense_dims, rng)
    if op in LOGITS:
        return 1
    if op in ops.AS_WIDE_AS_DATA and AS_DATA in rules.dense_dims:
        return AS_DATA
    offered = tuple(d for d in rules.dense_dims if d) or rules.dense_dims
    return _weighted(offered, _WIDE_LAYERS, rng)


def _gene(name: str, op: str, rng: Generator) -> Any:
    linear = op in ops.AS_WIDE_AS_DATA or op in LOGITS
    if name == "norm" and op in (ops.GRAM, ops.DOTS, *ops.CROSSES):
        return pick(("none", "layer"), rng)  # products grow
    if name == "norm":
        return "none" if linear else pick(("none", "none", "batch", "layer"), rng)
    if name == "activation":
        return "none" if linear else pick((*ACTIVATIONS, "relu", "relu", "relu"), rng)
    if name == "residual":
        return op in ops.CROSSES or bool(not linear and rng.random() < 0.2)
    if name == "inner":
        return pick(INNER[op], rng)
    if name in ("shortcut", "scaled", "row_norm", "heads", "rank"):
        return pick(CHOICES[name], rng)
    return PlusBlock.__dataclass_fields__[name].default


def _recent(b: int, most: int, rng: Generator) -> tuple[int, ...]:
    """One or more inputs of block `b`, a later one twice as likely as the one before it."""
    chances = 2.0 ** arange(b)
    count = min(b, 1 + int(rng.binomial(most - 1, 0.3)))
    drawn = rng.choice(b, size=count, replace=False, p=chances / chances.sum())
    return tuple(sorted(drawn.tolist()))


def _weighted(options: tuple[T, ...], weights: dict[Any, float], rng: Generator) -> T:
    total = [weights.get(option, 1.0) for option in options]
    at = float(rng.random()) * sum(total)
    for option, weight in zip(options, total):
        at -= weight
        if at < 0:
            return option
    return options[-1]


def _some(options: tuple[T, ...], rng: Generator) -> tuple[T, ...]:
    """A non-empty subset in the given order, each with a small chance: large ones cost too much."""
    coins = rng.random(len(options)) < 0.15
    coins[int(rng.integers(len(options)))] = True
    return tuple(option for option, heads in zip(options, coins) if heads)


def full_block(rules: PlusRules, b: int, width: int) -> PlusBlock:
    """Every operator of block `b` at full width; what reads one set of rows reads the last."""
    everything = tuple(range(b))
    return PlusBlock(
        dense_ops=rules.searched(rules.dense_ops),
        sparse_ops=rules.searched(rules.sparse_ops),
        dense_dim=width,
        sparse_dim=max(rules.sparse_dims),
        merge=True,
        fm=True,
        dense_in=everything,
        sparse_in=everything,
        left=everything,
        right=everything,
        flat_in=everything,
        row_left=(b - 1,),
        row_right=(0,),
        norm="layer",
        activation="relu",
        inner=0,
    )
