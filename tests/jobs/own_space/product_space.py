"""A CTR space of somebody else, first file of two: NASRec-Small with one operator more, `product`."""

from typing import NamedTuple

from recnas.space.nasrec.arch import DENSE, DOT, EFC, FC, Block
from recnas.space.nasrec.layers import Layer, LayerBuilder
from recnas.space.nasrec.operators import Operator, register
from recnas.space.nasrec.rules import NasrecRules
from recnas.space.registry import register_nasrec

NAME = "products"


class ProductLayers(NamedTuple):
    left: Layer
    right: Layer


def layers(build: LayerBuilder, name: str, block: Block) -> ProductLayers:
    """Both sides brought to the width of the block."""
    return ProductLayers(
        build.linear(f"{name}.left", block.dense_dim, build.dense_spans(block.left)),
        build.linear(f"{name}.right", block.dense_dim, build.dense_spans(block.right)),
    )


register(Operator("product", DENSE, ("left", "right"), layers))
register_nasrec(NasrecRules(NAME, dense_ops=(FC, DOT, "product"), sparse_ops=(EFC,)))
