"""The promises every space makes, checked for the NASRec spaces, the smallest ones included."""

import pytest

from recnas.data.schema import Schema
from recnas.errors import SpaceError
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.cost import count
from recnas.testing.space_suite import SpaceConformance

SCHEMA = Schema.of_shape(13, [100] * 26)


class NasrecConformance(SpaceConformance):
    def cost_of(self, arch):
        cost = count(arch, SCHEMA)
        return cost.params, cost.macs, cost.embedding_params, cost.embedding_bytes, cost.live_blocks


class TestSmall(NasrecConformance):
    def space(self):
        return NasrecSpace("nasrec-small")


class TestFull(NasrecConformance):
    def space(self):
        return NasrecSpace("nasrec-full")


class TestFullWithUniformCounts(NasrecConformance):
    samples = 50

    def space(self):
        return NasrecSpace("nasrec-full", connections="uniform")


class TestOneBlock(NasrecConformance):
    def space(self):
        return NasrecSpace("nasrec-full", blocks=1)


class TestAlmostNothingToChoose(NasrecConformance):
    """One block, one width each: 8 networks remain, and mutation must still find another one."""

    def space(self):
        return NasrecSpace("nasrec-small", blocks=1, dense_dims=(16,), sparse_dims=(16,))


class TestManyBlocks(NasrecConformance):
    samples = 30

    def space(self):
        return NasrecSpace("nasrec-full", blocks=12, max_inputs=2)


def test_the_suite_notices_a_mutation_that_does_nothing():
    class Lazy(NasrecSpace):
        def mutate(self, arch, rng):
            return arch

    class Suite(SpaceConformance):
        def space(self):
            return Lazy("nasrec-small")

    with pytest.raises(AssertionError, match="left the network unchanged"):
        Suite().test_mutation_changes_the_network_and_stays_valid()


def test_the_suite_notices_a_sampler_that_breaks_the_rules():
    class Loose(NasrecSpace):
        def sample(self, rng):
            return self.full_path()

    class Suite(SpaceConformance):
        def space(self):
            return Loose("nasrec-small")

    with pytest.raises(SpaceError, match="search candidate"):
        Suite().test_samples_are_valid()
