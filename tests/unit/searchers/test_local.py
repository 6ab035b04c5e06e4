"""Local search: where it looks, when it moves, when it starts anew."""

from itertools import pairwise

import numpy as np

from recnas.searchers.limits import Gate
from recnas.searchers.local import LocalSearch
from recnas.searchers.objective import Objectives, dominates
from recnas.searchers.settings import LimitSettings, LocalSettings
from recnas.space.registry import get_space

LOSS = Objectives.of({"loss": "min"})
BOTH = Objectives.of({"loss": "min", "rows": "max"})


def values(arch, objectives=LOSS):
    wide = sum(abs(np.log2(block.dense_dim) - 6) for block in arch.blocks)
    both = {"loss": float(wide), "rows": float(sum(block.sparse_dim for block in arch.blocks))}
    return {name: both[name] for name in objectives.names}


def climb(settings, seed=0, objectives=LOSS, blocks=2, gate=None):
    """The batches of a whole search, and the searcher."""
    searcher, batches = (
        LocalSearch(get_space("nasrec-small", blocks=blocks), objectives, seed, settings, gate),
        [],
    )
    while batch := searcher.ask_batch():
        batches.append(batch)
        for proposal in batch:
            searcher.tell(proposal, None if proposal.known else values(proposal.arch, objectives))
    return batches, searcher


def check_moves(batches, searcher, settings):
    """Retell every move: the place is the best of the starts, then the best better member of a block."""
    place, restarts = None, 0
    for batch in batches:
        if batch[0].origin == "random":
            restarts += 1
            assert len(batch) <= settings.starts
            place = batch[searcher.objectives.order([searcher.history[p.index].costs for p in batch])[0]].index
            continue
        assert len(batch) <= settings.block
        assert {p.parents for p in batch} == {(place,)}
        around = {searcher.space.key(arch) for arch in searcher.space.neighbours(searcher.history[place].proposal.arch)}
        assert {p.key for p in batch} <= around
        assert not any(p.known for p in batch)
        better = [p.index for p in batch if dominates(searcher.history[p.index].costs, searcher.history[place].costs)]
        if better:
            place = better[searcher.objectives.order([searcher.history[i].costs for i in better])[0]]
    return restarts


def test_every_move_with_one_objective():
    settings = LocalSettings(candidates=400, starts=4, block=16)
    batches, searcher = climb(settings)
    restarts = check_moves(batches, searcher, settings)
    assert 1 < restarts < 20
    assert batches[-1][0].facts["climb"] == restarts - 1
    assert searcher.best(1)[0].costs[0] == 0  # nothing but the widths counts, so a climb reaches the top


def test_every_move_with_two_objectives():
    settings = LocalSettings(candidates=300, starts=2, block=7)
    batches, searcher = climb(settings, seed=1, objectives=BOTH)
    assert check_moves(batches, searcher, settings) > 1


def test_a_climb_ends_only_when_all_neighbours_were_looked_at():
    batches, searcher = climb(LocalSettings(candidates=300, starts=1, block=1000), seed=2)
    for before, after in pairwise(batches):
        if after[0].origin == "random" and before[0].origin == "neighbour":
            (place,) = before[0].parents
            here = searcher.history[place]
            seen = {told.proposal.key for told in searcher.history[: after[0].index]}
            around = {searcher.space.key(arch) for arch in searcher.space.neighbours(here.proposal.arch)}
            assert around <= seen
            return
    raise AssertionError("no climb came to an end")


def test_neighbours_outside_the_limits_are_passed_over():
    space = get_space("nasrec-small", blocks=2)

    def cost(arch):
        return {"params": sum(block.sparse_dim for block in arch.blocks)}

    gate = Gate(space, LimitSettings(params=64), cost)
    _, searcher = climb(LocalSettings(candidates=120, starts=2, block=8), gate=gate)
    assert all(cost(told.proposal.arch)["params"] <= 64 for told in searcher.history)
    assert gate.counts.tallies["params"].rejected > 0
