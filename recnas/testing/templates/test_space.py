"""pytest TESTFILE: what every search space promises, and that what is counted is what is built."""

from pathlib import Path
from typing import Any

import numpy as np

from recnas.data.schema import DenseField, Schema, SparseField
from recnas.model.nasrec.subnet import Subnet
from recnas.plugins import load_plugin
from recnas.space.base import Space
from recnas.space.nasrec.cost import count
from recnas.space.nasrec.layers import NetShape
from recnas.space.registry import get_space
from recnas.testing.space_suite import SpaceConformance

load_plugin(Path(__file__).with_name("FILE"))


class TestMine(SpaceConformance):
    def space(self) -> Space[Any]:
        return get_space("MINE", blocks=3)


def test_what_is_counted_is_what_is_built() -> None:
    schema = Schema(dense=(DenseField("price"),), sparse=tuple(SparseField(name, 10) for name in "abcd"))
    rng = np.random.default_rng(0)
    for _ in range(5):
        arch = get_space("MINE", blocks=3).sample(rng)
        network = Subnet(arch, NetShape.of(schema))
        assert count(arch, schema).params == sum(weight.numel() for weight in network.parameters())
