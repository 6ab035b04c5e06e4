"""Networks from blueprints: pure functions of their parameters to be scored, or modules to be trained.

    network = Network(plan, seed=0)
    logits = network(network.params, (images,))           # batch statistics, nothing changes

    model = Trainable(plan, seed=0, drop_path=0.2, auxiliary=True)
    logits, extra = model(images)                         # running statistics are kept for `eval()`

Both run the same description (`recnas.space.blueprint`), so a candidate that was scored and then trained is
one and the same network; `Trainable.scored()` gives the scored form of its present weights.

Initial weights follow PyTorch's default, uniform within 1 / sqrt(fan-in), unless the blueprint says
otherwise. Each parameter has a random stream of its own, found from the seed and its name (or label).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recnas.model import observe
from recnas.model.nasrec.init import attach
from recnas.space.blueprint import Blueprint, Parameter, Pass, Shape, same_padding, walk

Where = torch.device | str  # a device

CHANNELS = 1  # the axis a batch normalisation keeps
MOMENTUM = 0.1


class Network(nn.Module):
    """A network to be scored: `params`, and a pure `forward(params, inputs)`.

    Args:
        plan: what it is.
        seed: the same seed gives the same initial weights, in every process and on every device.
        device: where the weights are.
    """

    def __init__(self, plan: Blueprint, seed: int = 0, device: Where = "cpu") -> None:
        super().__init__()
        self.plan = plan
        for parameter in walk(plan).parameters:
            attach(self, parameter.name, nn.Parameter(initial(parameter, seed).to(device)))
        self._params = dict(self.named_parameters())

    @property
    def params(self) -> Mapping[str, Tensor]:
        """Leaves by name, in the order in which the network uses them."""
        return self._params

    def forward(self, params: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        """Logits `[B, classes]`, or `[B]` of a single output."""
        (x,) = inputs
        return _squeezed(self.plan.run(Running(params), x))


class Trainable(nn.Module):
    """The same network as an ordinary module.

    Args:
        plan: what it is.
        seed: of the initial weights; those of `Network(plan, seed)`.
        drop_path: chance that a branch is left out for an example, while training; may be changed between epochs.
        auxiliary: build the second classifier. In training mode calls then give `(logits, auxiliary logits)`.
        generator: where the random numbers of `drop_path` come from; torch's global one by default.
    """

    def __init__(
        self,
        plan: Blueprint,
        seed: int = 0,
        drop_path: float = 0.0,
        auxiliary: bool = False,
        generator: torch.Generator | None = None,
        device: Where = "cpu",
    ) -> None:
        super().__init__()
        self.plan, self.drop_path, self.has_auxiliary, self.generator = plan, drop_path, auxiliary, generator
        found = walk(plan, auxiliary)
        for parameter in found.parameters:
            attach(self, parameter.name, nn.Parameter(initial(parameter, seed).to(device)))
        for name, channels in found.norms:
            holder = _holder(self, name)
            holder.register_buffer("running_mean", torch.zeros(channels, device=device))
            holder.register_buffer("running_var", torch.ones(channels, device=device))

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        net = _TrainingPass(self)
        logits = _squeezed(self.plan.run(net, x))
        return logits if net.extra is None else (logits, net.extra)

    def scored(self) -> Network:
        """A scored network with a copy of these weights; the second classifier is left out."""
        mine = dict(self.named_parameters())
        network = Network(self.plan, device=next(iter(mine.values())).device)
        with torch.no_grad():
            for name, leaf in network.params.items():
                leaf.copy_(mine[name])
        return network


class Running(Pass[Tensor]):
    """One forward pass under given parameters, with the statistics of the batch at hand."""

    def __init__(self, params: Mapping[str, Tensor]) -> None:
        self.params = params

    def shape(self, x: Tensor) -> Shape:
        return tuple(x.shape[1:])

    def conv(
        self,
        name: str,
        x: Tensor,
        outputs: int,
        size: int,
        *,
        stride: int = 1,
        padding: int | None = None,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = False,
        label: str = "",
    ) -> Tensor:
        weight, offset = self.params[f"{name}.weight"], self.params.get(f"{name}.bias")
        pad = same_padding(size, dilation) if padding is None else padding
        out = F.conv2d(x, weight, offset, stride, pad, dilation, groups)
        observe.conv2d(weight, x, out, offset, stride, pad, dilation, groups)
        return out

    def linear(
        self,
        name: str,
        x: Tensor,
        outputs: int,
        *,
        bias: bool = True,
        std: float | None = None,
        scale: float = 1.0,
    ) -> Tensor:
        weight, offset = self.params[f"{name}.weight"], self.params.get(f"{name}.bias")
        x = x if scale == 1.0 else x * scale  # before the product, so that what is reported is `weight` itself
        out = F.linear(x, weight, offset)
        observe.linear(weight, x, out, offset)
        return out

    def norm(self, name: str, x: Tensor, affine: bool = True) -> Tensor:
        if observe.norms_are_off():
            return x
        observe.norm(x, (CHANNELS,))
        gain, offset = self.params.get(f"{name}.weight"), self.params.get(f"{name}.bias")
        return F.batch_norm(x, None, None, gain, offset, training=True)

    def activate(self, x: Tensor, kind: str = "relu", slope: float = 0.01) -> Tensor:
        if kind in ("relu", "leaky_relu"):
            observe.relu(x)
            return x.relu() if kind == "relu" else F.leaky_relu(x, slope)
        if kind == "sigmoid":
            return x.sigmoid() - 0.5  # zero at zero, as Eigen-NAS has it
        return x.tanh() if kind == "tanh" else F.silu(x)

    def activate_again(self, x: Tensor, active: Tensor) -> Tensor:
        observe.relu(x)
        return active

    def pool(self, x: Tensor, kind: Literal["max", "avg"], size: int, stride: int, padding: int = 0) -> Tensor:
        if kind == "max":
            return F.max_pool2d(x, size, stride, padding)
        if (size, stride, padding) == (3, 1, 1):
            return mean_of_neighbours(x)
        return F.avg_pool2d(x, size, stride, padding, count_include_pad=False)

    def shifted(self, x: Tensor) -> Tensor:
        return x[:, :, 1:, 1:]

    def leading(self, x: Tensor, channels: int) -> Tensor:
        return x[:, :channels]

    def add(self, parts: Sequence[Tensor]) -> Tensor:
        return sum(parts[1:], start=parts[0])

    def cat(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(parts), 1) if len(parts) > 1 else parts[0]

    def zeros(self, like: Tensor) -> Tensor:
        return torch.zeros_like(like)

    def mean(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))

    def flat(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def features(self, x: Tensor) -> Tensor:
        observe.features(x)
        return x


class _TrainingPass(Running):
    """The pass of a module: running statistics, branches left out, the second classifier."""

    def __init__(self, module: Trainable) -> None:
        super().__init__(dict(module.named_parameters()))
        self.module = module
        self.buffers = dict(module.named_buffers())
        self.extra: Tensor | None = None

    def norm(self, name: str, x: Tensor, affine: bool = True) -> Tensor:
        gain, offset = self.params.get(f"{name}.weight"), self.params.get(f"{name}.bias")
        mean, var = self.buffers[f"{name}.running_mean"], self.buffers[f"{name}.running_var"]
        return F.batch_norm(x, mean, var, gain, offset, self.module.training, MOMENTUM)

    def drop_path(self, x: Tensor) -> Tensor:
        chance = self.module.drop_path
        if not self.module.training or chance <= 0:
            return x
        kept = torch.empty(len(x), 1, 1, 1, dtype=x.dtype, device=x.device)
        return x * kept.bernoulli_(1 - chance, generator=self.module.generator) / (1 - chance)

    @property
    def wants_auxiliary(self) -> bool:
        return self.module.has_auxiliary and self.module.training

    def keep_auxiliary(self, logits: Tensor) -> None:
        self.extra = logits


def initial(parameter: Parameter, seed: int) -> Tensor:
    """Its first value; the same in every process."""
    if parameter.init in ("ones", "zeros"):
        return torch.full(parameter.shape, float(parameter.init == "ones"))
    digest = hashlib.sha256(f"{seed}/{parameter.stream}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    values = torch.empty(parameter.shape)
    if parameter.init == "normal":
        return values.normal_(0.0, parameter.scale, generator=generator)
    return values.uniform_(-parameter.scale, parameter.scale, generator=generator)


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


def _holder(module: nn.Module, name: str) -> nn.Module:
    """The submodule at a dotted name, made if a normalisation without parameters needs one."""
    for step in name.split("."):
        if step not in module._modules:
            module.add_module(step, nn.Module())
        child = module._modules[step]
        assert child is not None
        module = child
    return module


def _squeezed(logits: Tensor) -> Tensor:
    return logits.squeeze(1) if logits.shape[1] == 1 else logits
