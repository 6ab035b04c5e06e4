"""Networks made from blueprints against literal ones of torch modules; counting against both; training form."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recnas.errors import ConfigError
from recnas.model.blueprint import Network, Trainable
from recnas.model.observe import ConvUse, Observed, listen
from recnas.model.vision import build_scored
from recnas.proxies.engine import score
from recnas.proxies.network import ScoringBatch
from recnas.proxies.registry import get_proxies
from recnas.space.blueprint import Blueprint, count
from recnas.space.darts import DARTS_V2, DartsSpace
from recnas.space.darts.arch import DartsArch
from recnas.space.darts.skeleton import DartsBlueprint, DartsSkeleton
from recnas.space.mlp import MlpArch, MlpSpace
from recnas.space.mlp.skeleton import MlpBlueprint, MlpSkeleton
from recnas.space.nasbench101 import Nb101Space
from recnas.space.nasbench101.arch import Nb101Arch
from recnas.space.nasbench101.skeleton import Nb101Blueprint, Nb101Skeleton
from recnas.space.networks import cost, vision_spaces
from recnas.space.registry import get_space
from recnas.space.resnet import ResnetSpace
from recnas.space.resnet.arch import ResnetArch, Stage
from recnas.space.resnet.skeleton import ResnetBlueprint, ResnetSkeleton
from recnas.testing.proxy_suite import ScoredNetworkConformance
from tests.unit.model.literal_vision import LiteralDarts, LiteralNb101, LiteralResnet

DARTS_BODIES = {
    "cifar": DartsSkeleton(channels=4, cells=3, classes=3, image=8),
    "search": DartsSkeleton(channels=4, cells=3, classes=3, image=8, affine=False, pool_norm=True),
    "imagenet": DartsSkeleton(channels=4, cells=3, classes=3, image=32, stem="imagenet"),
}
MIXED = DartsArch(
    (
        (("sep_conv_3x3", 0), ("dil_conv_5x5", 1)),
        (("skip_connect", 0), ("avg_pool_3x3", 2)),
        (("sep_conv_5x5", 1), ("dil_conv_3x3", 3)),
        (("max_pool_3x3", 2), ("skip_connect", 4)),
    ),
    (
        (("skip_connect", 0), ("sep_conv_5x5", 1)),
        (("max_pool_3x3", 0), ("avg_pool_3x3", 1)),
        (("dil_conv_3x3", 1), ("sep_conv_3x3", 2)),
        (("dil_conv_5x5", 0), ("avg_pool_3x3", 4)),
    ),
)
RESNET = ResnetArch(4, (Stage("residual", 3, 6, 5, 2, 1), Stage("bottleneck", 5, 8, 3, 1, 2)), 7)


def images(side: int, batch: int = 5, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(batch, 3, side, side, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def check_equal(network: Network, literal: nn.Module, x: Tensor) -> None:
    """Same logits, same gradient of the first weight; nothing missing and nothing extra."""
    network, literal = network.double(), literal.double()
    literal.load_state_dict(network.state_dict(), strict=True)
    ours, theirs = network(network.params, (x,)), literal(x)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)
    names = [next(iter(network.params)), "head.linear.weight"]
    mine = torch.autograd.grad(ours.square().sum(), [network.params[name] for name in names])
    other = torch.autograd.grad(theirs.square().sum(), [dict(literal.named_parameters())[name] for name in names])
    for a, b in zip(mine, other):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)


def check_cost(blueprint: Blueprint, x: Tensor) -> None:
    """Arithmetic against the parameters that were built and the layers that ran."""
    network, found = Network(blueprint), count(blueprint)
    assert sum(leaf.numel() for leaf in network.params.values()) == found.params
    observed = Observed()
    with torch.no_grad(), listen(observed):
        network(network.params, (x[:2].float(),))
    macs = 0
    for use in observed.layers:
        places = use.output[0, 0].numel() if isinstance(use, ConvUse) else 1
        macs += places * (use.weight.numel() + (0 if use.bias is None else use.bias.numel()))
    assert macs == found.macs


@pytest.mark.parametrize("body", DARTS_BODIES.values(), ids=DARTS_BODIES)
@pytest.mark.parametrize("arch", [MIXED, DartsArch.from_text(DARTS_V2), DartsSpace().sample(np.random.default_rng(5))])
def test_darts_equals_the_literal_network(arch: DartsArch, body: DartsSkeleton) -> None:
    x = images(body.image)
    check_equal(Network(DartsBlueprint(arch, body), seed=1), LiteralDarts(arch, body), x)
    check_cost(DartsBlueprint(arch, body), x)


@pytest.mark.parametrize("seed", range(8))
def test_nasbench101_equals_the_literal_network(seed: int) -> None:
    cell, body = Nb101Space().sample(np.random.default_rng(seed)), Nb101Skeleton(7, 2, 2, 3, 8)
    x = images(8)
    literal = LiteralNb101(cell, body.channels, body.stacks, body.cells, body.classes)
    check_equal(Network(Nb101Blueprint(cell, body), seed=1), literal, x)
    check_cost(Nb101Blueprint(cell, body), x)


def test_nasbench101_input_to_output_alone() -> None:
    cell = Nb101Arch(((0, 1), (0, 0)), ())
    body = Nb101Skeleton(5, 1, 1, 3, 4)
    check_equal(Network(Nb101Blueprint(cell, body)), LiteralNb101(cell, 5, 1, 1, 3), images(4))


def test_resnet_equals_the_literal_network() -> None:
    blueprint = ResnetBlueprint(RESNET, ResnetSkeleton(classes=3, image=8))
    check_equal(Network(blueprint, seed=1), LiteralResnet(RESNET, 3), images(8))
    check_cost(blueprint, images(8))
    thin = ResnetBlueprint(ResnetSpace().sample(np.random.default_rng(0)), ResnetSkeleton(image=16, width=0.1))
    check_cost(thin, images(16))


def literal_mlp(weights: list[Tensor], arch: MlpArch, x: Tensor, scales: list[float]) -> Tensor:
    kinds = {
        "relu": torch.relu,
        "leaky_relu": lambda z: torch.where(z > 0, z, 0.01 * z),
        "sigmoid": lambda z: 1 / (1 + torch.exp(-z)) - 0.5,
        "tanh": torch.tanh,
        "swish": lambda z: z / (1 + torch.exp(-z)),
    }
    f = kinds[arch.activations[0]](scales[0] * x @ weights[0].T)
    for kind, skip, weight, scale in zip(arch.activations[1:], arch.skips, weights[1:-1], scales[1:-1]):
        f = kinds[kind](scale * f @ weight.T) + int(skip) * f
    return (scales[-1] * f @ weights[-1].T).squeeze(1)


@pytest.mark.parametrize("text", ["relu-tanh+-swish-leaky_relu+-sigmoid", "sigmoid-relu", "swish-swish+-tanh"])
@pytest.mark.parametrize("classes", [1, 3])
def test_mlp_is_the_paper_s_equation(text: str, classes: int) -> None:
    arch = MlpArch.from_text(text, 6)
    x = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ntk, standard = (
        Network(MlpBlueprint(arch, MlpSkeleton((4,), classes, kind)), seed=2).double() for kind in ("ntk", "standard")
    )
    scale = (2 / 6) ** 0.5
    scales = [1.0, *[scale] * (arch.layers - 1)]
    expected = literal_mlp(list(ntk.params.values()), arch, x, scales)
    torch.testing.assert_close(ntk(ntk.params, (x,)), expected)
    # The same function at the start; gradients differ by the scale that is or is not part of the weight.
    torch.testing.assert_close(standard(standard.params, (x,)), expected, rtol=1e-5, atol=1e-6)
    mine, other = (
        torch.autograd.grad(net(net.params, (x,)).square().sum(), list(net.params.values())) for net in (ntk, standard)
    )
    for a, b, factor in zip(mine, other, scales):
        torch.testing.assert_close(a, b * factor, rtol=1e-5, atol=1e-6)
    check_cost(MlpBlueprint(arch, MlpSkeleton((4,), classes)), x)


def test_mlp_gradients_converge_in_ntk_parametrisation() -> None:
    """By hand: with ReLUs and gain 2 every layer adds |x|^2 = 1 to the kernel's diagonal, three in all."""
    arch = MlpArch(("relu", "relu"), (False,), 4096)
    x = torch.randn(1, 8, generator=torch.Generator().manual_seed(0))
    x = x / x.norm()
    network = Network(MlpBlueprint(arch, MlpSkeleton((8,), 1, "ntk")), seed=0)
    gradients = torch.autograd.grad(network(network.params, (x,)).sum(), list(network.params.values()))
    assert sum(float(g.square().sum()) for g in gradients) == pytest.approx(3.0, rel=0.1)


