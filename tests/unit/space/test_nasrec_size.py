"""Cardinalities: exact arithmetic against listing everything, and against the known figures."""

from itertools import combinations, product

import numpy as np
import pytest

from recnas.space.nasrec import NasrecSpace


def all_blocks(space, b):
    """Every gene tuple of block b, listed the slow way."""
    inputs = [c for k in range(1, space.rules.max_inputs + 1) for c in combinations(range(b), k)]
    sides = range(b)
    rules = space.rules
    return product(
        rules.dense_ops, rules.sparse_ops, rules.dense_dims, rules.sparse_dims,
        (0, 1), (0, 1), inputs, inputs, sides, sides,
    )  # fmt: skip


def without_unread_genes(genes):
    dense_op, *always, dense_in, sparse_in, left, right = genes
    if dense_op in ("fc", "dot"):
        return (dense_op, *always, dense_in, sparse_in)
    return (dense_op, *always, sparse_in, left, right)


@pytest.mark.parametrize("name", ["nasrec-small", "nasrec-full"])
@pytest.mark.parametrize("max_inputs", [1, 2, 4])
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_sizes_against_listing(name, max_inputs, blocks):
    space = NasrecSpace(name, blocks, dense_dims=(16, 32), sparse_dims=(16,), max_inputs=max_inputs)
    size = effective = 1
    for b in range(1, blocks + 1):
        listed = list(all_blocks(space, b))
        size *= len(set(listed))
        effective *= len({without_unread_genes(genes) for genes in listed})
    assert space.size() == size
    assert space.effective_size() == effective


@pytest.mark.parametrize(
    ("name", "size", "effective"),
    [("nasrec-small", "4.9e+39", "1.9e+32"), ("nasrec-full", "8.1e+43", "2.5e+36")],
)
def test_known_figures(name, size, effective):
    space = NasrecSpace(name)
    assert f"{space.size():.1e}" == size
    assert f"{space.effective_size():.1e}" == effective


@pytest.mark.parametrize(("name", "size"), [("nasrec-small", "1.1e+40"), ("nasrec-full", "1.8e+44")])
def test_known_figures_without_the_cap(name, size):
    assert f"{NasrecSpace(name, max_inputs=7).size():.1e}" == size


def test_one_block_has_exactly_its_effective_size_in_networks():
    """Nothing is dead in a single block, so walking along neighbours must find that many keys."""
    space = NasrecSpace("nasrec-full", 1, dense_dims=(16, 32), sparse_dims=(16, 32))
    start = space.sample(np.random.default_rng(0))
    found, frontier = {start.key}, [start]
    while frontier:
        for other in space.neighbours(frontier.pop()):
            if other.key not in found:
                found.add(other.key)
                frontier.append(other)
    assert len(found) == space.effective_size() == 128
