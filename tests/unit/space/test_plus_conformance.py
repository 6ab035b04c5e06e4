"""The promises every space makes, checked for nasrec-plus; what is particular to it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from recnas.data.schema import Schema
from recnas.errors import SpaceError
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.cost import count
from recnas.space.nasrec.json import dump_arch, parse_arch
from recnas.space.plus import PlusSpace
from recnas.space.plus.arch import GENES, Head, PlusArch
from recnas.space.plus.convert import from_nasrec
from recnas.space.registry import get_space
from recnas.testing.space_suite import SpaceConformance

SCHEMA = Schema.of_shape(13, [100] * 26)


class PlusConformance(SpaceConformance):
    samples = 40
    neighbours_per_arch = 100

    def cost_of(self, arch):
        cost = count(arch, SCHEMA)
        return cost.params, cost.macs, cost.embedding_params, cost.embedding_bytes, cost.live_blocks


class TestPlus(PlusConformance):
    def space(self):
        return get_space("nasrec-plus")


class TestOneBlock(PlusConformance):
    samples = 30

    def space(self):
        return PlusSpace(blocks=1, dense_dims=(16,), sparse_dims=(16,))


class TestFewWidths(PlusConformance):
    samples = 30

    def space(self):
        return PlusSpace(blocks=4, dense_dims=(0, 32), sparse_dims=(8, 16), max_inputs=1)


@pytest.mark.parametrize("name", ["nasrec-small", "nasrec-full"])
def test_nasrecs_architectures_are_points_of_it(name: str):
    space, plus, rng = NasrecSpace(name), PlusSpace(), np.random.default_rng(1)
    for _ in range(100):
        arch = space.sample(rng)
        twin = from_nasrec(arch)
        plus.validate(twin)
        assert twin.key == arch.key
        assert twin.shared_key == arch.shared_key
        assert count(twin, SCHEMA) == count(arch, SCHEMA)


def test_typical_networks_are_as_large_as_hand_crafted_ones():
    space, rng = PlusSpace(), np.random.default_rng(2)
    macs = np.sort([count(space.sample(rng), SCHEMA).macs for _ in range(300)])
    assert 0.3e6 < np.median(macs) < 3e6
    assert np.quantile(macs, 0.1) > 0.1e6
    assert np.quantile(macs, 0.99) < 15e6


def test_genes_that_are_not_read_are_not_in_the_key_and_unset_ones_not_in_files():
    space, rng = PlusSpace(), np.random.default_rng(3)
    seen = 0
    for _ in range(50):
        arch = space.sample(rng)
        for b, block in enumerate(arch.blocks):
            if not {"heads", "matrices"} & _genes(block):
                other = replace(block, heads=3, matrices="each")
                twin = replace(arch, blocks=(*arch.blocks[:b], other, *arch.blocks[b + 1 :]))
                assert twin.key == arch.key
                seen += 1
        for block, described in zip(arch.blocks, space.to_dict(arch)["blocks"]):
            assert all(described[name] != default for name, default in GENES.items() if name in described)
            assert set(block.set_genes()) <= set(described)
    assert seen


def _genes(block) -> set[str]:
    from recnas.space.nasrec.operators import genes_read

    return genes_read((*block.dense_ops, *block.sparse_ops))


def test_a_file_says_what_is_wrong_with_it():
    data = PlusSpace().to_dict(PlusSpace().sample(np.random.default_rng(0)))
    assert parse_arch(json.dumps(data)) == PlusSpace().from_dict(data)
    assert parse_arch(dump_arch(PlusSpace().from_dict(data))) == PlusSpace().from_dict(data)
    for change, said in (
        ({"norm": "bath"}, "norm is 'bath'"),
        ({"flat_in": [7]}, "flat_in is"),
        ({"dropout": 1.5}, "dropout is 1.5"),
        ({"nrom": "batch"}, "unknown field 'nrom'"),
    ):
        broken = json.loads(json.dumps(data))
        broken["blocks"][0].update(change)
        with pytest.raises(SpaceError, match=said):
            PlusSpace().from_dict(broken)
    with pytest.raises(SpaceError, match="head reads nothing"):
        PlusSpace().validate(PlusArch("nasrec-plus", (), Head()))


def test_the_other_spaces_refuse_it():
    arch = PlusSpace().sample(np.random.default_rng(0))
    with pytest.raises(SpaceError, match="drawn from 'nasrec-plus'"):
        NasrecSpace("nasrec-full").validate(arch)
    with pytest.raises(SpaceError, match="convert it"):
        PlusSpace().validate(NasrecSpace("nasrec-full").sample(np.random.default_rng(0)))
    with pytest.raises(SpaceError, match="cannot describe"):
        dump_arch(arch, "nasrec")
