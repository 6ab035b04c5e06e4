"""Small steps between architectures of `nasrec-plus`: a gene of a live block, the head, one block more, a table's width.

As in NASRec, only what the logit depends on is changed, and a child is kept only if its key differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from numpy.random import Generator

from recnas.space.nasrec.liveness import live_parts, read_streams
from recnas.space.nasrec.operators import fields_read, genes_read
from recnas.space.nasrec.sampling import ANY_CONNECTION, pick
from recnas.space.plus import tables
from recnas.space.plus.arch import PlusArch
from recnas.space.plus.rules import PlusRules, is_valid, settled
from recnas.space.plus.sampling import draw_arch, draw_block

_TRIES = 50
_OF_TABLES = 0.2  # of the changes, where table widths are genes
_NOT_SEARCHED = ("context", "head_width", "reduction")  # kept as they are: they name columns, or sizes that must agree


def mutate(arch: PlusArch, rules: PlusRules, most: int, rng: Generator) -> PlusArch:
    """One change that makes another network: in three of four tries a gene of a block, else the head or a new block."""
    genes = [(b, gene) for b, names in effective_genes(arch, rules).items() for gene in names]
    for _ in range(_TRIES):
        if rules.fields and rng.random() < _OF_TABLES:
            child = replace(arch, narrow=tables.changed(arch.narrow, rules.fields, rng))
        elif genes and rng.random() < 0.75:
            b, gene = pick(tuple(genes), rng)
            values = [v for v in rules.values(arch.blocks[b - 1], gene, b) if v != getattr(arch.blocks[b - 1], gene)]
            child = with_gene(arch, b, gene, pick(tuple(values), rng))
        elif len(arch.blocks) < most and rng.random() < 0.3:
            child = grown(arch, rules, rng)
        else:
            children = tuple(of_head(arch))
            child = pick(children, rng)
        if child.key != arch.key and is_valid(child, rules):
            return child
    found = tuple(neighbours(arch, rules))
    return pick(found, rng) if found else draw_arch(rules, most, rng, ANY_CONNECTION)


def neighbours(arch: PlusArch, rules: PlusRules) -> Iterator[PlusArch]:
    """Every other value of every effective gene, then of the head; each new key once."""
    seen = {arch.key}

    def fresh(child: PlusArch) -> bool:
        new = child.key not in seen
        seen.add(child.key)
        return new

    for b, names in effective_genes(arch, rules).items():
        for gene in names:
            for value in rules.values(arch.blocks[b - 1], gene, b):
                child = with_gene(arch, b, gene, value)
                if is_valid(child, rules) and fresh(child):
                    yield child
    yield from filter(fresh, of_head(arch))
    yield from filter(fresh, (replace(arch, narrow=one) for one in tables.changes(arch.narrow, rules.fields)))


def effective_genes(arch: PlusArch, rules: PlusRules) -> dict[int, tuple[str, ...]]:
    """Per block the fields that the logit depends on and that have another value to take."""
    found = {}
    for b, (live, read) in enumerate(zip(live_parts(arch), read_streams(arch)), start=1):
        block = arch.blocks[b - 1]
        used = (block.dense_ops if live.dense else ()) + (block.sparse_ops if live.sparse else ())
        names = ["dense_ops", "dense_dim"] if live.dense else []
        names += ["sparse_ops", "sparse_dim"] if live.sparse else []
        names += sorted(fields_read(used)) + sorted(genes_read(used) - set(_NOT_SEARCHED))
        names += ["merge"] if read.sparse else []
        names += ["fm"] if read.dense else []
        found[b] = tuple(
            name for name in names if any(v != getattr(block, name) for v in rules.values(block, name, b))
        )  # fmt: skip
    return found


def with_gene(arch: PlusArch, b: int, gene: str, value: Any) -> PlusArch:
    block = replace(arch.blocks[b - 1], **{gene: value})
    return replace(arch, blocks=(*arch.blocks[: b - 1], settled(block), *arch.blocks[b:]))


def grown(arch: PlusArch, rules: PlusRules, rng: Generator) -> PlusArch:
    """One block more, read by the head."""
    b = len(arch.blocks) + 1
    blocks = (*arch.blocks, draw_block(rules, arch.blocks, rng))
    return replace(arch, blocks=blocks, head=replace(arch.head, dense=(*arch.head.dense, b)))


def of_head(arch: PlusArch) -> Iterator[PlusArch]:
    """One stream more or less for the head, first-order weights added or taken away."""
    head = arch.head
    for j in range(len(arch.blocks) + 1):
        for other in (replace(head, dense=_toggled(head.dense, j)), replace(head, rows=_toggled(head.rows, j))):
            if other.streams:
                yield replace(arch, head=other)
    if head.streams:
        yield replace(arch, first_order=not arch.first_order)


def _toggled(inputs: tuple[int, ...], j: int) -> tuple[int, ...]:
    return tuple(k for k in inputs if k != j) if j in inputs else tuple(sorted((*inputs, j)))
