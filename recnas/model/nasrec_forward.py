"""Run a plan: the one forward pass of supernet candidates and standalone subnets.

Functional on purpose: parameters are a mapping from name to tensor, so a trainer passes leaf views of the
supernet, a proxy passes its own leaves, and a subnet passes its own parameters. Embedding tables are not
part of it: `embedded [B, F, D]` is what an embedding layer has already looked up.

Departure from the reference: the merge rows always come from the dense stream before FM is added. There,
a block of width 8 * D adds FM in place to a tensor the merge rows are a view of, so at that one width they
contain FM as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from recnas.model import operators as ops
from recnas.model import taps
from recnas.model.heap import LARGE, trim_when_differentiated
from recnas.model.nasrec_plan import HEADS, BlockPlan, Layer, Plan
from recnas.model.operators import Weights

Params = Mapping[str, Tensor]


def run(plan: Plan, params: Params, dense: Tensor, embedded: Tensor) -> Tensor:
    """Logits `[B]` from `dense [B, I]` and `embedded [B, F, D]`."""
    if dense.shape[1] == 0:
        dense = dense.new_zeros(dense.shape[0], 1)
    dense_out: list[Tensor | None] = [dense]
    # The rows of a block and its merge rows stay apart: their weight columns are apart as well.
    sparse_out: list[tuple[Tensor, ...]] = [(embedded.permute(2, 0, 1).contiguous(),)]
    training = torch.is_grad_enabled()
    # Joining the rows once per block is faster, but backward then keeps a second copy of every stream.
    frugal = training and plan.elements >= LARGE // 4 and not taps.listening()
    for block in plan.blocks:
        y_dense, y_sparse = _run_block(block, plan, params, dense_out, sparse_out, frugal)
        if training and plan.elements >= LARGE and y_dense is not None:
            trim_when_differentiated(y_dense)
        dense_out.append(y_dense)
        sparse_out.append(y_sparse)
    parts = (*_pick(dense_out, (-1,)), *sparse_out[-1])
    weights = [params[name] for name in plan.head.weight]
    return ops.logit(parts, weights, params[plan.head.bias or ""], plan.head_widths)


def _run_block(
    plan: BlockPlan,
    network: Plan,
    params: Params,
    dense_out: list[Tensor | None],
    sparse_out: list[tuple[Tensor, ...]],
    frugal: bool,
) -> tuple[Tensor | None, tuple[Tensor, ...]]:
    block = plan.block
    activation = ops.ACTIVATIONS[network.shape.activation]

    def tensors(layer: Layer) -> Weights:
        return Weights(
            tuple(params[name] for name in layer.weight),
            params[layer.bias] if layer.bias else None,
            (params[layer.norm[0]], params[layer.norm[1]]) if layer.norm else None,
        )

    dense: Tensor | None = None
    sparse: Tensor | None = None
    if plan.dot or plan.transformer or plan.efc:
        rows: Sequence[Tensor] = [part for j in block.sparse_in for part in sparse_out[j]]
        if not frugal:
            rows = (ops.join(rows),)

    if plan.fc:
        y = activation(ops.dense_layer(_pick(dense_out, block.dense_in), tensors(plan.fc)), 0)
        dense = _plus(dense, y)
    if plan.dot:
        y = ops.dot(_pick(dense_out, block.dense_in), rows, *map(tensors, plan.dot))
        dense = _plus(dense, y)
    if plan.gate or plan.sum:
        left, right = _pick(dense_out, block.left), _pick(dense_out, block.right)
    if plan.gate:
        square = [[params[name] for name in names] for names in plan.gate.square]
        bias = [params[name] for name in plan.gate.square_bias]
        y = ops.gate(left, right, square, bias, plan.gate.padded, block.dense_dim, tensors(plan.gate.out))
        dense = _plus(dense, y)
    if plan.sum:
        dense = _plus(dense, ops.add(left, right, plan.sum.widths, tensors(plan.sum.out)))

    if plan.transformer:
        sparse = ops.transformer(rows, *map(tensors, plan.transformer), heads=HEADS)
    if plan.efc:
        sparse = _plus(sparse, activation(ops.row_layer(rows, tensors(plan.efc)), 1))

    streams = () if sparse is None else (sparse,)
    if plan.merge is not None and dense is not None:
        streams = (*streams, ops.merge_rows(dense, tensors(plan.merge), network.shape.width))
    if plan.fm is not None and sparse is not None:
        dense = _plus(dense, ops.dense_layer((ops.factorization_machine(sparse),), tensors(plan.fm)))
    return dense, streams


def _plus(total: Tensor | None, y: Tensor) -> Tensor:
    return y if total is None else total + y


def _pick(streams: list[Tensor | None], inputs: tuple[int, ...]) -> list[Tensor]:
    picked = [streams[j] for j in inputs]
    assert all(x is not None for x in picked), "a dead stream is read: live_parts and the plan disagree"
    return picked  # type: ignore[return-value]
