"""Small steps between NASRec architectures that really change the network.

NASRec's own mutation picks a block, a macro or a micro gene with equal chance, then resamples that gene:
it may draw the old value, touch a gene no active operator reads, or touch a block the logit does not
depend on. Measured, about 60 % of single mutations leave the network as it was (Small 61 %, Full 56 %), so
a search pays for scoring the same network again. Here

- only blocks and genes that the logit depends on are candidates (the macro/micro coin stays);
- the new value differs from the old one, and follows the space's own law for connections (NASRec always
  mutates with uniform counts, also where it samples with binomial ones);
- the child is kept only if its key differs. A live change can still give the same network: when block 3
  turns from block 1 to an identical block 2, only the name of the dead block changes.

What is lost is neutral drift: genes of dead blocks wait unchanged until some connection revives the block.
Nothing becomes unreachable: the last block's connections can revive any block, and then all its genes are
candidates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from numpy.random import Generator

from recnas.space.nasrec.arch import Block, LiveBlock, NasrecArch, ReadBlock
from recnas.space.nasrec.liveness import live_parts, read_streams
from recnas.space.nasrec.operators import fields_read
from recnas.space.nasrec.rules import CONNECTION_FIELDS, NasrecRules
from recnas.space.nasrec.sampling import draw_gene, pick

_MUTATION_TRIES = 50  # each fails for few parents; after that the neighbours are listed, so it always ends
_REDRAWS = 64


def mutate(arch: NasrecArch, rules: NasrecRules, law: str, rng: Generator) -> NasrecArch:
    """One gene of one block changed so that the key changes."""
    by_block = {b: genes for b, genes in effective_genes(arch, rules).items() if genes}
    blocks = tuple(by_block)
    for _ in range(_MUTATION_TRIES):
        b = pick(blocks, rng)
        macro = tuple(gene for gene in by_block[b] if gene in CONNECTION_FIELDS)
        micro = tuple(gene for gene in by_block[b] if gene not in CONNECTION_FIELDS)
        group = macro if (rng.integers(2) and macro) or not micro else micro
        gene = pick(group, rng)
        child = _with_gene(arch, b, gene, _other_value(arch.blocks[b - 1], gene, b, rules, law, rng))
        if child.key != arch.key:
            return child
    # The last block's merge bit always has an effect, so there is always a neighbour.
    return pick(tuple(neighbours(arch, rules)), rng)


def neighbours(arch: NasrecArch, rules: NasrecRules) -> Iterator[NasrecArch]:
    """All search-candidate values of every effective gene, one at a time; each new key once."""
    seen = {arch.key}
    for b, genes in effective_genes(arch, rules).items():
        for gene in genes:
            for value in _other_values(arch.blocks[b - 1], gene, b, rules):
                child = _with_gene(arch, b, gene, value)
                if child.key not in seen:
                    seen.add(child.key)
                    yield child


def effective_genes(arch: NasrecArch, rules: NasrecRules) -> dict[int, tuple[str, ...]]:
    """Per block (1-based), the fields the logit depends on and that have another value to take."""
    found = {}
    for b, (live, read) in enumerate(zip(live_parts(arch), read_streams(arch)), start=1):
        block = arch.blocks[b - 1]
        genes = _genes_in_use(block, live, read)
        found[b] = tuple(g for g in genes if next(_other_values(block, g, b, rules), None) is not None)
    return found


def _genes_in_use(block: Block, live: LiveBlock, read: ReadBlock) -> Iterator[str]:
    """Fields the logit depends on, in a fixed order: a mutation picks among them by number."""
    read_fields = fields_read((block.dense_ops if live.dense else ()) + (block.sparse_ops if live.sparse else ()))
    if live.dense:
        yield from ("dense_ops", "dense_dim")
    yield from (field for field in ("dense_in", "left", "right") if field in read_fields)
    if live.sparse:
        yield from ("sparse_ops", "sparse_dim")
    if "sparse_in" in read_fields:
        yield "sparse_in"
    # A bit that is off is still a gene in use if switching it on would be noticed.
    if read.sparse:
        yield "merge"
    if read.dense:
        yield "fm"


def _other_values(block: Block, gene: str, b: int, rules: NasrecRules) -> Iterator[Any]:
    """Every value a search candidate may have in this field, except the present one."""
    current = getattr(block, gene)
    return (value for value in _all_values(gene, b, rules) if value != current)


def _all_values(gene: str, b: int, rules: NasrecRules) -> Iterator[Any]:
    if gene in ("dense_in", "sparse_in"):
        for count in range(1, min(rules.max_inputs, b) + 1):
            yield from combinations(range(b), count)
    elif gene in ("left", "right"):
        yield from ((j,) for j in range(b))
    elif gene in ("merge", "fm"):
        yield from (False, True)
    elif gene in ("dense_ops", "sparse_ops"):
        yield from ((op,) for op in getattr(rules, gene))
    else:
        yield from rules.dense_dims if gene == "dense_dim" else rules.sparse_dims


def _other_value(block: Block, gene: str, b: int, rules: NasrecRules, law: str, rng: Generator) -> Any:
    """A fresh draw that differs from the present value (which has at most even chances per draw)."""
    for _ in range(_REDRAWS):
        value = draw_gene(rules, gene, b, law, rng)
        if value != getattr(block, gene):
            return value
    return next(_other_values(block, gene, b, rules))


def _with_gene(arch: NasrecArch, b: int, gene: str, value: Any) -> NasrecArch:
    block = replace(arch.blocks[b - 1], **{gene: value})
    return NasrecArch(arch.space, arch.blocks[: b - 1] + (block,) + arch.blocks[b:])
