"""Regularized evolution against a second, literal telling of it, and its schedule against the published one."""

import numpy as np
import pytest

from recnas.errors import ConfigError
from recnas.searchers.evolution import Evolution, mutations_at, survivors
from recnas.searchers.limits import Gate
from recnas.searchers.objective import Objectives, dominates
from recnas.searchers.random_search import RandomSearch
from recnas.searchers.registry import searcher_settings
from recnas.searchers.settings import EvolutionSettings, LimitSettings, RandomSettings
from recnas.seeds import stream
from recnas.space.nasrec import NasrecSpace
from recnas.space.registry import get_space

LOSS = Objectives.of({"loss": "min"})
BOTH = Objectives.of({"loss": "min", "size": "min"})


def loss(arch):
    """Wants widths near 256 that alternate between merge and no merge: many genes, no single peak to hit."""
    wanted = [abs(np.log2(block.dense_dim) - 8) + (block.merge != b % 2) for b, block in enumerate(arch.blocks)]
    return float(sum(wanted)) + 0.01 * sum(len(block.dense_in) for block in arch.blocks)


def size(arch):
    return float(sum(block.dense_dim for block in arch.blocks))


def run(searcher):
    while batch := searcher.ask_batch():
        for proposal in batch:
            both = {"loss": loss(proposal.arch), "size": size(proposal.arch)}
            known = {name: both[name] for name in searcher.objectives.names}
            searcher.tell(proposal, None if proposal.known else known)
    return searcher


def literal(space, seed, population, generations, children, tournament):
    """The published loop, one line per sentence; returns (arch, parent, mutations) per candidate."""
    rng = stream(seed, "searcher-evolution")
    told, keys = [], set()

    def fresh(arch, again):
        extra = 0
        while space.key(arch) in keys:
            arch, extra = again(arch), extra + 1
        keys.add(space.key(arch))
        return arch, extra

    for _ in range(population):
        arch, _ = fresh(space.sample(rng), lambda _: space.sample(rng))
        told.append((arch, None, 0))
    queue = list(range(population))
    for g in range(generations):
        seats = rng.choice(len(queue), size=tournament, replace=False)
        entrants = sorted(queue[seat] for seat in seats)
        parent = entrants[0]
        for entrant in entrants[1:]:
            if loss(told[entrant][0]) < loss(told[parent][0]):
                parent = entrant
        m = (generations - g) // max(20, generations // 5) + 1
        for _ in range(children):
            arch = told[parent][0]
            for _ in range(m):
                arch = space.mutate(arch, rng)
            arch, extra = fresh(arch, lambda seen: space.mutate(seen, rng))
            told.append((arch, parent, m + extra))
            queue.append(len(told) - 1)
        for _ in range(children):
            queue.pop(0)
    return told


@pytest.mark.parametrize("name", ["nasrec-small", "nasrec-full"])
@pytest.mark.parametrize(
    "shape",
    [
        {"population": 10, "generations": 45, "children": 4, "tournament": 5},
        {"population": 6, "generations": 12, "children": 6, "tournament": 6},
        {"population": 9, "generations": 30, "children": 1, "tournament": 2},
    ],
)
def test_against_a_literal_telling(name, shape):
    space = get_space(name, blocks=2)  # small enough that children do repeat
    searcher = run(Evolution(space, LOSS, 7, EvolutionSettings(**shape)))
    expected = literal(space, 7, **shape)
    found = [(p.arch, p.parents[0] if p.parents else None, p.changes) for p in (t.proposal for t in searcher.history)]
    assert found == expected


def test_the_schedule_falls_from_six_to_one_in_the_published_search():
    settings = EvolutionSettings()
    counts = [mutations_at(g, settings) for g in range(240)]
    assert counts == [6] + [5] * 48 + [4] * 48 + [3] * 48 + [2] * 48 + [1] * 47
    assert Evolution(get_space("nasrec-small"), LOSS, 0).total == 128 + 240 * 8 == 2048


def test_short_searches_step_every_twenty_generations():
    settings = EvolutionSettings(generations=50)
    assert [mutations_at(g, settings) for g in (0, 10, 11, 30, 31, 49)] == [3, 3, 2, 2, 1, 1]
    assert mutations_at(3, EvolutionSettings(mutations=4)) == 4


def test_a_generation_is_one_batch_of_one_parent():
    settings = EvolutionSettings(population=10, generations=5, children=4, tournament=5)
    searcher = Evolution(get_space("nasrec-small"), LOSS, 0, settings)
    sizes, parents = [], []
    while batch := searcher.ask_batch():
        sizes.append(len(batch))
        parents.append({p.parents for p in batch})
        assert {p.facts.get("generation") for p in batch} == {len(sizes) - 2 if len(sizes) > 1 else None}
        for proposal in batch:
            searcher.tell(proposal, {"loss": loss(proposal.arch)})
    assert sizes == [10, 4, 4, 4, 4, 4]
    assert all(len(group) == 1 for group in parents)


