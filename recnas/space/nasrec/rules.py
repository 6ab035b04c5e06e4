"""What a NASRec architecture may contain: the tables of the Small and Full space, and the checks.

Two levels of strictness. A *sampled* architecture is what a search proposes: one operator per stream, at
most `max_inputs` connections, one left and one right input. A *path* is what weight-sharing training may
run besides: any non-empty set of operators and of connections, up to the full path that uses everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from recnas.errors import SpaceError
from recnas.space.nasrec.arch import (
    DENSE_DIMS,
    DOT,
    EFC,
    FC,
    GATE,
    MAX_INPUTS,
    SPARSE_DIMS,
    SUM,
    TRANSFORMER,
    Block,
    NasrecArch,
)
from recnas.space.nasrec.operators import OPERATORS

SMALL = "nasrec-small"
FULL = "nasrec-full"
ALIASES = {"autoctr": SMALL, "xlarge": FULL}  # the names used by NASRec's own files
CONNECTION_FIELDS = ("dense_in", "sparse_in", "left", "right")


@dataclass(frozen=True)
class NasrecRules:
    """The choices one NASRec space offers to every block."""

    name: str
    dense_ops: tuple[str, ...]
    sparse_ops: tuple[str, ...]
    dense_dims: tuple[int, ...] = DENSE_DIMS
    sparse_dims: tuple[int, ...] = SPARSE_DIMS
    max_inputs: int = MAX_INPUTS


RULES = {
    SMALL: NasrecRules(SMALL, dense_ops=(FC, DOT), sparse_ops=(EFC,)),
    FULL: NasrecRules(FULL, dense_ops=(FC, DOT, GATE, SUM), sparse_ops=(TRANSFORMER, EFC)),
}


def register(rules: NasrecRules) -> None:
    """Make another space of the family known to files and to `NasrecSpace`."""
    unknown = [op for op in (*rules.dense_ops, *rules.sparse_ops) if op not in OPERATORS]
    if unknown:
        raise SpaceError(
            f"the space {rules.name!r} offers {_listed(unknown)}, and no such operator is registered",
            "register it first: recnas.space.nasrec.operators.register(Operator(...))",
        )
    if RULES.setdefault(rules.name, rules) != rules:
        raise SpaceError(f"there is a space {rules.name!r} already", "give yours another name")


def check(arch: NasrecArch, rules: NasrecRules, n_blocks: int | None = None, sampled: bool = True) -> None:
    """Raise one `SpaceError` that lists every fault of `arch`.

    Args:
        arch: the architecture to look at.
        rules: the space it must fit.
        n_blocks: how many blocks it must have; None accepts any number from 1 up.
        sampled: hold it to what a search proposes; False also lets weight-sharing paths pass.
    """
    faults = list(_faults(arch, rules, n_blocks, sampled))
    if faults:
        fix = "change the named fields, or draw a valid architecture with space.sample(rng)"
        if sampled and not list(_faults(arch, rules, n_blocks, sampled=False)):
            fix = "this is a weight-sharing path, not a search candidate; check it with sampled=False"
        raise SpaceError(f"not an architecture of {rules.name}: " + "; ".join(faults), fix)


def _faults(arch: NasrecArch, rules: NasrecRules, n_blocks: int | None, sampled: bool) -> Iterator[str]:
    if arch.space != rules.name:
        yield f"it says it was drawn from {arch.space!r}"
    if not arch.blocks:
        yield "it has no blocks, and a network needs at least one"
    if n_blocks is not None and len(arch.blocks) != n_blocks:
        yield f"it has {len(arch.blocks)} blocks where the space has {n_blocks}"
    for b, block in enumerate(arch.blocks, start=1):
        for fault in _block_faults(b, block, rules, sampled):
            yield f"block {b}: {fault}"


def _block_faults(b: int, block: Block, rules: NasrecRules, sampled: bool) -> Iterator[str]:
    yield from _op_faults("dense_ops", block.dense_ops, rules.dense_ops, sampled)
    yield from _op_faults("sparse_ops", block.sparse_ops, rules.sparse_ops, sampled)
    for field, allowed in (("dense_dim", rules.dense_dims), ("sparse_dim", rules.sparse_dims)):
        value = getattr(block, field)
        if not is_int(value) or value not in allowed:
            yield f"{field} is {value!r}, which is not one of {_listed(allowed)}"
    for field in ("merge", "fm"):
        if not isinstance(getattr(block, field), bool):
            yield f"{field} is {getattr(block, field)!r}, which is not true or false"
    for field in CONNECTION_FIELDS:
        limit = rules.max_inputs if field in ("dense_in", "sparse_in") else 1
        yield from _connection_faults(b, field, getattr(block, field), limit if sampled else None)


def _op_faults(field: str, ops: Any, allowed: tuple[str, ...], sampled: bool) -> Iterator[str]:
    if not isinstance(ops, tuple):
        yield f"{field} is {ops!r}, which is not a tuple of operator names"
        return
    unknown = [op for op in ops if op not in allowed]
    if unknown:
        yield f"{field} has {_listed(unknown)}, but this space offers {_listed(allowed)}"
    elif not ops:
        yield f"{field} is empty, and every stream needs an operator"
    elif ops != tuple(op for op in allowed if op in ops):
        yield f"{field} is {_listed(ops)}; write each operator once, in the order {_listed(allowed)}"
    elif sampled and len(ops) > 1:
        yield f"{field} has {len(ops)} operators where a search candidate has one"


def _connection_faults(b: int, field: str, inputs: Any, limit: int | None) -> Iterator[str]:
    if not isinstance(inputs, tuple) or not all(is_int(j) for j in inputs):
        yield f"{field} is {inputs!r}, which is not a tuple of input numbers"
        return
    for j in inputs:
        if not 0 <= j < b:
            yield f"{field} reads input {j}, but a block may only read earlier ones (0..{b - 1})"
    if not inputs:
        yield f"{field} is empty, and it needs at least one input"
    elif inputs != tuple(sorted(set(inputs))):
        yield f"{field} is {list(inputs)}; write each input once, in increasing order"
    elif limit is not None and len(inputs) > limit:
        yield f"{field} reads {len(inputs)} inputs where a search candidate reads at most {limit}"


def is_int(value: Any) -> bool:
    """A whole number that is not a disguised bool (JSON true would pass as 1)."""
    return isinstance(value, int) and not isinstance(value, bool)


def _listed(values: Any) -> str:
    return ", ".join(str(value) for value in values)
