"""NAS-Bench-101 and 1Shot1: the promises of a space, published counts, and isomorphic cells."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from recnas.errors import ConfigError, SpaceError
from recnas.space.blueprint import count
from recnas.space.nasbench1shot1 import OneShotArch, OneShotSpace
from recnas.space.nasbench101 import MATRICES, Nb101Space
from recnas.space.nasbench101.arch import (
    CONV1,
    CONV3,
    EDGES,
    OPS,
    POOL,
    Nb101Arch,
    canonical,
    key,
    official_hash,
    prune,
)
from recnas.space.nasbench101.skeleton import Nb101Blueprint, Nb101Skeleton, vertex_channels
from recnas.space.registry import get_space
from recnas.testing.space_suite import SpaceConformance

SMALL = Nb101Skeleton(channels=8, cells=1, image=8)


class TestNasbench101(SpaceConformance):
    def space(self):
        return get_space("nasbench101")

    def cost_of(self, arch):
        cost = count(Nb101Blueprint(arch, SMALL))
        return cost.params, cost.macs


class TestOneShot1(SpaceConformance):
    number = 1

    def space(self):
        return get_space(f"nasbench1shot1-{self.number}")

    def cost_of(self, arch):
        return (count(Nb101Blueprint(arch.cell(), SMALL)).params,)


class TestOneShot2(TestOneShot1):
    number = 2


class TestOneShot3(TestOneShot1):
    number = 3


def every_matrix(n: int) -> list[tuple[tuple[int, ...], ...]]:
    """Pruned upper triangular matrices with at most 9 edges, found by trying all (numpy on all codes at once)."""
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    codes = np.arange(1 << len(pairs))
    edge = {pair: (codes >> place & 1).astype(bool) for place, pair in enumerate(pairs)}
    good = sum(bits.astype(np.int8) for bits in edge.values()) <= EDGES
    for v in range(n):
        if v:
            good &= np.any([edge[i, v] for i in range(v)], axis=0)  # everybody has a parent, so all are reached
        if v < n - 1:
            good &= np.any([edge[v, j] for j in range(v + 1, n)], axis=0)
    return [
        tuple(tuple(int(i < j and code >> pairs.index((i, j)) & 1) for j in range(n)) for i in range(n))
        for code in codes[good].tolist()
    ]


def test_the_published_number_of_cells():
    """423,624 different cells, counted by Burnside's lemma on graphs: orbits of labellings under automorphisms."""
    total = 0
    for n, expected in zip(range(2, 8), MATRICES):
        matrices = every_matrix(n)
        assert len(matrices) == expected
        seen = set()
        for matrix in matrices:
            form = canonical(Nb101Arch(matrix, (CONV3,) * (n - 2))).matrix
            if form in seen:
                continue
            seen.add(form)
            edges = [(i, j) for i in range(n) for j in range(n) if form[i][j]]
            orbits = group = 0
            for order in permutations(range(1, n - 1)):
                image = (0, *order, n - 1)
                if all(form[image[i]][image[j]] for i, j in edges):
                    group += 1
                    orbits += len(OPS) ** _cycles(image) // len(OPS) ** 2  # the ends are fixed
            assert orbits % group == 0
            total += orbits // group
    assert total == 423_624


def _cycles(image: tuple[int, ...]) -> int:
    left, found = set(range(len(image))), 0
    while left:
        found += 1
        at = left.pop()
        while (at := image[at]) in left:
            left.remove(at)
    return found


def renamed(cell: Nb101Arch, rng: np.random.Generator) -> Nb101Arch:
    """The same cell with its inner vertices in another order, edges still leading onwards."""
    n = cell.vertices
    while True:
        order = (0, *(1 + int(i) for i in rng.permutation(n - 2)), n - 1)
        matrix = tuple(tuple(cell.matrix[i][j] for j in order) for i in order)
        if not any(matrix[i][j] for i in range(n) for j in range(i + 1)):
            return Nb101Arch(matrix, tuple(cell.ops[v - 1] for v in order[1:-1]))


def test_keys_and_hashes_name_cells_up_to_isomorphism():
    space, rng = Nb101Space(), np.random.default_rng(0)
    by_key: dict[str, str] = {}
    different = 0
    for _ in range(400):
        cell = space.sample(rng)
        other = renamed(cell, rng)
        different += other != cell
        assert key(other) == key(cell)
        assert official_hash(other) == official_hash(cell)
        space.validate(canonical(cell))
        assert by_key.setdefault(key(cell), official_hash(cell)) == official_hash(cell)
    assert different > 50
    assert len(set(by_key.values())) == len(by_key)


def test_the_hash_of_a_published_cell():
    """One cell of the published table: its own name and its parameter count."""
    text = "0100110001000000010010000010000001000000010000000/conv3x3-bn-relu,maxpool3x3,conv3x3-bn-relu,conv3x3-bn-relu,conv1x1-bn-relu"
    cell = Nb101Arch.from_text(text)
    assert official_hash(cell) == "00005c142e6f48ac74fdcf73e3439874"
    assert count(Nb101Blueprint(cell, Nb101Skeleton())).params == 8_555_530
    assert cell.text == text


def test_dead_parts_are_pruned():
    # Vertex 2 is never reached, vertex 3 is read by nobody; what is left is one convolution.
    cell = Nb101Arch.from_matrix(
        [[0, 1, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0], [0] * 5],
        ["input", CONV3, CONV1, POOL, "output"],
    )
    assert cell == Nb101Arch(((0, 1, 0), (0, 0, 1), (0, 0, 0)), (CONV3,))
    assert prune(cell) == cell
    with pytest.raises(SpaceError, match="no path leads"):
        Nb101Arch.from_matrix([[0, 1, 0], [0, 0, 0], [0, 0, 0]], [CONV3])


