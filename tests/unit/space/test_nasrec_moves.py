"""Mutation and neighbours: one gene, always another network, nothing missed."""

from collections import Counter
from dataclasses import fields, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec import moves as nasrec_moves
from recnas.space.nasrec.arch import Block, NasrecArch

GENES = [field.name for field in fields(Block)]
PLAIN = Block(("fc",), ("efc",), 16, 16, False, False, (0,), (0,), (0,), (0,))


def changed_genes(parent, child):
    return [
        (b, gene)
        for b, (old, new) in enumerate(zip(parent.blocks, child.blocks), start=1)
        for gene in GENES
        if getattr(old, gene) != getattr(new, gene)
    ]


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    blocks=st.integers(1, 8),
    name=st.sampled_from(["nasrec-small", "nasrec-full"]),
    law=st.sampled_from(["binomial", "uniform"]),
)
def test_a_mutation_changes_one_gene_and_the_network(seed, blocks, name, law):
    rng = np.random.default_rng(seed)
    space = NasrecSpace(name, blocks, law)
    parent = space.sample(rng)
    child = space.mutate(parent, rng)
    space.validate(child)
    assert len(changed_genes(parent, child)) == 1
    assert child.key != parent.key


@pytest.mark.parametrize("name", ["nasrec-small", "nasrec-full"])
def test_mutants_are_neighbours_and_neighbours_are_mutants(name):
    space = NasrecSpace(name, 2, dense_dims=(16, 32), sparse_dims=(16,))
    rng = np.random.default_rng(4)
    for _ in range(6):
        parent = space.sample(rng)
        listed = {other.key for other in space.neighbours(parent)}
        drawn = {space.mutate(parent, rng).key for _ in range(300)}
        assert drawn == listed


@pytest.mark.parametrize("name", ["nasrec-small", "nasrec-full"])
def test_neighbours_against_trying_every_gene(name):
    """Also genes that look unread: none of them may lead to another network."""
    space = NasrecSpace(name, 3, dense_dims=(16, 32), sparse_dims=(16, 32), max_inputs=2)
    rng = np.random.default_rng(5)
    for _ in range(30):
        parent = space.sample(rng)
        tried = set()
        for b, block in enumerate(parent.blocks, start=1):
            sets = [(j,) for j in range(b)] + [(i, j) for i, j in product(range(b), repeat=2) if i < j]
            values = {
                "dense_ops": [(op,) for op in space.rules.dense_ops],
                "sparse_ops": [(op,) for op in space.rules.sparse_ops],
                "dense_dim": [16, 32],
                "sparse_dim": [16, 32],
                "merge": [False, True],
                "fm": [False, True],
                "dense_in": sets,
                "sparse_in": sets,
                "left": sets[:b],
                "right": sets[:b],
            }
            for gene in GENES:
                for value in values[gene]:
                    blocks = list(parent.blocks)
                    blocks[b - 1] = replace(block, **{gene: value})
                    tried.add(NasrecArch(name, tuple(blocks)).key)
        assert {other.key for other in space.neighbours(parent)} == tried - {parent.key}


def test_every_network_can_be_reached():
    """Although genes of dead blocks never mutate: connections bring them back to life first."""
    space = NasrecSpace("nasrec-small", 2, dense_dims=(16,), sparse_dims=(16,))
    rng = np.random.default_rng(0)
    start = space.sample(rng)
    reached, frontier = {start.key}, [start]
    while frontier:
        for other in space.neighbours(frontier.pop()):
            if other.key not in reached:
                reached.add(other.key)
                frontier.append(other)
    drawn = {space.sample(rng).key for _ in range(2000)}
    assert drawn <= reached
    assert len(reached) < space.effective_size()


def test_neighbours_come_one_at_a_time():
    space = NasrecSpace("nasrec-full")
    found = space.neighbours(space.sample(np.random.default_rng(0)))
    assert iter(found) is found
    assert next(found) != next(found)


def test_a_live_change_that_only_renames_a_dead_block_is_not_a_move():
    # Block 3 may read block 1 or the equal block 2: the same network, so not a neighbour.
    parent = NasrecArch("nasrec-small", (PLAIN, PLAIN, replace(PLAIN, dense_in=(1,))))
    renamed = NasrecArch("nasrec-small", (PLAIN, PLAIN, replace(PLAIN, dense_in=(2,))))
    space = NasrecSpace("nasrec-small", 3)
    rng = np.random.default_rng(0)
    assert renamed not in list(space.neighbours(parent))
    assert all(space.mutate(parent, rng) != renamed for _ in range(500))


def test_mutation_falls_back_on_the_list_of_neighbours(monkeypatch):
    monkeypatch.setattr(nasrec_moves, "_MUTATION_TRIES", 0)
    monkeypatch.setattr(nasrec_moves, "_REDRAWS", 0)
    space = NasrecSpace("nasrec-small", 2)
    rng = np.random.default_rng(0)
    for _ in range(20):
        parent = space.sample(rng)
        child = space.mutate(parent, rng)
        assert child.key != parent.key
        assert len(changed_genes(parent, child)) == 1


def test_a_new_value_is_found_even_if_every_redraw_repeats_the_old_one(monkeypatch):
    monkeypatch.setattr(nasrec_moves, "_REDRAWS", 0)
    space = NasrecSpace("nasrec-full", 4)
    rng = np.random.default_rng(0)
    for _ in range(50):
        parent = space.sample(rng)
        assert space.mutate(parent, rng).key != parent.key


def test_macro_and_micro_genes_get_about_equal_shares():
    space = NasrecSpace("nasrec-full")
    rng = np.random.default_rng(0)
    touched = Counter()
    for _ in range(400):
        parent = space.sample(rng)
        ((_, gene),) = changed_genes(parent, space.mutate(parent, rng))
        touched["macro" if gene in ("dense_in", "sparse_in", "left", "right") else "micro"] += 1
    # Block 1 has nothing to rewire, so macro stays somewhat below one half.
    assert 0.35 < touched["macro"] / 400 < 0.52


def test_paths_can_be_mutated_too():
    space = NasrecSpace("nasrec-full", 3)
    rng = np.random.default_rng(0)
    path = space.full_path()
    for _ in range(100):
        child = space.mutate(path, rng)
        space.validate(child, sampled=False)
        assert child.key != path.key
