from __future__ import annotations

import numpy as np
import pytest

from recnas.space.nasrec import NasrecSpace
from recnas.train.paths import PathSampler


@pytest.fixture(params=["nasrec-small", "nasrec-full"])
def space(request) -> NasrecSpace:
    return NasrecSpace(request.param)


def test_the_path_of_a_step_depends_on_seed_and_step_only(space):
    first, again, other = (PathSampler(space, seed, 100) for seed in (1, 1, 2))
    paths = [first.path(step) for step in range(50)]
    assert [again.path(step) for step in reversed(range(50))] == paths[::-1]
    assert [other.path(step) for step in range(50)] != paths


def test_the_full_path_fades_out_over_the_steps_that_are_run(space):
    sampler = PathSampler(space, 0, total_steps=1000, full_path_share=0.2)
    assert sampler.path(0) == space.full_path()
    assert sampler.full_probability(100) == pytest.approx(0.5)
    full = space.full_path()
    share = np.mean(
        [
            sum(b.dense_ops == f.dense_ops for b, f in zip(sampler.path(s).blocks, full.blocks)) / 7
            for s in range(90, 110)
        ]
    )
    assert 0.3 < share < 0.7
    for step in (200, 500, 999):
        space.validate(sampler.path(step))  # a candidate as a search would draw it


def test_every_path_is_one_the_supernet_can_run(space):
    for strategy in ("any-connection", "single-path", "any-path", "full-path"):
        sampler = PathSampler(space, 3, 40, strategy, full_path_share=1.0)
        for step in range(40):
            space.validate(sampler.path(step), sampled=False)


def test_without_a_share_the_full_path_is_never_used(space):
    sampler = PathSampler(space, 0, 100, full_path_share=0.0)
    space.validate(sampler.path(0))
