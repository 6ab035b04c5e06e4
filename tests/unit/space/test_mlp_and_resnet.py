"""The MLP space of Eigen-NAS and the ResNet-like space: promises, counts by hand, texts and their faults."""

from __future__ import annotations

import numpy as np
import pytest

from recnas.errors import ConfigError, SpaceError
from recnas.space.blueprint import Cost, count
from recnas.space.mlp import MlpArch, MlpSpace
from recnas.space.mlp.skeleton import MlpBlueprint, MlpSkeleton
from recnas.space.registry import get_space
from recnas.space.resnet import ResnetSpace
from recnas.space.resnet.arch import ResnetArch, Stage
from recnas.space.resnet.skeleton import ResnetBlueprint, ResnetSkeleton
from recnas.testing.space_suite import SpaceConformance

START = (
    "SuperConvK3BNRELU(3,8,1,1)SuperResK3K3(8,16,1,8,1)SuperResK3K3(16,32,2,16,1)"
    "SuperResK1K5K1(32,64,2,32,2)SuperResK3K3(64,64,2,32,1)SuperConvK1BNRELU(64,128,1,1)"
)
# Published with Zen-NAS as its network of one million parameters for CIFAR.
ZENNET_1M = (
    "SuperConvK3BNRELU(3,88,1,1)SuperResK1K7K1(88,120,1,16,1)SuperResK1K7K1(120,192,2,16,3)"
    "SuperResK1K5K1(192,224,1,24,4)SuperResK1K5K1(224,96,2,24,2)SuperResK1K3K1(96,168,2,40,3)"
    "SuperResK1K3K1(168,112,1,48,3)SuperConvK1BNRELU(112,512,1,1)"
)


class TestMlp(SpaceConformance):
    def space(self):
        return get_space("mlp", layers=5, width=8)

    def cost_of(self, arch):
        return (count(MlpBlueprint(arch, MlpSkeleton((4,)))).params,)


class TestResnet(SpaceConformance):
    samples = 50

    def space(self):
        return get_space("resnet-like")

    def cost_of(self, arch):
        cost = count(ResnetBlueprint(arch, ResnetSkeleton(image=8)))
        return cost.params, cost.macs


def test_mlp_sizes_by_hand():
    assert MlpSpace(10, 1024).size() == 5**9 * 2**8
    arch = MlpArch.from_text("relu-tanh+-swish", width=8)
    assert (arch.layers, arch.skips) == (4, (True, False))
    assert count(MlpBlueprint(arch, MlpSkeleton((3, 2, 2), classes=3))) == Cost(
        12 * 8 + 8 * 8 + 8 * 8 + 8 * 3, 12 * 8 + 8 * 8 + 8 * 8 + 8 * 3
    )
    assert arch.text == "relu-tanh+-swish"
    assert MlpSpace(4, 8).key(arch) == "mlp8-rTw"


def test_mlp_neighbours_are_all_single_changes():
    space = MlpSpace(4, 8)
    assert len(list(space.neighbours(MlpArch.from_text("relu-relu-relu", 8)))) == 3 * 4 + 2


def test_keys_of_very_deep_mlps_stay_short():
    space, rng = MlpSpace(100, 8), np.random.default_rng(0)
    keys = {space.key(space.sample(rng)) for _ in range(20)}
    assert len(keys) == 20
    assert max(map(len, keys)) <= 64


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("relu-gelu", "unknown activation 'gelu'"),
        ("relu+-relu", "first layer has no skip"),
        ("relu", "fewer than 2"),
        ("", "unknown activation ''"),
    ],
)
def test_mlp_faults_are_named(text, said):
    with pytest.raises(SpaceError, match=said):
        MlpArch.from_text(text, 8)


