"""NASRec's architectures as points of `nasrec-plus`."""

from __future__ import annotations

from dataclasses import fields

from recnas.space.nasrec.arch import Block, NasrecArch
from recnas.space.plus.arch import NAME, Head, PlusArch, PlusBlock


def from_nasrec(arch: NasrecArch) -> PlusArch:
    """The same network: its parameters have the same names and shapes, and its key is the same."""
    own = [field.name for field in fields(Block)]
    blocks = tuple(PlusBlock(**{name: getattr(block, name) for name in own}) for block in arch.blocks)
    last = len(blocks)
    return PlusArch(NAME, blocks, Head((last,), (last,)))
