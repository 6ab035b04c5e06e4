"""The NAS-Bench-201 network against a literal one made of torch modules, edge by edge."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recnas.model.blueprint import Network
from recnas.model.observe import ConvUse, LinearUse, Observed, listen, without_norms
from recnas.proxies.engine import score
from recnas.proxies.network import ScoringBatch
from recnas.proxies.sigeo import SiGeo, ZiCo
from recnas.space.nasbench201.arch import EDGES, Nb201Arch, live_edges
from recnas.space.nasbench201.key import key
from recnas.space.nasbench201.skeleton import Nb201Blueprint, Nb201Skeleton, count, parameters_of_edge


def nb201_network(arch: Nb201Arch, skeleton: Nb201Skeleton | None = None, seed: int = 0) -> Network:
    return Network(Nb201Blueprint.of(arch, skeleton), seed)


SMALL = Nb201Skeleton(channels=4, cells=2, classes=5, image=8)
ARCHS = ["333333", "341311", "222222", "132013", "334131", "433444", "301011", "330011", "230011", "111111"]
DEAD = ["000000", "430000", "003033", "000001"]


def cell(digits: str) -> Nb201Arch:
    return Nb201Arch.from_digits(digits)


class ReluConvNorm(nn.Module):
    def __init__(self, inputs: int, outputs: int, size: int, stride: int, bias: bool, affine: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=bias)
        self.norm = nn.BatchNorm2d(outputs, affine=affine, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(F.relu(x)))


class LiteralCell(nn.Module):
    """All six edges, dead or not."""

    def __init__(self, arch: Nb201Arch, width: int, body: Nb201Skeleton) -> None:
        super().__init__()
        make = {
            "none": lambda: None,
            "skip_connect": nn.Identity,
            "avg_pool_3x3": lambda: nn.AvgPool2d(3, 1, 1, count_include_pad=False),
            "nor_conv_1x1": lambda: ReluConvNorm(width, width, 1, 1, body.cell_bias, body.cell_affine),
            "nor_conv_3x3": lambda: ReluConvNorm(width, width, 3, 1, body.cell_bias, body.cell_affine),
        }
        self.edges = nn.ModuleList([make[op]() for op in arch.ops])

    def forward(self, x: Tensor) -> Tensor:
        nodes = [x, torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x)]
        for (start, end), op in zip(EDGES, self.edges):
            if op is not None:
                nodes[end] = nodes[end] + op(nodes[start])
        return nodes[3]


class LiteralReduction(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv_a = ReluConvNorm(inputs, outputs, 3, 2, False, True)
        self.conv_b = ReluConvNorm(outputs, outputs, 3, 1, False, True)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(F.avg_pool2d(x, 2, 2)) + self.conv_b(self.conv_a(x))


class Literal(nn.Module):
    def __init__(self, arch: Nb201Arch, body: Nb201Skeleton) -> None:
        super().__init__()
        self.arch = arch
        c = body.channels
        self.stem = nn.ModuleDict(
            {
                "conv": nn.Conv2d(3, c, 3, 1, 1, bias=False),
                "norm": nn.BatchNorm2d(c, track_running_stats=False),
            }
        )
        self.stages = nn.ModuleList(
            [nn.ModuleList([LiteralCell(arch, c << s, body) for _ in range(body.cells)]) for s in range(3)]
        )
        self.reductions = nn.ModuleList([LiteralReduction(c << s, c << (s + 1)) for s in range(2)])
        self.head = nn.ModuleDict(
            {
                "norm": nn.BatchNorm2d(4 * c, track_running_stats=False),
                "linear": nn.Linear(4 * c, body.classes),
            }
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem["norm"](self.stem["conv"](x))
        for stage, cells in enumerate(self.stages):
            x = self.reductions[stage - 1](x) if stage else x
            for one in cells:
                x = one(x)
        x = F.relu(self.head["norm"](x))
        return self.head["linear"](F.adaptive_avg_pool2d(x, 1).flatten(1))

    @torch.no_grad()
    def copy_from(self, network: Network) -> Literal:
        """Weights of live edges; dead ones keep their own, which must not matter."""
        theirs = dict(network.params)
        state = self.state_dict()
        for name in list(state):
            if ".edges." in name:
                _, stage, number, _, edge, *rest = name.split(".")
                place = parameters_of_edge(self.arch, int(stage), int(number), int(edge))
                if place is not None:
                    state[name].copy_(theirs.pop(".".join([place, *rest])))
            else:
                state[name].copy_(theirs.pop(name))
        assert not theirs, f"the literal network has no place for {sorted(theirs)}"
        return self


def images(batch: int = 6, body: Nb201Skeleton = SMALL, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(batch, 3, body.image, body.image, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("body", [SMALL, SMALL.trained()], ids=["scored", "trained"])
@pytest.mark.parametrize("digits", ARCHS + DEAD)
def test_equals_the_literal_network(digits: str, body: Nb201Skeleton) -> None:
    network = nb201_network(cell(digits), body, seed=3).double()
    literal = Literal(cell(digits), body).double().copy_from(network)
    x = images()
    ours, theirs = network(network.params, (x,)), literal(x)
    # A convolution of zeros is a constant, which its normalisation removes up to rounding.
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    if digits in ARCHS:
        (conv,) = torch.autograd.grad(ours.square().sum(), [network.params["stem.conv.weight"]])
        (same,) = torch.autograd.grad(theirs.square().sum(), [literal.stem["conv"].weight])
        torch.testing.assert_close(conv, same, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("digits", DEAD)
def test_a_cell_without_a_path_gives_constant_logits(digits: str) -> None:
    network = nb201_network(cell(digits), SMALL)
    logits = network(network.params, (images(dtype=torch.float32),))
    torch.testing.assert_close(logits, network.params["head.linear.bias"].expand(6, -1))
    batches = [ScoringBatch((images(seed=s, dtype=torch.float32),), torch.arange(6) % 5) for s in range(2)]
    assert all(s.value == s.value for s in score(network, batches, [SiGeo(), ZiCo()]).values())


@pytest.mark.parametrize("body", [SMALL, SMALL.trained(), Nb201Skeleton(classes=120, image=16)], ids=["a", "b", "c"])
@pytest.mark.parametrize("digits", ARCHS + DEAD)
def test_counted_parameters_are_the_built_ones(digits: str, body: Nb201Skeleton) -> None:
    network = nb201_network(cell(digits), body)
    cost = count(cell(digits), body)
    assert sum(p.numel() for p in network.parameters()) == cost.params
    observed = Observed()
    with torch.no_grad(), listen(observed):
        network(network.params, (images(1, body, dtype=torch.float32),))
    macs = 0
    for use in observed.layers:
        positions = use.output[0, 0].numel() if isinstance(use, ConvUse) else 1
        macs += positions * (use.weight.numel() + (0 if use.bias is None else use.bias.numel()))
    assert macs == cost.macs


@pytest.mark.parametrize("digits", [*ARCHS, "000000"])
def test_taps_report_every_layer_once(digits: str) -> None:
    network, observed = nb201_network(cell(digits), SMALL), Observed()
    x = images(dtype=torch.float32)
    with listen(observed):
        heard = network(network.params, (x,))
    torch.testing.assert_close(heard, network(network.params, (x,)), rtol=0, atol=0)
    edges = sum(live and "conv" in op for op, live in zip(cell(digits).ops, live_edges(cell(digits))))
    inside = edges * 3 * SMALL.cells
    assert Counter(map(type, observed.layers)) == {ConvUse: 1 + 6 + inside, LinearUse: 1}
    assert len(observed.before_relu) == 4 + 1 + inside
    assert len(observed.norms) == 1 + 4 + 1 + inside
    assert {norm.kept for norm in observed.norms} == {(1,)}
    assert observed.features is not None
    assert observed.features.shape == (6, 16, 2, 2)
    given = {id(leaf) for leaf in network.params.values()}
    used = [use.weight for use in observed.layers]
    assert {id(weight) for weight in used} <= given
    assert len({id(weight) for weight in used}) == len(used) == sum(p.dim() > 1 for p in network.params.values())
    for use in observed.layers:
        if isinstance(use, ConvUse):
            again = F.conv2d(use.input, use.weight, use.bias, use.stride, use.padding, use.dilation, use.groups)
            torch.testing.assert_close(again, use.output, rtol=0, atol=0)


def test_normalisations_can_be_left_out() -> None:
    network, observed = nb201_network(cell("341311"), SMALL), Observed()
    x = images(dtype=torch.float32)
    with without_norms(), listen(observed):
        bare = network(network.params, (x,))
    assert not observed.norms
    literal = Literal(cell("341311"), SMALL).copy_from(network)
    for module in literal.modules():
        for name, child in module.named_children():
            if isinstance(child, nn.BatchNorm2d):
                module._modules[name] = nn.Identity()
    torch.testing.assert_close(bare, literal(x))


def test_running_leaves_no_trace() -> None:
    network = nb201_network(cell("334131"), SMALL)
    before = {name: leaf.detach().clone() for name, leaf in network.params.items()}
    state = torch.get_rng_state()
    x = images(dtype=torch.float32)
    first = network(network.params, (x,))
    assert torch.equal(first, network(network.params, (x,)))
    assert torch.equal(first, network.eval()(network.params, (x,))), "there is no other mode"
    assert not list(network.buffers())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], leaf) and leaf.grad is None for name, leaf in network.params.items())


def test_other_parameters_may_be_given() -> None:
    arch = cell("334131")
    one, two = nb201_network(arch, SMALL, seed=1), nb201_network(arch, SMALL, seed=2)
    x = images(dtype=torch.float32)
    assert torch.equal(one(two.params, (x,)), two(two.params, (x,)))
    assert not torch.equal(one(one.params, (x,)), two(two.params, (x,)))


def test_the_same_key_is_the_same_network() -> None:
    for one, other in [
        ("300010", "030001"),
        ("301001", "000300"),
        ("440011", "401011"),
        ("230011", "320011"),
    ]:
        assert key(cell(one)) == key(cell(other))
        a, b = nb201_network(cell(one), SMALL, seed=5), nb201_network(cell(other), SMALL, seed=5)
        assert list(a.params) == list(b.params)
        x = images(dtype=torch.float32)
        assert torch.equal(a(a.params, (x,)), b(b.params, (x,)))


def test_initial_weights_do_not_depend_on_other_operations() -> None:
    alone, beside = nb201_network(cell("000300"), SMALL, seed=7), nb201_network(cell("204301"), SMALL, seed=7)
    for stage in range(3):
        names = [parameters_of_edge(cell(digits), stage, 1, 3) for digits in ("000300", "204301")]
        assert torch.equal(alone.params[f"{names[0]}.conv.weight"], beside.params[f"{names[1]}.conv.weight"])
    assert torch.equal(alone.params["head.linear.weight"], beside.params["head.linear.weight"])


def test_initial_weights_follow_torch_s_default() -> None:
    network = nb201_network(cell("333333"), Nb201Skeleton(), seed=0)
    for name, leaf in network.params.items():
        if leaf.dim() > 1 and leaf.numel() > 4000:
            bound = leaf[0].numel() ** -0.5
            assert leaf.abs().max() <= bound
            assert leaf.detach().std() == pytest.approx(bound / 3**0.5, rel=0.05), name
    weights = [leaf.flatten()[:9] for leaf in network.params.values() if leaf.dim() == 4]
    assert len({tuple(weight.tolist()) for weight in weights}) == len(weights), "no two parameters share a stream"
    again = nb201_network(cell("333333"), Nb201Skeleton(), seed=0)
    assert all(torch.equal(leaf, again.params[name]) for name, leaf in network.params.items())
