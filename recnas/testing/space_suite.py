"""Tests every search space should pass; inherit them in your own test file.

    class TestMySpace(SpaceConformance):
        def space(self):
            return MySpace()

pytest then collects one test per promise of `recnas.space.base.Space`. The space and its architectures must
be picklable, because engines send them to worker processes. If your space has a cost function, return its
figures from `cost_of` and they are checked as well.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from recnas.space.base import Space

_KEYS_ELSEWHERE = (
    "import pickle, sys; space, archs = pickle.load(sys.stdin.buffer); print(*map(space.key, archs), sep='\\n')"
)


class SpaceConformance:
    """Override `space`; override the rest only where the defaults do not suit."""

    samples = 200  # architectures per property
    neighbours_per_arch = 2000  # checked at most, in case a space has very many
    seed = 20240
    _drawn: ClassVar[list[Any]]

    def space(self) -> Space[Any]:
        raise NotImplementedError("return the space under test from `space()`")

    def cost_of(self, arch: Any) -> Sequence[float]:
        """The cost figures of `arch`, all of which must be finite and not negative; none by default."""
        return ()

    def draw(self) -> list[Any]:
        """The architectures the tests look at, drawn anew."""
        rng = np.random.default_rng(self.seed)
        space = self.space()
        return [space.sample(rng) for _ in range(self.samples)]

    def drawn(self) -> list[Any]:
        """The same, drawn once per test class: they are values, so tests cannot spoil them."""
        if "_drawn" not in vars(type(self)):
            type(self)._drawn = self.draw()
        return list(type(self)._drawn)

    def test_has_a_name(self) -> None:
        name = self.space().name
        assert isinstance(name, str)
        assert name, "a space needs a name: files and error messages use it"

    def test_samples_are_valid(self) -> None:
        space = self.space()
        for arch in self.drawn():
            space.validate(arch)

    def test_sampling_depends_on_the_generator_only(self) -> None:
        assert self.draw() == self.draw(), "sample must draw from `rng` and from nothing else"

    def test_samples_vary(self) -> None:
        keys = {self.space().key(arch) for arch in self.drawn()}
        assert len(keys) > 1, f"{self.samples} samples gave one and the same network"

    def test_size_is_an_exact_integer_not_below_what_was_drawn(self) -> None:
        size = self.space().size()
        assert isinstance(size, int), "size must be an exact int; floats lose digits"
        assert size >= len(set(self.drawn())), "more architectures were drawn than the space says it has"

    def test_architectures_are_hashable_values(self) -> None:
        for arch in self.drawn():
            twin = copy.deepcopy(arch)
            assert twin == arch, f"a copy of {arch} is not equal to it"
            assert hash(twin) == hash(arch), f"equal architectures hash differently: {arch}"

    def test_architectures_and_space_survive_pickling(self) -> None:
        space, archs = pickle.loads(pickle.dumps((self.space(), self.drawn())))
        assert archs == self.drawn()
        assert [space.key(arch) for arch in archs] == [self.space().key(arch) for arch in self.drawn()]

    def test_mutation_changes_the_network_and_stays_valid(self) -> None:
        space, rng = self.space(), np.random.default_rng(self.seed + 1)
        for arch in self.drawn():
            child = space.mutate(arch, rng)
            space.validate(child)
            assert space.key(child) != space.key(arch), f"mutation left the network unchanged: {arch}"

    def test_mutation_depends_on_the_generator_only_and_spares_the_parent(self) -> None:
        space = self.space()
        for number, arch in enumerate(self.drawn()):
            before = copy.deepcopy(arch)
            children = [space.mutate(arch, np.random.default_rng(number)) for _ in range(2)]
            assert children[0] == children[1], f"one seed gave two children of {arch}"
            assert arch == before, f"mutation changed its parent {before}"

    def test_long_mutation_chains_stay_valid(self) -> None:
        space, rng = self.space(), np.random.default_rng(self.seed + 2)
        arch = space.sample(rng)
        for _ in range(self.samples):
            arch = space.mutate(arch, rng)
            space.validate(arch)

    def test_neighbours_are_valid_and_distinct(self) -> None:
        space = self.space()
        for arch in self.drawn()[:5]:
            found = list(islice(space.neighbours(arch), self.neighbours_per_arch))
            keys = [space.key(other) for other in found]
            assert found, f"{arch} has no neighbour"
            assert len(set(keys)) == len(keys), f"two neighbours of {arch} are the same network"
            assert space.key(arch) not in keys, f"{arch} is listed as its own neighbour"
            for other in found:
                space.validate(other)

    def test_json_round_trip(self) -> None:
        space = self.space()
        for arch in self.drawn():
            back = space.from_dict(json.loads(json.dumps(space.to_dict(arch))))
            assert back == arch, f"JSON gave back {back} for {arch}"
            assert space.key(back) == space.key(arch)

    def test_keys_are_short_text(self) -> None:
        for arch in self.drawn():
            key = self.space().key(arch)
            assert isinstance(key, str)
            assert 0 < len(key) <= 64, f"the key {key!r} is not short"
            assert key.isprintable(), f"the key {key!r} cannot be printed"
            assert " " not in key, f"the key {key!r} has a blank"

    def test_keys_are_the_same_in_other_processes(self) -> None:
        space, archs = self.space(), self.drawn()
        here = [space.key(arch) for arch in archs]
        hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
        done = subprocess.run(
            [sys.executable, "-c", _KEYS_ELSEWHERE],
            input=pickle.dumps((space, archs)),
            capture_output=True,
            env=dict(os.environ, PYTHONHASHSEED=hash_seed, PYTHONPATH=os.pathsep.join(sys.path)),
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.decode().split() == here, "keys must not depend on Python's string hashing"

    def test_cost_is_finite_and_not_negative(self) -> None:
        for arch in self.drawn():
            for figure in self.cost_of(arch):
                assert 0 <= figure < float("inf"), f"cost {figure} of {arch}"
