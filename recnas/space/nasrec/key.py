"""Names for NASRec networks: two descriptions of the same network get the same key.

Most descriptions carry genes that change nothing. The canonical form keeps only what the logit depends on:

- inert genes go: connections that no live operator of the block reads, everything of a stream nobody reads
  (its operators, width and inputs), a merge or fm bit whose result nobody reads;
- dead blocks go, and the rest are numbered anew, because a standalone network concatenates only the
  tensors it selects, in increasing order: dropping an unread block leaves the same network;
- sum does not tell left from right (the shorter is padded with zeros and addition commutes), so the two
  are sorted, unless another operator of the block tells them apart, as gate does;
- the space's name is not part of it: a network found in Small has the same key in Full.

Deliberately *not* merged: descriptions that agree only up to reordering. If blocks 1 and 2 both read the
raw input and swap places, the concatenated columns of their readers swap too: the same family of
functions, but not the same network weight for weight. Nor is anything merged that holds for one data set
only (a constant dense input, say).

Two keys, because shared weights are bound to positions. In the supernet block b has its own weights and
every input has a fixed slot, so two descriptions of one standalone network may use different shared
weights when a dead block sits elsewhere.
Use `key` for whatever concerns the standalone network (training from scratch, cost, duplicates in a
report) and `shared_key` to cache anything measured under shared weights. Equal `shared_key` implies equal
`key`, never the other way round.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from recnas.space.nasrec.arch import Block, LiveBlock, NasrecArch
from recnas.space.nasrec.liveness import live_parts
from recnas.space.nasrec.operators import OPERATORS, fields_read, genes_read

FAMILY = "nasrec"
_HEX_DIGITS = 20  # 80 bits: a million networks share a key by chance once in about 10^12 runs


def canonical(arch: NasrecArch, renumber: bool = True) -> dict[str, Any]:
    """The effective network as JSON-able data.

    Args:
        arch: any valid architecture or path.
        renumber: close the gaps that dead blocks leave; False keeps positions (see the module docstring).

    Returns:
        `{"family": "nasrec", "blocks": [...]}`; each block has its position `at` and its effective genes.
    """
    live = live_parts(arch)
    kept = [b for b, parts in enumerate(live, start=1) if parts.dense or parts.sparse]
    position = {0: 0} | {b: (rank if renumber else b) for rank, b in enumerate(kept, start=1)}
    blocks = [{"at": position[b], **_effective_genes(arch.blocks[b - 1], live[b - 1], position)} for b in kept]
    return {"family": FAMILY, "blocks": blocks, **arch.head_genes(position)}


def key(arch: NasrecArch) -> str:
    """Name of the standalone network, e.g. `nasrec-3f0c...`; what `arch.key` returns."""
    return _digest(canonical(arch))


def shared_key(arch: NasrecArch) -> str:
    """Name of the path through a weight-sharing supernet: like `key`, but positions count."""
    return _digest(canonical(arch, renumber=False))


def _effective_genes(block: Block, live: LiveBlock, position: dict[int, int]) -> dict[str, Any]:
    def renumbered(inputs: tuple[int, ...]) -> list[int]:
        return [position[j] for j in inputs]

    genes: dict[str, Any] = {}
    ops: tuple[str, ...] = ()
    if live.dense:
        genes["dense_ops"] = sorted(block.dense_ops)
        genes["dense_dim"] = block.dense_dim
        ops += block.dense_ops
    if live.sparse:
        genes["sparse_ops"] = sorted(block.sparse_ops)
        genes["sparse_dim"] = block.sparse_dim
        ops += block.sparse_ops
    genes |= {field: renumbered(getattr(block, field)) for field in fields_read(ops)}
    genes |= block.further_genes(genes_read(ops))
    if "left" in genes and all(OPERATORS[op].commutes for op in ops if "left" in OPERATORS[op].reads):
        genes["left"], genes["right"] = sorted((genes["left"], genes["right"]))
    if live.merge:
        genes["merge"] = True
    if live.fm:
        genes["fm"] = True
    return genes


def _digest(form: dict[str, Any]) -> str:
    text = json.dumps(form, sort_keys=True, separators=(",", ":"))
    return f"{FAMILY}-{hashlib.sha256(text.encode()).hexdigest()[:_HEX_DIGITS]}"
