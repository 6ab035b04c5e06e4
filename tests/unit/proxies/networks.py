"""Tiny float64 networks that report their layers, and slow, obviously right computations on them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.model import observe
from recnas.proxies.network import ScoringBatch, sample_losses, true_logits


class Net:
    """Parameters drawn from a seed; biases and gains are not 0 and 1, so that a mixed-up one shows."""

    def __init__(
        self, shapes: Mapping[str, tuple[int, ...]], seed: int = 0, dtype: torch.dtype = torch.float64
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.params: dict[str, Tensor] = {}
        for name, shape in shapes.items():
            fan_in = max(1, int(torch.tensor(shape[1:]).prod())) if len(shape) > 1 else 4
            value = torch.randn(shape, generator=generator, dtype=torch.float64) / fan_in**0.5
            if "norm" in name and name.endswith("weight"):
                value = value.abs() + 0.5
            self.params[name] = value.to(dtype).requires_grad_()

    def scaled(self, factor: float) -> Net:
        """A copy with every parameter multiplied."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.params = {name: (p.detach() * factor).requires_grad_() for name, p in self.params.items()}
        return twin

    def forward(self, params: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        raise NotImplementedError


def _linear(params: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    weight, bias = params[f"{name}.weight"], params.get(f"{name}.bias")
    out = F.linear(x, weight, bias)
    observe.linear(weight, x, out, bias)
    return out


def _relu(x: Tensor, batch_axis: int = 0) -> Tensor:
    observe.relu(x, batch_axis)
    return torch.relu(x)


class Mlp(Net):
    """`[B, k]` to `[B, classes]`; with a smooth activation where second derivatives are wanted."""

    def __init__(self, sizes: Sequence[int] = (5, 7, 6, 3), bias: bool = True, smooth: bool = False, **options) -> None:
        shapes: dict[str, tuple[int, ...]] = {}
        for i, (k, n) in enumerate(itertools.pairwise(sizes)):
            shapes[f"layer{i}.weight"] = (n, k)
            if bias:
                shapes[f"layer{i}.bias"] = (n,)
        super().__init__(shapes, **options)
        self.depth, self.smooth = len(sizes) - 1, smooth

    def forward(self, params: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        (x,) = inputs
        for i in range(self.depth - 1):
            x = _linear(params, f"layer{i}", x)
            x = torch.tanh(x) if self.smooth else _relu(x)
        observe.features(x)
        return _linear(params, f"layer{self.depth - 1}", x)


class Clicks(Net):
    """Dense `[B, I]` and embedded `[B, F, D]` to logits `[B]`.

    Two pieces of one weight share an output along the rows (examples on axis 1); a weight along axis 0 is used
    twice; a LayerNorm follows the dense layer.
    """

    fields = (2, 3)

    def __init__(self, dense: int = 4, width: int = 3, rows: int = 4, hidden: int = 5, **options) -> None:
        self.shape = (dense, sum(self.fields), width)
        super().__init__(
            {
                "rows.weight.a": (rows, self.fields[0]),
                "rows.weight.b": (rows, self.fields[1]),
                "rows.bias": (rows,),
                "mix.weight": (width, width),
                "mix.bias": (width,),
                "dense.weight": (hidden, dense),
                "dense.norm.weight": (hidden,),
                "dense.norm.bias": (hidden,),
                "head.weight": (1, hidden + width * rows),
                "head.bias": (1,),
            },
            **options,
        )
        self.groups = {name: "rows.weight" if name.startswith("rows.weight") else name for name in self.params}

    def forward(self, params: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        dense, embedded = inputs
        x = embedded.permute(2, 0, 1)
        left, right = x.split(list(self.fields), -1)
        a, b, bias = params["rows.weight.a"], params["rows.weight.b"], params["rows.bias"]
        x = left @ a.T + right @ b.T + bias
        observe.linear(a, left, x, bias, batch_axis=1)
        observe.linear(b, right, x, batch_axis=1)
        x = _relu(x, batch_axis=1)
        for _ in range(2):
            x = torch.tanh(self._mix(params, x))
        y = _linear(params, "dense", dense)
        if not observe.norms_are_off():
            observe.norm(y, (0,))
            y = F.layer_norm(y, y.shape[1:], params["dense.norm.weight"], params["dense.norm.bias"])
        y = torch.cat([_relu(y), x.permute(1, 0, 2).flatten(1)], 1)
        observe.features(y)
        return _linear(params, "head", y).squeeze(1)

    def _mix(self, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        out = torch.einsum("ed,dbn->ebn", params["mix.weight"], x) + params["mix.bias"][:, None, None]
        observe.linear(params["mix.weight"], x, out, params["mix.bias"], axis=0, batch_axis=1)
        return out


class Conv(Net):
    """`[B, 3, 8, 8]` to `[B, classes]`: stride, groups, a dilated depthwise filter, 1x1, batch statistics."""

    def __init__(self, classes: int = 4, norm: bool = True, alive: bool = True, **options) -> None:
        super().__init__(
            {
                "stem.weight": (4, 3, 3, 3),
                "norm.weight": (4,),
                "norm.bias": (4,),
                "grouped.weight": (6, 2, 3, 3),
                "grouped.bias": (6,),
                "depth.weight": (6, 1, 3, 3),
                "point.weight": (5, 6, 1, 1),
                "point.bias": (5,),
                "head.weight": (classes, 5),
                "head.bias": (classes,),
            },
            **options,
        )
        self.norm, self.alive = norm, alive

    def forward(self, params: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        (x,) = inputs
        x = self._conv(params, "stem", x, padding=1)
        if self.norm and not observe.norms_are_off():
            observe.norm(x, (1,))
            x = F.batch_norm(x, None, None, params["norm.weight"], params["norm.bias"], training=True)
        x = _relu(x)
        x = self._conv(params, "grouped", x, stride=2, padding=1, groups=2)
        x = self._conv(params, "depth", _relu(x), padding=2, dilation=2, groups=6)
        x = self._conv(params, "point", _relu(x), stride=2)
        x = x if self.alive else x * 0
        observe.features(x)
        return _linear(params, "head", x.mean((2, 3)))

    def _conv(self, params, name, x, stride=1, padding=0, dilation=1, groups=1) -> Tensor:
        weight, bias = params[f"{name}.weight"], params.get(f"{name}.bias")
        out = F.conv2d(x, weight, bias, stride, padding, dilation, groups)
        observe.conv2d(weight, x, out, bias, stride, padding, dilation, groups)
        return out


def make(kind: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> Net:
    return {
        "mlp": lambda: Mlp(seed=seed, dtype=dtype),
        "clicks": lambda: Clicks(seed=seed, dtype=dtype),
        "conv": lambda: Conv(seed=seed, dtype=dtype),
        "conv-free": lambda: Conv(norm=False, seed=seed, dtype=dtype),
    }[kind]()


def batches(net: Net, m: int = 6, count: int = 1, seed: int = 5) -> list[ScoringBatch]:
    generator = torch.Generator().manual_seed(seed)
    dtype = next(iter(net.params.values())).dtype

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    found = []
    for _ in range(count):
        if isinstance(net, Clicks):
            dense, fields, width = net.shape
            labels = torch.tensor([i % 2 for i in range(m)], dtype=dtype)
            found.append(ScoringBatch((draw(m, dense), draw(m, fields, width)), labels))
            continue
        inputs = draw(m, 3, 8, 8) if isinstance(net, Conv) else draw(m, net.params["layer0.weight"].shape[1])
        classes = [p for n, p in net.params.items() if n.endswith("weight")][-1].shape[0]
        found.append(ScoringBatch((inputs,), torch.arange(m) % classes))
    return found


def gradient(scalar: Tensor, params: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found = torch.autograd.grad(scalar, list(params.values()), retain_graph=True, allow_unused=True)
    return {n: torch.zeros_like(p) if g is None else g for (n, p), g in zip(params.items(), found)}


def flat(gradients: Mapping[str, Tensor], skip: str = "~") -> Tensor:
    return torch.cat([g.flatten() for n, g in gradients.items() if skip not in n])


def loss_gradient(net: Net, batch: ScoringBatch) -> dict[str, Tensor]:
    return gradient(sample_losses(net.forward(net.params, batch.inputs), batch.labels).mean(), net.params)


def row_by_row(net: Net, batch: ScoringBatch, of: str, skip: str = "~") -> Tensor:
    """Gradient of each example's true logit or loss, `[m, P]`, with all examples in one forward pass."""
    logits = net.forward(net.params, batch.inputs)
    values = true_logits(logits, batch.labels) if of == "logit" else sample_losses(logits, batch.labels)
    return torch.stack([flat(gradient(value, net.params), skip) for value in values])
