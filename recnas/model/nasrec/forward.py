"""Run a plan: the one forward pass of supernet candidates and standalone subnets.

Functional on purpose: parameters are a mapping from name to tensor, so a trainer passes leaf views of the
supernet, a proxy passes its own leaves, and a subnet passes its own parameters. Embedding tables are not
part of it: `embedded [B, F, D]` is what an embedding layer has already looked up.

Departure from the reference: the merge rows always come from the dense stream before FM is added. There,
a block of width 8 * D adds FM in place to a tensor the merge rows are a view of, so at that one width they
contain FM as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from recnas.model import observe
from recnas.model.memory import LARGE, trim_when_differentiated
from recnas.model.nasrec import operators as ops
from recnas.model.nasrec.operators import FORWARDS, BlockInputs
from recnas.model.plus import forward as plus
from recnas.model.plus.norms import Statistics
from recnas.space.nasrec.arch import FM, MERGE
from recnas.space.nasrec.operators import fields_read
from recnas.space.nasrec.plan import BlockPlan, Plan
from recnas.space.plus.arch import PlusArch

Params = Mapping[str, Tensor]
Drop = Callable[[Tensor, float | None], Tensor]  # a block's output, and the share it asks for (None: the usual one)


def run(
    plan: Plan,
    params: Params,
    dense: Tensor,
    embedded: Tensor,
    drop: Drop | None = None,
    statistics: Statistics | None = None,
) -> Tensor:
    """Logits `[B]` from `dense [B, I]` and `embedded [B, F, D]`.

    Args:
        drop: applied to the outputs of every block, with the share that the block asks for itself.
        statistics: of batch normalisation, for networks of `nasrec-plus` that stand alone.
    """
    if isinstance(plan.arch, PlusArch):
        return plus.run(plan, params, dense, embedded, drop, statistics)
    if dense.shape[1] == 0:
        dense = dense.new_zeros(dense.shape[0], 1)
    dense_out: list[Tensor | None] = [dense]
    # The rows of a block and its merge rows stay apart: their weight columns are apart as well.
    sparse_out: list[tuple[Tensor, ...]] = [(embedded.permute(2, 0, 1).contiguous(),)]
    training = torch.is_grad_enabled()
    # Joining the rows once per block is faster, but backward then keeps a second copy of every stream.
    frugal = training and plan.elements >= LARGE // 4 and not observe.listening()
    for block in plan.blocks:
        y_dense, y_sparse = _run_block(block, plan, params, dense_out, sparse_out, frugal)
        if drop is not None:
            y_dense = None if y_dense is None else drop(y_dense, None)
            y_sparse = tuple(drop(rows, None) for rows in y_sparse)
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
    dense_ops = [op for op in block.dense_ops if op in plan.parts]
    sparse_ops = [op for op in block.sparse_ops if op in plan.parts]
    read = fields_read((*dense_ops, *sparse_ops))
    rows: Sequence[Tensor] = ()
    if "sparse_in" in read:
        rows = [part for j in block.sparse_in for part in sparse_out[j]]
        if not frugal:
            rows = (ops.join(rows),)
    dense_read = {
        field: _pick(dense_out, getattr(block, field)) if field in read else []
        for field in ("dense_in", "left", "right")
    }
    given = BlockInputs(block, network.shape, params, rows=rows, **dense_read)

    dense = _summed(dense_ops, plan, given)
    sparse = _summed(sparse_ops, plan, given)
    streams = () if sparse is None else (sparse,)
    if MERGE in plan.parts and dense is not None:
        merged = ops.merge_rows(dense, given.weights(plan.parts[MERGE]), network.shape.width)
        streams = (*streams, merged)
    if FM in plan.parts and sparse is not None:
        machine = ops.dense_layer((ops.factorization_machine(sparse),), given.weights(plan.parts[FM]))
        dense = machine if dense is None else dense + machine
    return dense, streams


def _summed(names: Sequence[str], plan: BlockPlan, given: BlockInputs) -> Tensor | None:
    """The outputs of a stream's operators, added up; None without any."""
    total: Tensor | None = None
    for name in names:
        y = FORWARDS[name](plan.parts[name], given)
        total = y if total is None else total + y
    return total


def _pick(streams: list[Tensor | None], inputs: tuple[int, ...]) -> list[Tensor]:
    picked = [streams[j] for j in inputs]
    assert all(x is not None for x in picked), "a dead stream is read: live_parts and the plan disagree"
    return picked  # type: ignore[return-value]
