"""What the operators of `nasrec-plus` have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from recnas.space.nasrec.layers import Layer, LayerBuilder, Span
from recnas.space.plus.arch import PlusBlock

Norm = tuple[str, str] | None
WIDE = ("dense_in", "flat_in")  # dense inputs, and rows read flat
FINISH = ("norm", "activation", "residual")  # what follows every dense operator of the space
MOST_INNER = 256  # rank or inner width that a supernet has room for, and what 0 stands for where there is no full one


class PlusLayers(NamedTuple):
    """A Linear, or nothing, and the normalisation of the block."""

    layer: Layer
    norm: Norm


def run_of(n: int) -> list[Span]:
    """The leading `n` columns of a weight that is bound to no input."""
    return [Span("", 0, n)]


def norm_of(build: LayerBuilder, name: str, block: PlusBlock, n: int) -> Norm:
    """Gain and offset of the block's normalisation; batch and layer share theirs in a supernet."""
    return build.norm(name, n) if block.norm != "none" or not build.elide else None


def affine(
    build: LayerBuilder, name: str, out: int, columns: Sequence[Span], bias: bool = True, uses: int = 1
) -> Layer:
    """A Linear without the normalisation that NASRec's have."""
    return build.linear(name, out, columns, norm=False, bias=bias, uses=uses)
