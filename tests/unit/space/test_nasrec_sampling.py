"""How architectures and weight-sharing paths are drawn, and which options a space takes."""

from collections import Counter
from math import comb

import numpy as np
import pytest

from recnas.errors import SpaceError
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.sampling import draw_connections

SPACES = ("nasrec-small", "nasrec-full")


def shares(b, max_inputs, law, draws=4000):
    rng = np.random.default_rng(5)
    drawn = [draw_connections(b, max_inputs, law, rng) for _ in range(draws)]
    return Counter(len(inputs) for inputs in drawn), Counter(drawn), draws


@pytest.mark.parametrize("b", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("law", ["binomial", "uniform"])
def test_connection_counts_follow_their_law(b, law):
    most = min(4, b)
    counts, _, draws = shares(b, 4, law)
    for k in range(1, most + 1):
        expected = comb(most - 1, k - 1) / 2 ** (most - 1) if law == "binomial" else 1 / most
        spread = (expected * (1 - expected) / draws) ** 0.5
        assert abs(counts[k] / draws - expected) <= 5 * spread, (k, counts[k] / draws, expected)
    assert set(counts) <= set(range(1, most + 1))


def test_every_set_of_one_size_is_equally_likely():
    _, sets, _ = shares(5, 2, "uniform", draws=10000)
    pairs = [n for inputs, n in sets.items() if len(inputs) == 2]
    assert len(pairs) == comb(5, 2)
    assert max(pairs) < 1.3 * min(pairs)


@pytest.mark.parametrize("name", SPACES)
def test_sampled_genes_are_plain_python_values(name):
    rng = np.random.default_rng(0)
    space = NasrecSpace(name)
    for _ in range(200):
        for block in space.sample(rng).blocks:
            assert type(block.merge) is bool
            assert type(block.fm) is bool
            assert type(block.dense_dim) is int
            for inputs in (block.dense_in, block.sparse_in, block.left, block.right):
                assert type(inputs) is tuple
                assert all(type(j) is int for j in inputs)


@pytest.mark.parametrize("name", SPACES)
def test_every_choice_comes_up(name):
    rng = np.random.default_rng(0)
    space = NasrecSpace(name)
    blocks = [block for _ in range(200) for block in space.sample(rng).blocks]
    assert {op for block in blocks for op in block.dense_ops} == set(space.rules.dense_ops)
    assert {op for block in blocks for op in block.sparse_ops} == set(space.rules.sparse_ops)
    assert {block.dense_dim for block in blocks} == set(space.rules.dense_dims)
    assert {block.sparse_dim for block in blocks} == set(space.rules.sparse_dims)
    assert {(block.merge, block.fm) for block in blocks} == {(x, y) for x in (True, False) for y in (True, False)}


@pytest.mark.parametrize("name", SPACES)
def test_single_path_has_one_of_everything(name):
    rng = np.random.default_rng(0)
    space = NasrecSpace(name)
    for _ in range(200):
        arch = space.sample_path(rng, "single-path")
        space.validate(arch)
        for block in arch.blocks:
            chosen = (
                block.dense_ops,
                block.sparse_ops,
                block.dense_in,
                block.sparse_in,
                block.left,
                block.right,
            )
            assert all(len(values) == 1 for values in chosen)


@pytest.mark.parametrize("name", SPACES)
def test_any_path_is_a_valid_path_and_goes_beyond_candidates(name):
    rng = np.random.default_rng(0)
    space = NasrecSpace(name)
    archs = [space.sample_path(rng, "any-path") for _ in range(200)]
    for arch in archs:
        space.validate(arch, sampled=False)
    blocks = [arch.blocks[-1] for arch in archs]
    assert {len(block.dense_ops) for block in blocks} == set(range(1, len(space.rules.dense_ops) + 1))
    assert max(len(block.dense_in) for block in blocks) > space.rules.max_inputs
    assert max(len(block.left) for block in blocks) > 1
    beyond = next(arch for arch in archs if len(arch.blocks[-1].dense_ops) > 1)
    with pytest.raises(SpaceError, match="search candidate"):
        space.validate(beyond)


@pytest.mark.parametrize("name", SPACES)
def test_full_path_uses_everything(name):
    space = NasrecSpace(name, blocks=5)
    path = space.full_path()
    space.validate(path, sampled=False)
    for b, block in enumerate(path.blocks, start=1):
        assert block.dense_ops == space.rules.dense_ops
        assert block.sparse_ops == space.rules.sparse_ops
        assert block.dense_in == block.sparse_in == block.left == block.right == tuple(range(b))
        assert (block.dense_dim, block.sparse_dim, block.merge, block.fm) == (1024, 64, True, True)
    with pytest.raises(SpaceError, match="sampled=False"):
        space.validate(path)


def test_unknown_strategy_names_the_nearest():
    with pytest.raises(SpaceError, match="did you mean 'single-path'"):
        NasrecSpace("nasrec-small").sample_path(np.random.default_rng(0), "singlepath")


def test_default_strategy_is_any_connection():
    space = NasrecSpace("nasrec-full")
    path = space.sample_path(np.random.default_rng(3), "any-connection")
    assert path == space.sample_path(np.random.default_rng(3)) == space.sample(np.random.default_rng(3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blocks": 0}, "blocks=0"),
        ({"blocks": 2.5}, "blocks=2.5"),
        ({"blocks": True}, "blocks=True"),
        ({"max_inputs": 0}, "max_inputs=0"),
        ({"dense_dims": ()}, "dense_dims"),
        ({"dense_dims": (16, 16)}, "each once"),
        ({"sparse_dims": (-1,)}, r"sparse_dims=\(-1,\)"),
        ({"connections": "binomal"}, "did you mean 'binomial'"),
        ({"name": "nasrec-smal"}, "did you mean 'nasrec-small'"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(SpaceError, match=message):
        NasrecSpace(**{"name": "nasrec-small", **options})
