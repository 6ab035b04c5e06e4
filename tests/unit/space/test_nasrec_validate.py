"""Every rule of the space has a message that names the block and the field."""

from dataclasses import replace

import numpy as np
import pytest

from recnas.errors import SpaceError
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.arch import Block, NasrecArch

SPACE = NasrecSpace("nasrec-small", blocks=3)
PLAIN = Block(("fc",), ("efc",), 16, 16, False, False, (0,), (0,), (0,), (0,))
GOOD = NasrecArch("nasrec-small", (PLAIN, PLAIN, PLAIN))


def broken(b, **changes):
    blocks = list(GOOD.blocks)
    blocks[b - 1] = replace(blocks[b - 1], **changes)
    return NasrecArch(GOOD.space, tuple(blocks))


def test_the_plain_architecture_is_fine():
    SPACE.validate(GOOD)


@pytest.mark.parametrize(
    ("b", "changes", "message"),
    [
        (3, {"dense_in": (5,)}, r"block 3: dense_in reads input 5, .* earlier ones \(0..2\)"),
        (1, {"sparse_in": (1,)}, r"block 1: sparse_in reads input 1, .* \(0..0\)"),
        (2, {"left": (-1,)}, "block 2: left reads input -1"),
        (2, {"right": ()}, "block 2: right is empty"),
        (3, {"dense_in": (1, 0)}, "block 3: dense_in is .* increasing order"),
        (3, {"sparse_in": (1, 1)}, "block 3: sparse_in is .* each input once"),
        (3, {"dense_in": [0]}, "block 3: dense_in is .* not a tuple"),
        (3, {"dense_in": (True,)}, "block 3: dense_in is .* not a tuple of input numbers"),
        (1, {"dense_ops": ("gate",)}, "block 1: dense_ops has gate, but this space offers fc, dot"),
        (1, {"sparse_ops": ("transformer",)}, "block 1: sparse_ops has transformer"),
        (1, {"dense_ops": ()}, "block 1: dense_ops is empty"),
        (1, {"dense_ops": ("dot", "fc")}, "block 1: dense_ops .* in the order fc, dot"),
        (1, {"dense_ops": "fc"}, "block 1: dense_ops is 'fc', which is not a tuple"),
        (2, {"dense_dim": 24}, "block 2: dense_dim is 24, which is not one of 16, 32"),
        (2, {"sparse_dim": 16.0}, "block 2: sparse_dim is 16.0"),
        (2, {"merge": 1}, "block 2: merge is 1, which is not true or false"),
    ],
)
def test_faults_of_any_path(b, changes, message):
    for sampled in (True, False):
        with pytest.raises(SpaceError, match=message):
            SPACE.validate(broken(b, **changes), sampled=sampled)


@pytest.mark.parametrize(
    ("b", "changes", "message"),
    [
        (
            3,
            {"dense_ops": ("fc", "dot")},
            "block 3: dense_ops has 2 operators where a search candidate has one",
        ),
        (3, {"left": (0, 2)}, "block 3: left reads 2 inputs where a search candidate reads at most 1"),
    ],
)
def test_faults_of_candidates_only(b, changes, message):
    SPACE.validate(broken(b, **changes), sampled=False)
    with pytest.raises(SpaceError, match=message):
        SPACE.validate(broken(b, **changes))


def test_the_cap_on_inputs():
    space = NasrecSpace("nasrec-small", blocks=3, max_inputs=2)
    with pytest.raises(SpaceError, match=r"block 3: dense_in reads 3 inputs .* at most 2"):
        space.validate(broken(3, dense_in=(0, 1, 2)))
    space.validate(broken(3, dense_in=(0, 1, 2)), sampled=False)


def test_all_faults_are_listed_at_once():
    arch = broken(2, dense_dim=5, left=(7,))
    with pytest.raises(SpaceError) as caught:
        SPACE.validate(replace(arch, space="elsewhere", blocks=arch.blocks[:2]))
    for part in (
        "drawn from 'elsewhere'",
        "2 blocks where the space has 3",
        "dense_dim is 5",
        "left reads input 7",
    ):
        assert part in caught.value.what
    assert caught.value.fix


def test_no_blocks():
    with pytest.raises(SpaceError, match="no blocks"):
        SPACE.validate(NasrecArch("nasrec-small", ()))


def test_moves_refuse_what_does_not_belong_here():
    rng = np.random.default_rng(0)
    with pytest.raises(SpaceError, match="block 1: dense_dim"):
        SPACE.mutate(broken(1, dense_dim=3), rng)
    with pytest.raises(SpaceError, match="block 1: dense_dim"):
        SPACE.neighbours(broken(1, dense_dim=3))
