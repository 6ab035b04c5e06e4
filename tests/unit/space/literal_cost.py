"""The cost of a NASRec network written out operator by operator: what the fold over layers is checked against.

Two readings of "the network". The default counts what recnas builds: live parts only. `live_only=False`
counts what NASRec instantiates: dead parts too, and for fm with d == w a LayerNorm(d) it never applies.

Multiply-adds are per row of data: one per weight use in every matrix product, the full (p+1)^2 w of dot's
Gram matrix, and both products of attention (half of what torch's flop counter says). Elementwise work,
LayerNorm and fm's squares are not counted.
The supernet is `count(space.full_path(), ...)`: there every input has its full width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from recnas.data.schema import Schema
from recnas.space.nasrec.arch import (
    DOT,
    EFC,
    FC,
    GATE,
    MERGE_ROWS,
    SUM,
    TRANSFORMER,
    Block,
    LiveBlock,
    NasrecArch,
    dot_rows,
)
from recnas.space.nasrec.cost import DEFAULT_WIDTH, BlockCost, Cost, PartCost
from recnas.space.nasrec.liveness import live_parts


class _Linear(NamedTuple):
    """A linear layer applied `uses` times per row of data."""

    fan_in: int
    fan_out: int
    bias: bool
    uses: int = 1

    @property
    def params(self) -> int:
        return self.fan_in * self.fan_out + (self.fan_out if self.bias else 0)

    @property
    def macs(self) -> int:
        return self.fan_in * self.fan_out * self.uses


class _Widths(NamedTuple):
    """What the operators of one block are given."""

    dense_in: int
    rows_in: int
    sides: int  # the wider of left and right


def count(
    arch: NasrecArch,
    schema: Schema,
    width: int = DEFAULT_WIDTH,
    layernorm: bool = True,
    live_only: bool = True,
) -> Cost:
    """Count one architecture on one data set.

    Args:
        arch: a valid architecture or path.
        schema: fixes the raw input: its dense columns (none: one constant zero column), fields and tables.
        width: embedding width D.
        layernorm: whether operators normalise; changes biases too (see the table above).
        live_only: count what recnas builds; False counts what NASRec instantiates.
    """
    live = live_parts(arch)
    dense_widths = [max(1, schema.n_dense)]
    rows = [schema.n_sparse]
    costs = []
    for block, parts in zip(arch.blocks, live):
        given = _Widths(
            dense_in=sum(dense_widths[j] for j in block.dense_in),
            rows_in=sum(rows[j] for j in block.sparse_in),
            sides=max(sum(dense_widths[j] for j in block.left), sum(dense_widths[j] for j in block.right)),
        )
        counted = parts if live_only else LiveBlock(True, True, block.fm, block.merge)
        costs.append(BlockCost(tuple(_parts(block, counted, given, width, layernorm, not live_only))))
        dense_widths.append(block.dense_dim)
        rows.append(block.sparse_rows)
    last = _Linear(dense_widths[-1] + rows[-1] * width, 1, bias=True)
    head = PartCost("head", last.params, last.macs)
    return Cost(
        params=sum(block.params for block in costs) + head.params,
        macs=sum(block.macs for block in costs) + head.macs,
        embedding_params=sum(schema.table_rows) * width,
        embedding_bytes=schema.embedding_bytes(width),
        live_blocks=sum(parts.dense or parts.sparse for parts in live),
        blocks=tuple(costs),
        head=head,
    )


def _parts(
    block: Block, live: LiveBlock, given: _Widths, width: int, layernorm: bool, unused_norms: bool
) -> Iterator[PartCost]:
    if live.dense:
        for op in block.dense_ops:
            yield _dense_op(op, block.dense_dim, given, width, layernorm)
    if live.sparse:
        for op in block.sparse_ops:
            yield _sparse_op(op, block.sparse_dim, given.rows_in, width, layernorm)
    if live.merge:
        flat = MERGE_ROWS * width
        yield _projection("merge", block.dense_dim, flat, layernorm)
    if live.fm:
        fm = _projection("fm", width, block.dense_dim, layernorm)
        if unused_norms and layernorm and width == block.dense_dim:
            fm = fm._replace(params=_norm(block.dense_dim))
        yield fm


def _dense_op(op: str, d: int, given: _Widths, width: int, layernorm: bool) -> PartCost:
    bias = not layernorm
    norms = [d] if layernorm else []  # every dense operator normalises its output
    if op == FC:
        return _total(op, [_Linear(given.dense_in, d, bias)], norms)
    if op == SUM:
        return _total(op, _unless_equal(given.sides, d, bias), norms)
    if op == GATE:
        square = _Linear(given.sides, given.sides, bias=True)
        return _total(op, [square, *_unless_equal(given.sides, d, bias=True)], norms)
    assert op == DOT, op
    p = dot_rows(d)
    dense_side = _projection(op, given.dense_in, width, layernorm)
    sparse_side = _projection(op, given.rows_in, p, layernorm, uses=width)
    output = _total(op, _unless_equal(p * (p + 1) // 2, d, bias), norms)
    gram_macs = (p + 1) ** 2 * width
    return PartCost(
        op,
        dense_side.params + sparse_side.params + output.params,
        dense_side.macs + sparse_side.macs + gram_macs + output.macs,
    )


def _sparse_op(op: str, s: int, rows_in: int, width: int, layernorm: bool) -> PartCost:
    over_rows = _Linear(rows_in, s, bias=not layernorm, uses=width)
    norms = [s] if layernorm else []
    if op == EFC:
        return _total(op, [over_rows], norms)
    assert op == TRANSFORMER, op
    per_token = [(width, 3 * width), (width, width), (width, width), (width, width)]
    linears = [_Linear(fan_in, fan_out, bias=True, uses=s) for fan_in, fan_out in per_token]
    cost = _total(op, [over_rows, *linears], [*norms, width, width])
    attention_macs = 2 * s * s * width  # queries with keys, weights with values
    return cost._replace(macs=cost.macs + attention_macs)


def _projection(name: str, fan_in: int, fan_out: int, layernorm: bool, uses: int = 1) -> PartCost:
    """A linear layer and its LayerNorm, both left out when the size is right already."""
    if fan_in == fan_out:
        return PartCost(name, 0, 0)
    return _total(name, [_Linear(fan_in, fan_out, not layernorm, uses)], [fan_out] if layernorm else [])


def _unless_equal(fan_in: int, fan_out: int, bias: bool) -> list[_Linear]:
    return [] if fan_in == fan_out else [_Linear(fan_in, fan_out, bias)]


def _total(name: str, linears: list[_Linear], norms: list[int]) -> PartCost:
    params = sum(linear.params for linear in linears) + sum(_norm(size) for size in norms)
    return PartCost(name, params, sum(linear.macs for linear in linears))


def _norm(size: int) -> int:
    return 2 * size  # gain and offset
