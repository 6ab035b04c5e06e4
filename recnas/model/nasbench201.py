"""The NAS-Bench-201 network of a cell: a pure function of its parameters, ready to be scored.

    stem      3x3 convolution to C channels, normalisation
    stage 1   N cells of C channels
    reduction residual block of stride 2: ReLU-conv-norm twice, beside 2x2 average pooling and a 1x1 convolution
    stage 2   N cells of 2C channels; reduction; stage 3: N cells of 4C channels
    head      normalisation, ReLU, mean over positions, linear classifier

Every convolution of a cell is ReLU, convolution, normalisation; poolings leave the padding out of the mean.
`Body` says C, N and the conventions inside cells: a bias and a normalisation without gain, as zero-cost work
scores networks, or the other way round (`Body.trained()`), as the benchmark's authors trained them.

What is built is the cell's program (`recnas.space.nasbench201_key`), not its edges: dead edges cost nothing
and cells with the same key give the same network, down to the last bit of its initial weights.

    network = Nb201Network(arch, Body(channels=16), seed=0)
    logits = network(network.params, (images,))          # [B, classes]

Normalisations always use the statistics of the batch at hand, so there are no buffers and nothing changes
when the network runs. Training for real needs running statistics as well; they would enter in `_Pass.norm`,
the one place where a normalisation happens, and be kept beside the parameters.

Initial weights follow PyTorch's default for convolutions and linear layers, uniform within
1 / sqrt(fan-in). Each parameter has a random stream of its own, found from the seed, its place in the
body, and what its operation is applied to inside the cell: adding an operation elsewhere changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recnas.model import taps
from recnas.model.nasrec.init import attach
from recnas.space.nasbench201_arch import CONV3, Nb201Arch
from recnas.space.nasbench201_cost import COLOURS, STAGES, Body
from recnas.space.nasbench201_key import CONVS, CellProgram, compile_cell

CHANNELS = 1  # the axis a BatchNorm2d keeps


def mean_of_neighbours(x: Tensor) -> Tensor:
    """3x3 average pooling of stride 1 that leaves the padding out of the mean.

    The mean over a window is a mean over its rows of means over its columns, so two products with a band
    matrix give it; on a CPU they take a quarter of the time of torch's pooling, backward included.
    """
    height, width = x.shape[-2:]
    return _band(height, x.dtype, x.device) @ x @ _band(width, x.dtype, x.device).t()


@lru_cache(maxsize=32)
def _band(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Row i averages the places i - 1, i, i + 1 that exist."""
    place = torch.arange(n)
    near = ((place[:, None] - place[None, :]).abs() <= 1).to(torch.float64)
    return (near / near.sum(1, keepdim=True)).to(device, dtype)