class TestDartsNetwork(ScoredNetworkConformance):
    def case(self):
        network = Network(DartsBlueprint(MIXED, DARTS_BODIES["cifar"]), seed=0).double()
        return network, ScoringBatch((images(8),), torch.arange(5) % 3)


class TestNb101Network(ScoredNetworkConformance):
    def case(self):
        cell = Nb101Space().sample(np.random.default_rng(3))
        return Network(Nb101Blueprint(cell, Nb101Skeleton(6, 2, 1, 3, 4))).double(), ScoringBatch(
            (images(4),), torch.arange(5) % 3
        )


class TestResnetNetwork(ScoredNetworkConformance):
    def case(self):
        network = Network(ResnetBlueprint(RESNET, ResnetSkeleton(classes=3, image=8))).double()
        return network, ScoringBatch((images(8),), torch.arange(5) % 3)


class TestMlpNetwork(ScoredNetworkConformance):
    def case(self):
        arch = MlpSpace(5, 16).sample(np.random.default_rng(0))
        network = Network(MlpBlueprint(arch, MlpSkeleton((3, 4, 4), 3, "ntk"))).double()
        return network, ScoringBatch((images(4),), torch.arange(5) % 3)


SMALL_SIZES: dict[str, dict] = {
    "nasbench201": {"channels": 4, "cells": 1},
    "darts": {"channels": 4, "cells": 3},
    "resnet-like": {"width": 0.05},
    "mlp": {"parametrisation": "ntk"},
}