def test_channels_are_shared_out_evenly_and_grow_backwards():
    # 1, 2, 3 are joined by the output; 4 channels left over go to the first ones.
    matrix = ((0, 1, 1, 1, 0), (0, 0, 0, 0, 1), (0, 0, 0, 0, 1), (0, 0, 0, 0, 1), (0,) * 5)
    assert vertex_channels(16, 32, matrix) == [16, 11, 11, 10, 32]
    # 1 is read by 2 only, so it is as wide as 2.
    chain = ((0, 1, 0, 1), (0, 0, 1, 0), (0, 0, 0, 1), (0,) * 4)
    assert vertex_channels(16, 32, chain) == [16, 32, 32, 32]


@pytest.mark.parametrize(
    ("matrix", "ops", "said"),
    [
        ([[0, 1], [1, 0]], [], "upper triangular"),
        ([[0, 1, 0], [0, 0, 1]], [CONV3], "square"),
        ([[0, 2], [0, 0]], [], "only 0 and 1"),
        ([[0, 1, 0], [0, 0, 1], [0, 0, 0]], [], "0 operations for 1 inner"),
        ([[0, 1, 0], [0, 0, 1], [0, 0, 0]], ["conv5x5-bn-relu"], "did you mean 'conv3x3-bn-relu'"),
        ([["a"]], [], "not a matrix"),
        ([[0] * 8] * 8, [CONV3] * 6, "8 vertices, more than 7"),
    ],
)
def test_faults_are_named(matrix, ops, said):
    with pytest.raises(SpaceError, match=said):
        Nb101Arch.from_matrix(matrix, ops)


def test_other_faults_are_named():
    space = Nb101Space()
    for text in ("", "0100", "010/x", "0123/"):
        with pytest.raises(SpaceError, match="is not a NAS-Bench-101 cell"):
            Nb101Arch.from_text(text)
    for data in ({}, {"matrix": 3, "ops": []}, {"space": "darts", "matrix": [[0, 1], [0, 0]], "ops": []}):
        with pytest.raises(SpaceError, match="does not describe"):
            space.from_dict(data)
    full = Nb101Arch(tuple(tuple(int(i < j) for j in range(5)) for i in range(5)), (CONV3,) * 3)
    with pytest.raises(SpaceError, match="10 edges, more than 9"):
        space.validate(full)
    dead = Nb101Arch(((0, 0, 1), (0, 0, 0), (0, 0, 0)), (CONV3,))
    with pytest.raises(SpaceError, match=r"vertices \[1\] lie on no path"):
        space.validate(dead)
    published = {
        "module_adjacency": [[0, 1, 0], [0, 0, 1], [0, 0, 0]],
        "module_operations": ["input", POOL, "output"],
    }
    assert space.from_dict(published).ops == (POOL,)
    with pytest.raises(ConfigError, match="channels is 4, less than 5"):
        Nb101Skeleton(channels=4)
    with pytest.raises(ConfigError, match="halved 2 times"):
        Nb101Skeleton(image=30)


@pytest.mark.parametrize(
    ("number", "writings", "published", "live"),
    [(1, 14_580, 6_240, 3_702), (2, 29_160, 16_632, 12_474), (3, 1_312_200, 363_648, 135_900)],
)
def test_one_shot_spaces_by_every_way_of_counting(number, writings, published, live):
    """`read_by_any` agrees with the published 6,240 and 363,648; for space 2 only `writings` does, 29,160."""
    space = OneShotSpace(number)
    assert space.counts() == {"writings": writings, "read_by_any": published, "live": live}
    assert space.size() == writings


def test_one_shot_writings_one_by_one():
    space = OneShotSpace(1)
    every = {
        OneShotArch(((0,), (0, 1), third, fourth, out), ops)
        for third in ((0, 1), (0, 2), (1, 2))
        for fourth in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
        for out in ((a, b) for a in range(5) for b in range(a + 1, 5))
        for ops in product(OPS, repeat=4)
    }
    assert len(every) == space.size()
    rng = np.random.default_rng(0)
    assert all(space.sample(rng) in every for _ in range(100))


def test_loose_ends_are_dropped():
    space = OneShotSpace(1)
    # The output reads 1 and 2, so 3 and 4 are loose.
    arch = OneShotArch(((0,), (0, 1), (0, 2), (1, 3), (1, 2)), (CONV3, POOL, CONV1, CONV1))
    space.validate(arch)
    assert arch.cell() == Nb101Arch(((0, 1, 1, 0), (0, 0, 1, 1), (0, 0, 0, 1), (0,) * 4), (CONV3, POOL))
    loose = OneShotArch(arch.parents, (CONV3, POOL, POOL, CONV3))
    assert space.key(loose) == space.key(arch)
    with pytest.raises(SpaceError, match=r"node 3 has parents \[2\] where 2 different"):
        space.validate(OneShotArch(((0,), (0, 1), (2,), (1, 3), (1, 2)), arch.ops))
    with pytest.raises(SpaceError, match="does not describe a cell of nasbench1shot1-1"):
        space.from_dict({"space": "nasbench1shot1-2", "parents": [], "ops": []})
    with pytest.raises(SpaceError, match="no NAS-Bench-1Shot1 space 4"):
        OneShotSpace(4)
