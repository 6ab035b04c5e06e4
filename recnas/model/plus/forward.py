"""The forward pass of a `nasrec-plus` network: NASRec's blocks, a head that reads any streams, first-order weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from recnas.model import kernels, observe
from recnas.model.nasrec import operators as ops
from recnas.model.nasrec.operators import FORWARDS
from recnas.model.plus import operators as further  # noqa: F401, it makes its operators known
from recnas.model.plus.inputs import PlusInputs, Streams
from recnas.model.plus.norms import Statistics
from recnas.model.plus.tables import narrowed
from recnas.space.nasrec.arch import FM, MERGE
from recnas.space.nasrec.plan import BlockPlan, Plan
from recnas.space.plus.arch import SPARE_BIAS, PlusArch, PlusBlock, split_logits
from recnas.space.plus.field_operators import DROP_INSIDE

Drop = Callable[[Tensor, float | None], Tensor]


def run(
    plan: Plan,
    params: Mapping[str, Tensor],
    dense: Tensor,
    embedded: Tensor,
    drop: Drop | None = None,
    statistics: Statistics | None = None,
) -> Tensor:
    """Logits `[B]` of `dense [B, I]` and table rows `embedded [B, F, W]`.

    Args:
        drop: applied to the outputs of every block with the block's own share.
        statistics: of batch normalisation; without them every batch is normalised by its own.
    """
    arch = plan.arch
    assert isinstance(arch, PlusArch)
    width = plan.shape.width
    if arch.narrow:
        embedded = narrowed(arch, embedded, plan.shape)
    labels = plan.shape.labels
    # Columns of a table row: the vector, unless no vectors are kept at all, then the id's own weights, one per label.
    at = 0 if embedded.shape[-1] < width + arch.first_order * labels else width
    vectors = embedded if embedded.shape[-1] == width else embedded[..., : min(width, at)]
    streams = Streams(dense, vectors)
    for number, block in enumerate(plan.blocks, start=1):
        _run_block(number, block, plan, params, streams, drop, statistics)
    out = _head(plan, arch, params, streams)
    if not arch.first_order:
        return out
    return out + (embedded[..., at] if labels == 1 else embedded[..., at : at + labels]).sum(1)


def _run_block(
    number: int,
    plan: BlockPlan,
    network: Plan,
    params: Mapping[str, Tensor],
    streams: Streams,
    drop: Drop | None,
    statistics: Statistics | None,
) -> None:
    block = plan.block
    assert isinstance(block, PlusBlock)
    given = PlusInputs(number, block, network.shape, params, streams, statistics, drop)
    outputs: dict[bool, Tensor | None] = {}
    for is_dense, names in ((True, block.dense_ops), (False, block.sparse_ops)):
        total: Tensor | None = None
        for name in names:
            if name in plan.parts:
                y = FORWARDS[name](plan.parts[name], given)
                total = y if total is None else total + y
        outputs[is_dense] = total
    dense, sparse = outputs[True], outputs[False]
    rows: tuple[Tensor, ...] = () if sparse is None else (sparse,)
    if MERGE in plan.parts and dense is not None:
        rows = (*rows, ops.merge_rows(dense, given.weights(plan.parts[MERGE]), network.shape.width))
    if FM in plan.parts and sparse is not None:
        machine = ops.dense_layer((ops.factorization_machine(sparse),), given.weights(plan.parts[FM]))
        dense = machine if dense is None else dense + machine
    if drop is not None:
        dense = None if dense is None else drop(dense, block.dropout)
        if not any(op in DROP_INSIDE for op in block.sparse_ops):
            rows = tuple(drop(part, block.dropout) for part in rows)
    streams.add(dense, rows)


def _head(plan: Plan, arch: PlusArch, params: Mapping[str, Tensor], streams: Streams) -> Tensor:
    weighted, logits = split_logits(arch, arch.head.dense, plan.shape.labels)
    out = params[plan.head.bias or ""]
    parts = streams.wide(weighted, arch.head.rows)
    if parts:
        weights = [params[name] for name in plan.head.weight]
        if observe.listening():
            observe.features(ops.join(parts))
        if len(weights) != len(parts):
            parts = [ops.join(parts)]
        if arch.head.mean and arch.head.streams > 1:
            out = ops.as_logits(kernels.linear(parts, weights, None)) / arch.head.streams + out
        else:
            out = ops.as_logits(kernels.linear(parts, weights, out))
    for j in logits:
        out = out + streams.dense(j).squeeze(1)
    if arch.head.spare_bias:
        out = out + params[SPARE_BIAS]
    if parts or logits:
        return out
    return out.expand(streams.batch) if len(out) == 1 else out.expand(streams.batch, -1)
