"""Which parts matter, against a twin that runs the network forward and looks.

The twin computes every stream as a digest of what goes into it, so the logit changes exactly when something
it depends on changes. A part is live if spoiling its value changes the logit.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.arch import LiveBlock
from recnas.space.nasrec.liveness import live_parts, read_streams

PARTS = ("dense", "sparse", "fm", "merge")


def logit(arch, spoilt=None):
    """Forward pass over digests; `spoilt` is (block, part) whose value is disturbed."""

    def value(b, part, *inputs):
        return hash((b, part, (b, part) == spoilt, inputs))

    dense, sparse = [1], [2]
    for b, block in enumerate(arch.blocks, start=1):
        dense_in = tuple(dense[j] for j in block.dense_in)
        sparse_in = tuple(sparse[j] for j in block.sparse_in)
        sides = (tuple(dense[j] for j in block.left), tuple(dense[j] for j in block.right))
        given_to = {"fc": dense_in, "dot": (dense_in, sparse_in), "gate": sides, "sum": sides}
        core = value(b, "dense", block.dense_dim, *((op, given_to[op]) for op in block.dense_ops))
        rows = value(b, "sparse", block.sparse_dim, *((op, sparse_in) for op in block.sparse_ops))
        dense.append(hash((core, value(b, "fm", rows))) if block.fm else core)
        sparse.append(hash((rows, value(b, "merge", core))) if block.merge else rows)
    return hash((dense[-1], sparse[-1]))


def live_by_looking(arch):
    untouched = logit(arch)
    found = []
    for b in range(1, len(arch.blocks) + 1):
        found.append(LiveBlock(*(logit(arch, spoilt=(b, part)) != untouched for part in PARTS)))
    return tuple(found)


@pytest.mark.parametrize("name", ["nasrec-small", "nasrec-full"])
@pytest.mark.parametrize("strategy", ["any-connection", "single-path", "any-path"])
def test_live_parts_against_looking(name, strategy):
    rng = np.random.default_rng(11)
    space = NasrecSpace(name)
    for _ in range(200):
        arch = space.sample_path(rng, strategy)
        assert live_parts(arch) == live_by_looking(arch), arch


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), blocks=st.integers(1, 10), name=st.sampled_from(["small", "full"]))
def test_live_parts_at_any_depth(seed, blocks, name):
    space = NasrecSpace(f"nasrec-{name}", blocks)
    arch = space.sample(np.random.default_rng(seed))
    live = live_parts(arch)
    assert live == live_by_looking(arch)
    assert live[-1].dense
    assert live[-1].sparse
    for block, parts, read in zip(arch.blocks, live, read_streams(arch)):
        assert parts.dense == (read.dense or parts.merge)
        assert parts.sparse == (read.sparse or parts.fm)
        assert parts.merge == (block.merge and read.sparse)
        assert parts.fm == (block.fm and read.dense)


def test_the_full_path_is_all_alive():
    for name in ("nasrec-small", "nasrec-full"):
        assert all(all(parts) for parts in live_parts(NasrecSpace(name).full_path()))
