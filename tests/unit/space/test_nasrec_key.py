"""Keys: equal exactly for descriptions of the same network, checked against written-out networks."""

import pickle
from collections import defaultdict
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.arch import Block, NasrecArch
from recnas.space.nasrec.key import canonical

PLAIN = Block(("fc",), ("efc",), 16, 16, False, False, (0,), (0,), (0,), (0,))


def chain(*blocks, space="nasrec-full"):
    return NasrecArch(space, tuple(blocks))


def written_out(arch, renumber):
    """The logit as one nested expression, read off by substituting outputs into their readers.

    Every operator carries the number of its block, since two equal blocks still have weights of their own.
    `renumber` replaces the numbers by their rank among those that occur.
    """
    dense, sparse = ["raw dense"], ["raw sparse"]
    for b, block in enumerate(arch.blocks, start=1):
        dense_in = tuple(dense[j] for j in block.dense_in)
        sparse_in = tuple(sparse[j] for j in block.sparse_in)
        left, right = (tuple(dense[j] for j in side) for side in (block.left, block.right))
        terms = []
        for op in block.dense_ops:
            if op == "fc":
                terms.append((op, dense_in))
            elif op == "dot":
                terms.append((op, dense_in, sparse_in))
            elif op == "sum" and "gate" not in block.dense_ops:
                terms.append((op, frozenset([left, right])))
            else:
                terms.append((op, left, right))
        core = ("block", b, block.dense_dim, tuple(terms))
        rows = ("block", b, block.sparse_dim, tuple((op, sparse_in) for op in block.sparse_ops))
        dense.append((core, ("block", b, "fm", rows)) if block.fm else core)
        sparse.append((rows, ("block", b, "merge", core)) if block.merge else rows)
    whole = (dense[-1], sparse[-1])
    if not renumber:
        return whole
    rank = {b: position for position, b in enumerate(sorted(set(numbers_in(whole))))}
    return renumbered(whole, rank)


def numbers_in(expression):
    if isinstance(expression, (tuple, frozenset)):
        if isinstance(expression, tuple) and expression[:1] == ("block",):
            yield expression[1]
            expression = expression[2:]
        for part in expression:
            yield from numbers_in(part)


def renumbered(expression, rank):
    if isinstance(expression, frozenset):
        return frozenset(renumbered(part, rank) for part in expression)
    if isinstance(expression, tuple):
        if expression[:1] == ("block",):
            return ("block", rank[expression[1]], *(renumbered(part, rank) for part in expression[2:]))
        return tuple(renumbered(part, rank) for part in expression)
    return expression


def every_architecture(blocks):
    """All descriptions with one width per stream and efc as the only sparse operator."""
    dense_ops = NasrecSpace("nasrec-full").rules.dense_ops
    per_block = []
    for b in range(1, blocks + 1):
        inputs = [c for k in range(1, b + 1) for c in combinations(range(b), k)]
        sides = [(j,) for j in range(b)]
        bits = (False, True)
        genes = product(dense_ops, bits, bits, inputs, inputs, sides, sides)
        per_block.append([Block((op,), ("efc",), 16, 16, *rest) for op, *rest in genes])
    return (NasrecArch("nasrec-full", chosen) for chosen in product(*per_block))


def assert_keys_match(archs):
    expressions, shared, by_key = {}, {}, defaultdict(set)
    for arch in archs:
        assert expressions.setdefault(arch.key, expression := written_out(arch, renumber=True)) == expression
        assert shared.setdefault(arch.shared_key, path := written_out(arch, renumber=False)) == path
        by_key[arch.key].add(arch.shared_key)
    assert len(set(expressions.values())) == len(expressions), "one network has two keys"
    assert len(set(shared.values())) == len(shared), "one shared path has two keys"
    return by_key


def test_keys_of_every_network_of_two_blocks():
    by_key = assert_keys_match(every_architecture(2))
    # A dead block 1 always sits before the live one, so with two blocks positions add nothing.
    assert all(len(paths) == 1 for paths in by_key.values())


@pytest.mark.parametrize("strategy", ["single-path", "any-connection", "any-path"])
@pytest.mark.parametrize("name", ["nasrec-small", "nasrec-full"])
def test_keys_of_random_three_block_networks(name, strategy):
    space = NasrecSpace(name, 3, dense_dims=(16,), sparse_dims=(16,))
    rng = np.random.default_rng(2)
    assert_keys_match([space.sample_path(rng, strategy) for _ in range(400)])