def test_other_mlp_faults_are_named():
    space = MlpSpace(4, 8)
    with pytest.raises(SpaceError, match="3 layers where the space has 4; width 9"):
        space.validate(MlpArch.from_text("relu-relu", 9))
    with pytest.raises(SpaceError, match="0 skips for 3 activations"):
        space.validate(MlpArch(("relu",) * 3, (), 8))
    for data in (
        {},
        {"arch": 3},
        {"space": "darts", "arch": "relu-relu"},
        {"arch": "relu-relu", "width": "8"},
    ):
        with pytest.raises(SpaceError, match="does not describe"):
            space.from_dict(data)
    with pytest.raises(ConfigError, match="nothing to choose"):
        MlpSpace(2)
    with pytest.raises(ConfigError, match="no parametrisation 'mup'"):
        MlpSkeleton(parametrisation="mup")
    with pytest.raises(ConfigError, match="slope"):
        MlpSkeleton(slope=1.5)


def test_resnet_text_round_trips():
    for text in (START, ZENNET_1M):
        assert ResnetArch.from_text(text).text == text
    arch = ResnetArch.from_text(START)
    ResnetSpace().validate(arch)
    assert arch.stages[2] == Stage("bottleneck", 5, 64, 32, 2, 2)
    assert arch.stages[2].blocks == 4
    assert ResnetArch.from_text(START.replace(")S", ")\n S")) == arch


def test_the_published_network_of_a_million_parameters():
    arch = ResnetArch.from_text(ZENNET_1M)
    assert count(ResnetBlueprint(arch, ResnetSkeleton(classes=10))).params == 993_762


def test_resnet_cost_by_hand():
    arch = ResnetArch(4, (Stage("residual", 3, 6, 5, 2, 1), Stage("bottleneck", 5, 8, 3, 1, 2)), 7)
    weights = 3 * 4 * 9  # stem
    weights += (4 * 5 + 5 * 6) * 9 + 4 * 6 + (6 * 5 + 5 * 6) * 9  # two blocks, the first with a projection
    weights += 6 * 3 + 3 * 3 * 25 + 3 * 8 + 6 * 8 + 8 * 3 + 3 * 3 * 25 + 3 * 8  # two bottlenecks
    weights += 8 * 7 + 7 * 2 + 2  # last, classifier
    norms = 4 + (5 + 6) + 6 + (5 + 6) + (3 + 3 + 8) + 8 + (3 + 3 + 8) + 7
    assert count(ResnetBlueprint(arch, ResnetSkeleton(classes=2, image=8))).params == weights + 2 * norms


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("SuperResK3K3(8,16", "SuperResK3K3(9,16", "stage 1 reads 9 channels where 8 come in"),
        ("SuperResK1K5K1", "SuperResK1K5K5", "stage 3, SuperResK1K5K5"),
        ("SuperResK1K5K1", "SuperResK2K2", "stage 3, SuperResK2K2"),
        ("SuperConvK3BNRELU(3,", "SuperConvK3BNRELU(1,", "the stem must be"),
        ("(64,128,1,1)", "(32,128,1,1)", "last convolution reads 32 channels where 64"),
        (",16,1,8,1)", ",16,1,0,1)", "must be 1 or more"),
        ("SuperResK3K3(8,16,1,8,1)", "garbage!", "stem, stages and a last"),
    ],
)
def test_resnet_faults_are_named(old, new, said):
    with pytest.raises(SpaceError, match=said):
        ResnetArch.from_text(START.replace(old, new, 1))


def test_resnet_values_outside_the_space_are_named():
    with pytest.raises(SpaceError, match=r"stages of stride \(1, 2, 1, 2, 2, 1\).*stem is 88"):
        ResnetSpace().validate(ResnetArch.from_text(ZENNET_1M))
    with pytest.raises(SpaceError, match="stage 1: depth is 9"):
        ResnetSpace().validate(ResnetArch.from_text(START.replace("16,1,8,1)", "16,1,8,9)", 1)))
    with pytest.raises(SpaceError, match="does not describe"):
        ResnetSpace().from_dict({"space": "resnet-like"})


def test_budgets():
    space, rng, body = ResnetSpace(), np.random.default_rng(0), ResnetSkeleton()
    for _ in range(3):
        arch = space.sample_within(rng, body, params=1_000_000)
        assert count(ResnetBlueprint(arch, body)).params <= 1_000_000
    with pytest.raises(SpaceError, match=r"none of 20 draws.*\n.*the smallest had [\d,]+ parameters"):
        space.sample_within(rng, body, params=10, tries=20)
