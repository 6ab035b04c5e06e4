"""What an architecture of `nasrec-plus` may contain, and the values its genes take in a search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from recnas.errors import SpaceError
from recnas.space.nasrec.arch import DENSE, DOT, EFC, FC, GATE, SPARSE, STREAM_READ_BY, SUM, TRANSFORMER
from recnas.space.nasrec.operators import OPERATORS
from recnas.space.nasrec.rules import is_int
from recnas.space.plus import field_operators as field
from recnas.space.plus import operators as ops
from recnas.space.plus import tables
from recnas.space.plus.arch import AS_DATA, NAME, PlusArch, PlusBlock

BLOCKS = 8
MOST_BLOCKS, MOST_WIDTH = 64, 2**16  # of a valid architecture; a search draws far less
DENSE_DIMS = (AS_DATA, 16, 32, 64, 128, 256, 400, 512)
SPARSE_DIMS = (16, 32, 48, 64)
MAX_INPUTS = 3

NORMS = ("none", "batch", "layer")
ACTIVATIONS = ("none", "relu", "silu")
MATRICES = ("all", "each", "interaction")
CHOICES: dict[str, tuple[Any, ...]] = {
    "norm": NORMS,
    "activation": ACTIVATIONS,
    "residual": (False, True),
    "matrices": MATRICES,
    "heads": (1, 2, 4),
    "hidden": (64, 128),
    "rank": (4, 8, 16),
    "reduction": (3,),
    "context": (-1,),
    "head_width": (0,),
    "scaled": (False, True),
    "shortcut": ("linear", "plain", "none"),
    "row_norm": (False, True),
}
INNER, LOGITS = ops.INNER, ops.LOGITS
OPTIONAL = (ops.DOTS, field.BILINEAR)  # they read dense inputs beside rows, and can do without


@dataclass(frozen=True)
class PlusRules:
    """The choices that a search has in every block; a valid architecture may have other widths."""

    name: str = NAME
    dense_ops: tuple[str, ...] = (FC, DOT, GATE, SUM, *ops.DENSE_OPS)
    sparse_ops: tuple[str, ...] = (TRANSFORMER, EFC, *ops.SPARSE_OPS)
    dense_dims: tuple[int, ...] = DENSE_DIMS
    sparse_dims: tuple[int, ...] = SPARSE_DIMS
    max_inputs: int = MAX_INPUTS
    fields: int = 0  # columns whose table widths are genes too

    @staticmethod
    def searched(offered: tuple[str, ...]) -> tuple[str, ...]:
        """Operators that a search draws and a supernet holds: a layer over all bilinear pairs would outweigh the rest."""
        return tuple(op for op in offered if op != field.BILINEAR)

    def values(self, block: PlusBlock, gene: str, b: int) -> Iterator[Any]:
        """Every value that a search may give this field of block `b`."""
        op = block.dense_ops[0]
        if gene in ("dense_in", "sparse_in", "flat_in"):
            if gene == "flat_in" or (gene == "dense_in" and ("flat_in" in OPERATORS[op].reads or op in OPTIONAL)):
                yield ()
            for count in range(1, min(self.max_inputs, b) + 1):
                yield from combinations(range(b), count)
        elif gene in STREAM_READ_BY:
            yield from ((j,) for j in range(b))
        elif gene in ("merge", "fm"):
            yield from (False, True)
        elif gene in ("dense_ops", "sparse_ops"):
            yield from ((name,) for name in self.searched(getattr(self, gene)))
        elif gene == "dense_dim":
            yield from ((1,) if op in LOGITS else ())
            yield from self.dense_dims
        elif gene == "sparse_dim":
            yield from self.sparse_dims
        elif gene == "inner":
            yield from next((INNER[name] for name in (*block.dense_ops, *block.sparse_ops) if name in INNER), (0,))
        else:
            yield from CHOICES[gene]


def settled(block: PlusBlock) -> PlusBlock:
    """The block with what its operators cannot do without: an input, a width inside."""
    changes: dict[str, Any] = {}
    for op in (*block.dense_ops, *block.sparse_ops):
        reads = OPERATORS[op].reads
        if "flat_in" in reads and not (block.dense_in or block.flat_in):
            changes["flat_in"] = (0,)
        if "dense_in" in reads and "flat_in" not in reads and op not in OPTIONAL and not block.dense_in:
            changes["dense_in"] = (0,)
        if op in INNER and 0 not in INNER[op] and not block.inner:
            changes["inner"] = INNER[op][-1]
    return replace(block, **changes) if changes else block


def is_valid(arch: PlusArch, rules: PlusRules) -> bool:
    return not any(True for _ in _faults(arch, rules, True))


def check(arch: PlusArch, rules: PlusRules, sampled: bool = True) -> None:
    """Raise one `SpaceError` that lists every fault of `arch`; `sampled=False` lets several operators per stream pass."""
    if not isinstance(arch, PlusArch):
        raise SpaceError(f"not an architecture of {rules.name}: it is a {type(arch).__name__}", "see recnas.space.plus")
    faults = list(_faults(arch, rules, sampled))
    if faults:
        raise SpaceError(
            f"not an architecture of {rules.name}: " + "; ".join(faults),
            "change the named fields, or draw a valid architecture with space.sample(rng)",
        )


def _faults(arch: PlusArch, rules: PlusRules, sampled: bool) -> Iterator[str]:
    n = len(arch.blocks)
    if arch.space != rules.name:
        yield f"it says it was drawn from {arch.space!r}"
    if n > MOST_BLOCKS:
        yield f"it has {n} blocks, and at most {MOST_BLOCKS} are understood"
    for name in ("dense", "rows"):
        yield from (f"head: {fault}" for fault in _inputs(name, getattr(arch.head, name), n + 1, True))
    if not arch.head.streams and not arch.first_order:
        yield "head reads nothing"
    if not isinstance(arch.start_scale, (int, float)) or not arch.start_scale > 0:
        yield f"start_scale is {arch.start_scale!r}, which is not a positive number"
    yield from tables.faults(arch.narrow)
    odd = {j for j, block in enumerate(arch.blocks, start=1) if block.head_width and field.ATTEND in block.sparse_ops}
    for b, block in enumerate(arch.blocks, start=1):
        for op in (*block.dense_ops, *block.sparse_ops):
            for name in {"sparse_in", "row_left", "row_right"} & set(OPERATORS[op].reads):
                if op != field.ATTEND and odd & set(getattr(block, name)):
                    yield f"block {b}: {op} reads rows that are not as wide as embeddings (head_width)"
        for fault in _block_faults(b, block, rules, sampled):
            yield f"block {b}: {fault}"


def _block_faults(b: int, block: PlusBlock, rules: PlusRules, sampled: bool) -> Iterator[str]:
    for name, offered, stream in (
        ("dense_ops", rules.dense_ops, DENSE),
        ("sparse_ops", rules.sparse_ops, SPARSE),
    ):
        named = getattr(block, name)
        unknown = [op for op in named if op not in offered or OPERATORS[op].stream != stream]
        if unknown or not named or len(set(named)) < len(named):
            yield f"{name} is {list(named)}; name each operator once: {', '.join(offered)}"
            return
        if sampled and len(named) > 1:
            yield f"{name} has {len(named)} operators where a search candidate has one"
    for name in ("dense_dim", "sparse_dim"):
        value = getattr(block, name)
        if not is_int(value) or not 0 <= value <= MOST_WIDTH:
            yield f"{name} is {value!r}, which is not a width (0 to {MOST_WIDTH})"
    for name in STREAM_READ_BY:
        yield from _inputs(name, getattr(block, name), b, name in ("dense_in", "flat_in"))
    used = (*block.dense_ops, *block.sparse_ops)
    if field.ATTEND in used and block.head_width and (block.merge or block.fm or len(block.sparse_ops) > 1):
        yield "rows of another width than embeddings take no merge, no fm and no second operator"
    for op in used:
        if op in (FC, DOT) and not block.dense_in:
            yield f"{op} reads dense_in, and it is empty"
        if "flat_in" in OPERATORS[op].reads and not (block.dense_in or block.flat_in):
            yield f"{op} reads dense_in and flat_in, and both are empty"
        if sampled and op in INNER and 0 not in INNER[op] and block.inner < 1:
            yield f"{op} needs a width inside; inner is {block.inner}"
        if op == field.FACTORISED and block.dense_dim % 2:
            yield f"{op} splits its units into halves, and dense_dim is {block.dense_dim}"
    yield from _gene_faults(block)


def _gene_faults(block: PlusBlock) -> Iterator[str]:
    for gene, offered in (
        ("norm", NORMS),
        ("activation", ACTIVATIONS),
        ("matrices", MATRICES),
        ("shortcut", CHOICES["shortcut"]),
    ):
        if getattr(block, gene) not in offered:
            yield f"{gene} is {getattr(block, gene)!r}, which is not one of {', '.join(offered)}"
    for gene, least in (
        ("inner", 0),
        ("rank", 1),
        ("hidden", 1),
        ("heads", 1),
        ("head_width", 0),
        ("context", -1),
        ("reduction", 1),
    ):
        value = getattr(block, gene)
        if not is_int(value) or not least <= value <= MOST_WIDTH:
            yield f"{gene} is {value!r}, which is not a whole number from {least} up"
    for gene in ("residual", "scaled", "row_norm", "merge", "fm"):
        if not isinstance(getattr(block, gene), bool):
            yield f"{gene} is {getattr(block, gene)!r}, which is not true or false"
    share = block.dropout
    if share is not None and (not isinstance(share, (int, float)) or not 0 <= share < 1):
        yield f"dropout is {share!r}, which is not a share from 0 to below 1"


def _inputs(name: str, inputs: Any, below: int, may_be_empty: bool) -> Iterator[str]:
    if not isinstance(inputs, tuple) or not all(is_int(j) for j in inputs):
        yield f"{name} is {inputs!r}, which is not a tuple of input numbers"
    elif not inputs and not may_be_empty:
        yield f"{name} is empty, and it needs at least one input"
    elif inputs != tuple(sorted(set(inputs))) or not all(0 <= j < below for j in inputs):
        yield f"{name} is {list(inputs)}; name inputs from 0 to {below - 1}, each once, in increasing order"