def small(space: str) -> dict:
    return SMALL_SIZES.get(space, {"channels": 6, "cells": 1})


def draw(space: str, seed: int = 0):
    options = {"layers": 4, "width": 8} if space == "mlp" else {}
    return get_space(space, **options).sample(np.random.default_rng(seed))


@pytest.mark.parametrize("space", vision_spaces())
def test_any_vision_architecture_can_be_counted_and_scored(space: str) -> None:
    arch = draw(space)
    network = build_scored(space, arch, classes=3, image=16, seed=4, **small(space))
    assert sum(leaf.numel() for leaf in network.params.values()) == cost(space, arch, 3, 16, **small(space)).params
    batches = [ScoringBatch((images(16, 6, seed, torch.float32),), torch.arange(6) % 3) for seed in range(2)]
    scores = score(network, batches, get_proxies(("sigeo", "zico", "snip", "params")))
    assert all(np.isfinite(one.value) for one in scores.values())
    again = build_scored(space, arch, classes=3, image=16, seed=4, **small(space))
    assert all(torch.equal(leaf, again.params[name]) for name, leaf in network.params.items())


@pytest.mark.parametrize("space", ["darts", "nasbench101", "nasbench1shot1-1"])
def test_equal_keys_are_the_same_network(space: str) -> None:
    """Isomorphic writings give the same logits, bit for bit."""
    from tests.unit.space.test_darts import shuffled
    from tests.unit.space.test_nasbench101 import renamed

    rng, x = np.random.default_rng(0), images(8, dtype=torch.float32)
    for seed in range(4):
        arch = draw(space, seed)
        if space == "darts":
            other = DartsArch(shuffled(arch.normal, rng), shuffled(arch.reduce, rng))
        elif space == "nasbench101":
            other = renamed(arch, rng)
        else:
            live = {vertex for parents in arch.parents for vertex in parents}
            loose = [v for v in range(1, len(arch.parents)) if v not in live]
            ops = tuple("maxpool3x3" if v in loose else op for v, op in enumerate(arch.ops, start=1))
            other = type(arch)(arch.parents, ops)
        one, two = (build_scored(space, a, 3, 8, seed=1, **small(space)) for a in (arch, other))
        assert torch.equal(one(one.params, (x,)), two(two.params, (x,)))


