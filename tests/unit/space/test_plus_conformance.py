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


class TestTableWidths(PlusConformance):
    samples = 30
    neighbours_per_arch = 60

    def space(self):
        return PlusSpace(blocks=3, table_widths=True).on(26)

    def test_a_file_without_the_gene_has_full_tables(self):
        space, rng = self.space(), np.random.default_rng(2)
        for arch in (space.sample(rng) for _ in range(20)):
            written = space.to_dict(arch)
            assert ("narrow" in written) == bool(arch.narrow)
            without = {name: value for name, value in written.items() if name != "narrow"}
            assert space.from_dict(without) == replace(arch, narrow=())

    def test_draws_reach_a_tenth_of_the_memory(self):
        space, rng = self.space(), np.random.default_rng(3)
        full = sum(SCHEMA.table_rows) * 16
        sizes = [count(space.sample(rng), SCHEMA).embedding_params / full for _ in range(300)]
        assert sum(size >= 1 for size in sizes) > 100
        assert min(sizes) < 0.35


def test_table_widths_are_genes_only_where_asked_for():
    plain, asked = PlusSpace(blocks=2), PlusSpace(blocks=2, table_widths=True)
    assert plain.on(26) is plain
    assert asked.rules.fields == 0  # until it is told of data
    rngs = [np.random.default_rng(1) for _ in "12"]
    assert [plain.sample(rngs[0]) for _ in range(5)] == [asked.sample(rngs[1]) for _ in range(5)]


@pytest.mark.parametrize(
    ("narrow", "fault"),
    [
        ([[3, 1.0]], "from 0 .dropped. to below 1"),
        ([[3, 0.5], [3, 0]], "each column once"),
        ([[-1, 0.5]], "numbered from 0"),
        ([3], "list of .column, share."),
        ([["C3", 0.5]], "numbered from 0"),
        ([[3, "half"]], "shares are from 0"),
    ],
)
def test_faults_of_narrow_are_named(narrow, fault: str):
    data = PlusSpace(blocks=2).to_dict(PlusSpace(blocks=2).sample(np.random.default_rng(0))) | {"narrow": narrow}
    with pytest.raises(SpaceError) as error:
        PlusSpace(blocks=2).from_dict(json.loads(json.dumps(data)))
    import re

    assert re.search(fault, f"{error.value.what} {error.value.fix}")


def test_first_order_tables_can_only_be_dropped():
    plain = PlusArch("nasrec-plus", (), Head((0,), ()), first_order=True)
    assert replace(plain, narrow=((2, 0.5),)).key == plain.key
    assert replace(plain, narrow=((2, 0.0),)).key != plain.key
    assert count(replace(plain, narrow=((2, 0.5),)), SCHEMA) == count(plain, SCHEMA)
    assert count(replace(plain, narrow=((2, 0.0),)), SCHEMA).embedding_params == 25 * 100