def test_old_age_removes_also_the_best():
    """One child a generation and everybody in the tournament: parents are at most a population old."""
    settings = EvolutionSettings(population=5, generations=40, children=1, tournament=5)
    searcher = run(Evolution(get_space("nasrec-small"), LOSS, 1, settings))
    for told in searcher.history[5:]:
        (parent,) = told.proposal.parents
        living = range(told.proposal.index - 5, told.proposal.index)
        assert parent in living
        assert searcher.history[parent].costs == min(searcher.history[i].costs for i in living)


def test_several_objectives_breed_from_the_front_and_keep_it():
    settings = EvolutionSettings(population=12, generations=25, children=4, tournament=12)
    searcher = run(Evolution(get_space("nasrec-small"), BOTH, 2, settings))
    living = list(range(12))
    for start in range(12, searcher.total, 4):
        costs = {i: searcher.history[i].costs for i in living}
        front = [i for i in living if not any(dominates(costs[j], costs[i]) for j in living)]
        parents = {searcher.history[i].proposal.parents[0] for i in range(start, start + 4)}
        assert parents <= set(front)
        assert len(parents) == min(4, len(front))
        living += range(start, start + 4)
        costs = {i: searcher.history[i].costs for i in living}
        front = [i for i in living if not any(dominates(costs[j], costs[i]) for j in living)]
        rest = [i for i in living if i not in front]
        leaving = (rest + front)[:4]
        living = [i for i in living if i not in leaving]


def test_who_leaves():
    living = [3, 4, 7, 9, 12]
    assert survivors(living, None, 2) == [7, 9, 12]
    # 3 and 9 make the front; of the others 4 and 7 are the oldest.
    costs = np.array([[0.0, 9], [5, 9], [8, 8], [1, 1], [4, 4]])
    assert survivors(living, costs, 2) == [3, 9, 12]
    assert survivors(living, costs, 4) == [9]
    # Nobody is dominated: age decides again.
    assert survivors(living, np.array([[i, -i] for i in range(5)]), 2) == [7, 9, 12]


def test_failed_candidates_are_never_parents_while_others_live():
    settings = EvolutionSettings(population=8, generations=10, children=2, tournament=8)
    searcher = Evolution(get_space("nasrec-small"), LOSS, 0, settings)
    while not searcher.done:
        proposal = searcher.ask()
        if proposal.index % 2:
            searcher.tell(proposal, failed="loss was NaN")
        else:
            searcher.tell(proposal, {"loss": 1.0})
    assert all(told.proposal.parents[0] % 2 == 0 for told in searcher.history[8:])


def test_a_parent_without_admissible_children_gives_its_place_to_a_random_draw():
    mutants = set()

    class Watched(NasrecSpace):
        def mutate(self, arch, rng):
            child = super().mutate(arch, rng)
            mutants.add(child)
            return child

    space = Watched("nasrec-small")
    gate = Gate(space, LimitSettings(params=1, tries=20), lambda arch: {"params": 2 if arch in mutants else 1})
    settings = EvolutionSettings(population=4, generations=2, children=3, tournament=2)
    searcher = run(Evolution(space, LOSS, 0, settings, gate))
    assert gate.counts.tallies["params"].rejected == 6 * 20
    assert [(t.proposal.origin, t.proposal.parents) for t in searcher.history[4:]] == [("random", ())] * 6


def test_evolution_beats_random_search_on_average():
    gains = []
    for seed in range(6):
        space = get_space("nasrec-full")
        shape = EvolutionSettings(population=24, generations=30, children=8, tournament=12)
        evolved = run(Evolution(space, LOSS, seed, shape))
        drawn = run(RandomSearch(space, LOSS, seed, RandomSettings(candidates=evolved.total)))
        gains.append(drawn.best(1)[0].costs[0] - evolved.best(1)[0].costs[0])
    assert sum(gain > 0 for gain in gains) >= 5  # a lucky draw may win once
    assert np.mean(gains) > 2


def test_settings_that_contradict_each_other_are_all_named():
    with pytest.raises(ConfigError) as caught:
        searcher_settings("evolution", {"population": 4, "children": 5, "tournamnt": 2, "mutations": 0})
    text = str(caught.value)
    assert "has 4 faults" in text
    assert "tournament: tournament cannot exceed population, which is 4 (got 64)" in text
    assert "children: children cannot exceed population, which is 4 (got 5)" in text
    assert "unknown key 'tournamnt'; did you mean 'tournament'?" in text
    assert "mutations: mutations must be 'falling' or a whole number from 1 up (got 0)" in text