def test_positions_count_for_shared_weights_only():
    # Block 3 reads block 1 in one network and an equal block 2 in the other; the third block is dead.
    via_1 = chain(PLAIN, PLAIN, replace(PLAIN, dense_in=(1,)))
    via_2 = chain(PLAIN, PLAIN, replace(PLAIN, dense_in=(2,)))
    assert via_1.key == via_2.key
    assert via_1.shared_key != via_2.shared_key


def test_dead_blocks_do_not_count_not_even_their_number():
    assert chain(replace(PLAIN, dense_dim=1024), PLAIN).key == chain(PLAIN).key
    assert (
        chain(PLAIN, PLAIN, PLAIN, replace(PLAIN, dense_in=(0, 2))).key
        == chain(PLAIN, replace(PLAIN, dense_in=(0, 1))).key
    )


def test_sum_does_not_tell_left_from_right_but_gate_does():
    def with_sides(ops, left, right):
        return chain(PLAIN, replace(PLAIN, dense_ops=ops, left=left, right=right))

    assert with_sides(("sum",), (0,), (1,)).key == with_sides(("sum",), (1,), (0,)).key
    assert with_sides(("sum",), (0,), (1,)).shared_key == with_sides(("sum",), (1,), (0,)).shared_key
    assert with_sides(("gate",), (0,), (1,)).key != with_sides(("gate",), (1,), (0,)).key
    assert with_sides(("gate", "sum"), (0,), (1,)).key != with_sides(("gate", "sum"), (1,), (0,)).key


def test_unread_genes_do_not_count():
    reader = replace(PLAIN, dense_in=(1,))
    assert chain(PLAIN, reader).key == chain(PLAIN, replace(reader, left=(1,), right=(1,))).key
    gate = replace(PLAIN, dense_ops=("gate",))
    assert chain(PLAIN, gate).key == chain(PLAIN, replace(gate, dense_in=(0, 1))).key
    # Block 1's sparse stream is not read, so its operator, width, input and merge do not count ...
    other = replace(PLAIN, sparse_ops=("transformer",), sparse_dim=64, merge=True)
    assert chain(other, reader).key == chain(PLAIN, reader).key
    # ... until its own fm reads it; merge still does not.
    with_fm = replace(PLAIN, fm=True)
    assert chain(replace(with_fm, sparse_dim=64), reader).key != chain(with_fm, reader).key
    assert chain(replace(with_fm, merge=True), reader).key == chain(with_fm, reader).key


def test_swapped_parallel_blocks_are_different_networks():
    narrow, wide = PLAIN, replace(PLAIN, dense_dim=32)
    reader = replace(PLAIN, dense_in=(1, 2))
    assert chain(narrow, wide, reader).key != chain(wide, narrow, reader).key


def test_the_space_a_network_was_found_in_does_not_count():
    rng = np.random.default_rng(0)
    for _ in range(200):
        arch = NasrecSpace("nasrec-small").sample(rng)
        assert replace(arch, space="nasrec-full").key == arch.key


def test_keys_never_change():
    """Ledgers and tables on disk hold these; a change here breaks every one of them."""
    block = replace(PLAIN, dense_ops=("sum",), merge=True, left=(1,), right=(0,))
    arch = chain(PLAIN, replace(PLAIN, fm=True), block)
    assert canonical(arch) == {
        "family": "nasrec",
        "blocks": [
            {"at": 1, "dense_ops": ["fc"], "dense_dim": 16, "dense_in": [0]},
            {
                "at": 2,
                "dense_ops": ["sum"],
                "dense_dim": 16,
                "left": [0],
                "right": [1],
                "sparse_ops": ["efc"],
                "sparse_dim": 16,
                "sparse_in": [0],
                "merge": True,
            },
        ],
    }
    assert arch.key == "nasrec-8fcdb241ab239c1af1ff"
    assert arch.shared_key == "nasrec-d617492daa93ce04c053"


def test_keys_are_not_part_of_the_value():
    arch = chain(PLAIN)
    fresh = chain(PLAIN)
    assert arch.key
    assert arch == fresh
    assert hash(arch) == hash(fresh)
    assert pickle.loads(pickle.dumps(arch)) == fresh