class Nb201Network(nn.Module):
    """A scoring network.

    Args:
        arch: the cell.
        body: widths, depth and conventions.
        seed: the same seed gives the same initial weights, in every process.
    """

    def __init__(self, arch: Nb201Arch, body: Body | None = None, seed: int = 0) -> None:
        super().__init__()
        self.arch = arch
        self.body = body or Body()
        self.program, self.placed = compile_cell(arch)
        generator = torch.Generator()
        for plan in _parameters(self.program, self.body):
            generator.manual_seed(_stream(seed, plan.stream))
            attach(self, plan.name, nn.Parameter(_initial(plan, generator)))
        self._params = dict(self.named_parameters())

    @property
    def params(self) -> Mapping[str, Tensor]:
        """Leaves by name, in the order in which the network uses them."""
        return self._params

    def forward(self, params: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        """Logits `[B, classes]` of images `[B, 3, H, W]`, the only input."""
        (x,) = inputs
        net = _Pass(params)
        x = net.norm("stem.norm", net.conv("stem.conv", x, padding=1))
        for stage in range(STAGES):
            if stage:
                x = net.reduction(f"reductions.{stage - 1}", x)
            for cell in range(self.body.cells):
                x = net.cell(f"stages.{stage}.{cell}", self.program, x)
        x = net.relu(net.norm("head.norm", x))
        taps.features(x)
        return net.linear("head.linear", x.mean((2, 3)))

    def name_of(self, stage: int, cell: int, edge: int) -> str | None:
        """Where the parameters of an edge's convolution are, e.g. "stages.0.2.op1"; None if it has none."""
        number = self.placed[edge]
        if not number or self.program.ops[number - 1].op not in CONVS:
            return None
        return f"stages.{stage}.{cell}.op{number}"


class _Pass:
    """One forward pass under given parameters."""

    def __init__(self, params: Mapping[str, Tensor]) -> None:
        self.params = params

    def conv(self, name: str, x: Tensor, stride: int = 1, padding: int = 0) -> Tensor:
        weight, bias = self.params[f"{name}.weight"], self.params.get(f"{name}.bias")
        out = F.conv2d(x, weight, bias, stride, padding)
        taps.conv2d(weight, x, out, bias, stride, padding)
        return out

    def linear(self, name: str, x: Tensor) -> Tensor:
        weight, bias = self.params[f"{name}.weight"], self.params[f"{name}.bias"]
        out = F.linear(x, weight, bias)
        taps.linear(weight, x, out, bias)
        return out

    def norm(self, name: str, x: Tensor) -> Tensor:
        if taps.norms_are_off():
            return x
        taps.norm(x, (CHANNELS,))
        gain, bias = self.params.get(f"{name}.weight"), self.params.get(f"{name}.bias")
        return F.batch_norm(x, None, None, gain, bias, training=True)

    def relu(self, x: Tensor) -> Tensor:
        taps.relu(x)
        return x.relu()

    def reduction(self, name: str, x: Tensor) -> Tensor:
        out = x
        for part, stride in (("conv_a", 2), ("conv_b", 1)):
            out = self.conv(f"{name}.{part}.conv", self.relu(out), stride, padding=1)
            out = self.norm(f"{name}.{part}.norm", out)
        return self.conv(f"{name}.shortcut", F.avg_pool2d(x, 2)) + out

    def cell(self, name: str, program: CellProgram, x: Tensor) -> Tensor:
        """The program on `x`; sums and activations that several operations read are computed once."""
        values = [x]
        sums: dict[tuple[int, ...], Tensor] = {}
        active: dict[tuple[int, ...], Tensor] = {}

        def total(which: tuple[int, ...]) -> Tensor:
            if which not in sums:
                sums[which] = sum((values[j] for j in which[1:]), start=values[which[0]])
            return sums[which]

        for number, step in enumerate(program.ops, start=1):
            source = total(step.inputs)
            if step.op not in CONVS:
                values.append(mean_of_neighbours(source))
                continue
            taps.relu(source)  # once per convolution: in the benchmark each has an activation of its own
            if step.inputs not in active:
                active[step.inputs] = source.relu()
            part = f"{name}.op{number}"
            out = self.conv(f"{part}.conv", active[step.inputs], padding=int(step.op == CONV3))
            values.append(self.norm(f"{part}.norm", out))
        return total(program.output) if program.output else torch.zeros_like(x)


class _Parameter(NamedTuple):
    name: str
    shape: tuple[int, ...]
    fan_in: int  # 0 for a normalisation's gain or bias, which start at 1 and 0
    stream: str


def _parameters(program: CellProgram, body: Body) -> Iterator[_Parameter]:
    """Every parameter, in the order of use."""
    yield from _conv("stem.conv", COLOURS, body.channels, 3)
    yield from _norm("stem.norm", body.channels)
    for stage in range(STAGES):
        width = body.width(stage)
        if stage:
            before, name = body.width(stage - 1), f"reductions.{stage - 1}"
            yield from _conv(f"{name}.conv_a.conv", before, width, 3)
            yield from _norm(f"{name}.conv_a.norm", width)
            yield from _conv(f"{name}.conv_b.conv", width, width, 3)
            yield from _norm(f"{name}.conv_b.norm", width)
            yield from _conv(f"{name}.shortcut", before, width, 1)
        for cell in range(body.cells):
            for number, step in enumerate(program.ops, start=1):
                if step.op in CONVS:
                    here = f"stages.{stage}.{cell}"
                    size = 3 if step.op == CONV3 else 1
                    label = f"{here}.{step.label}"
                    yield from _conv(f"{here}.op{number}.conv", width, width, size, body.cell_bias, label)
                    if body.cell_affine:
                        yield from _norm(f"{here}.op{number}.norm", width)
    last = body.width(STAGES - 1)
    yield from _norm("head.norm", last)
    yield _Parameter("head.linear.weight", (body.classes, last), last, "head.linear.weight")
    yield _Parameter("head.linear.bias", (body.classes,), last, "head.linear.bias")


def _conv(
    name: str, inputs: int, outputs: int, size: int, bias: bool = False, label: str | None = None
) -> Iterator[_Parameter]:
    fan_in = inputs * size * size
    yield _Parameter(f"{name}.weight", (outputs, inputs, size, size), fan_in, f"{label or name}.weight")
    if bias:
        yield _Parameter(f"{name}.bias", (outputs,), fan_in, f"{label or name}.bias")


def _norm(name: str, width: int) -> Iterator[_Parameter]:
    yield _Parameter(f"{name}.weight", (width,), 0, "")
    yield _Parameter(f"{name}.bias", (width,), 0, "")


def _initial(plan: _Parameter, generator: torch.Generator) -> Tensor:
    if not plan.fan_in:
        return torch.full(plan.shape, float(plan.name.endswith("weight")))
    bound = plan.fan_in**-0.5
    return torch.empty(plan.shape).uniform_(-bound, bound, generator=generator)


def _stream(seed: int, name: str) -> int:
    """A seed for one parameter; the same in every process, unlike `hash`."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8], "big") >> 1