def test_names_and_settings_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"no vision space 'dart'.*\n.*did you mean 'darts'"):
        build_scored("dart", MIXED)
    with pytest.raises(ConfigError, match=r"resnet-like have no setting channels\.\n.*They have: width"):
        build_scored("resnet-like", RESNET, channels=8)
    with pytest.raises(ConfigError, match="nasbench201 have no setting stacks"):
        build_scored("nasbench201", draw("nasbench201"), stacks=8)


def test_training_form_is_the_same_network_and_learns() -> None:
    body = DartsSkeleton(channels=4, cells=3, classes=2, image=8)
    model = Trainable(DartsBlueprint(MIXED, body), seed=3)
    scored = Network(DartsBlueprint(MIXED, body), seed=3)
    x = images(8, 16, dtype=torch.float32)
    torch.testing.assert_close(model(x), scored(scored.params, (x,)), rtol=0, atol=0)
    labels = (x.mean((1, 2, 3)) > 0).long()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    losses = []
    for _ in range(12):
        loss = nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
    now = model.scored()
    torch.testing.assert_close(now(now.params, (x,)), model(x), rtol=0, atol=0)


def test_running_statistics_follow_torch_s() -> None:
    """In training mode they move as BatchNorm2d's do; in evaluation mode examples no longer see each other."""
    model = Trainable(ResnetBlueprint(RESNET, ResnetSkeleton(classes=3, image=8)))
    twin = nn.BatchNorm2d(4)
    x = images(8, dtype=torch.float32)
    twin(nn.functional.conv2d(x, model.stem.conv.weight, padding=1))
    model(x)
    torch.testing.assert_close(model.stem.norm.running_mean, twin.running_mean)
    torch.testing.assert_close(model.stem.norm.running_var, twin.running_var)
    model.eval()
    torch.testing.assert_close(model(x)[:2], model(x[:2]))
    state = model.state_dict()
    other = Trainable(ResnetBlueprint(RESNET, ResnetSkeleton(classes=3, image=8)), seed=9).eval()
    other.load_state_dict(state)
    torch.testing.assert_close(other(x), model(x), rtol=0, atol=0)


def test_drop_path_leaves_out_whole_branches_in_training_only() -> None:
    body = DartsSkeleton(channels=4, cells=3, classes=2, image=8)
    x = images(8, dtype=torch.float32)
    one, two = (
        Trainable(DartsBlueprint(MIXED, body), 0, 0.5, generator=torch.Generator().manual_seed(s)) for s in (1, 1)
    )
    plain = Trainable(DartsBlueprint(MIXED, body), 0)
    assert torch.equal(one(x), two(x)), "the same generator drops the same branches"
    assert not torch.equal(one(x), plain(x))
    fresh = [Trainable(DartsBlueprint(MIXED, body), 0, chance).eval() for chance in (0.0, 0.5)]
    assert torch.equal(fresh[0](x), fresh[1](x))


def test_the_auxiliary_head_reads_in_training_only() -> None:
    body = DartsSkeleton(channels=4, cells=3, classes=3, image=32)
    model = Trainable(DartsBlueprint(MIXED, body), auxiliary=True)
    found = count(DartsBlueprint(MIXED, body), auxiliary=True)
    assert sum(p.numel() for p in model.parameters()) == found.params
    x = images(32, 4, dtype=torch.float32)
    logits, extra = model(x)
    assert logits.shape == extra.shape == (4, 3)
    (extra.sum() + logits.sum()).backward()
    assert all(p.grad is not None for p in model.parameters())
    assert model.eval()(x).shape == (4, 3)
    assert not [name for name in model.scored().params if name.startswith("auxiliary")]
    large = DartsSkeleton(channels=4, cells=3, classes=3, image=224, stem="imagenet")
    head = [p.name for p in walk_names(DartsBlueprint(MIXED, large)) if p.name.startswith("auxiliary")]
    assert "auxiliary.norm_a.weight" in head
    assert "auxiliary.norm_b.weight" not in head


def walk_names(blueprint: Blueprint):
    from recnas.space.blueprint import walk

    return walk(blueprint, auxiliary=True).parameters


def test_too_small_images_are_refused() -> None:
    with pytest.raises(ConfigError, match="multiple of 4"):
        count(Nb101Blueprint(Nb101Space().sample(np.random.default_rng(0)), Nb101Skeleton(8, 3, 1, 10, 2)))
