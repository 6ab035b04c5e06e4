"""The second file: what the operator computes."""

from torch import Tensor

from recnas.model.nasrec.operators import BlockInputs, dense_layer, register
from tests.jobs.own_space.product_space import ProductLayers


def product(layers: ProductLayers, given: BlockInputs) -> Tensor:
    left = dense_layer(given.left, given.weights(layers.left))
    return left * dense_layer(given.right, given.weights(layers.right))


register("product", product)
