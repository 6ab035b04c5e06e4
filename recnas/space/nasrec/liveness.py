"""Which parts of a NASRec architecture the logit depends on: a walk back from the head over what operators read."""

from __future__ import annotations

from recnas.space.nasrec.arch import DENSE, SPARSE, STREAM_READ_BY, LiveBlock, NasrecArch, ReadBlock
from recnas.space.nasrec.operators import OPERATORS


def live_parts(arch: NasrecArch) -> tuple[LiveBlock, ...]:
    """For each block, which of its parts the logit depends on."""
    return tuple(live for live, _ in _walk_back(arch))


def read_streams(arch: NasrecArch) -> tuple[ReadBlock, ...]:
    """For each block, which outputs are read; switching on `merge` (`fm`) there has an effect exactly
    when the sparse (dense) one is."""
    return tuple(read for _, read in _walk_back(arch))


def _walk_back(arch: NasrecArch) -> list[tuple[LiveBlock, ReadBlock]]:
    """From the head down to block 1."""
    n = len(arch.blocks)
    read = {stream: [j in arch.head_reads[stream] for j in range(n + 1)] for stream in (DENSE, SPARSE)}
    parts: list[tuple[LiveBlock, ReadBlock]] = []
    for b in range(n, 0, -1):
        block = arch.blocks[b - 1]
        fm = block.fm and read[DENSE][b]
        merge = block.merge and read[SPARSE][b]
        dense = read[DENSE][b] or merge
        sparse = read[SPARSE][b] or fm
        parts.append((LiveBlock(dense, sparse, fm, merge), ReadBlock(read[DENSE][b], read[SPARSE][b])))
        for op in (block.dense_ops if dense else ()) + (block.sparse_ops if sparse else ()):
            for field in OPERATORS[op].reads:
                for j in getattr(block, field):
                    read[STREAM_READ_BY[field]][j] = True
    return parts[::-1]
