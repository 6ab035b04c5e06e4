"""Watching a network while it runs: which layers were used, on what, and with what result.

Some evidence about a network needs more than its logits: the input and output of every layer (per-sample
gradients, Fisher), the sign pattern before every ReLU, the variance at every normalisation. Networks report
these through the functions below; nothing is recorded, and nothing costs time, unless somebody listens.

    observed = Observed()
    with listen(observed):
        logits = network.forward(params, inputs)
    for use in observed.layers: ...                 # use.input, use.weight, use.output

    with without_norms():                       # the same network with every normalisation left out
        network.forward(params, inputs)

The contract for a network: call `linear` for a product with a weight, `conv2d` for a convolution, `relu`
before a piecewise linear activation, `norm` at a normalisation, `features` on what the classifier reads.
While somebody listens (`listening()`), do nothing in place, and use each weight as one tensor given in
`params`, so that it can be recognised.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True)
class LinearUse:
    """`output += input @ weight.T` along one axis; several uses may share one output (a sum of products).

    Axes: `input` and `output` have the same number of axes and differ only in size along `axis`, where
    `weight [out, in]` contracts. `batch_axis` numbers the examples.
    """

    weight: Tensor
    input: Tensor
    output: Tensor
    bias: Tensor | None = None  # given with one of the uses that share an output
    axis: int = -1
    batch_axis: int = 0


@dataclass(frozen=True)
class ConvUse:
    """`output = conv2d(input, weight, bias, ...)` on `[B, C, H, W]`."""

    weight: Tensor
    input: Tensor
    output: Tensor
    bias: Tensor | None
    stride: int
    padding: int
    dilation: int
    groups: int


@dataclass(frozen=True)
class NormUse:
    """A normalisation of `input`; its statistics are taken over all axes but `kept`."""

    input: Tensor
    kept: tuple[int, ...]  # BatchNorm2d keeps the channels (1,); LayerNorm over the last axis keeps the others


@dataclass
class Observed:
    """Everything one forward pass reported, in order."""

    layers: list[LinearUse | ConvUse] = field(default_factory=list)
    before_relu: list[tuple[Tensor, int]] = field(default_factory=list)  # pre-activation and its batch axis
    norms: list[NormUse] = field(default_factory=list)
    features: Tensor | None = None  # what the classifier reads, before pooling


_tape: Observed | None = None
_norms_off = False


@contextmanager
def listen(observed: Observed) -> Iterator[Observed]:
    """Record what networks report inside the block."""
    global _tape
    before, _tape = _tape, observed
    try:
        yield observed
    finally:
        _tape = before


@contextmanager
def without_norms() -> Iterator[None]:
    """Networks leave out every normalisation inside the block."""
    global _norms_off
    before, _norms_off = _norms_off, True
    try:
        yield
    finally:
        _norms_off = before


def listening() -> bool:
    return _tape is not None


def norms_are_off() -> bool:
    return _norms_off


def linear(
    weight: Tensor,
    input: Tensor,
    output: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    batch_axis: int = 0,
) -> None:
    if _tape is not None:
        _tape.layers.append(LinearUse(weight, input, output, bias, axis, batch_axis))


def conv2d(
    weight: Tensor,
    input: Tensor,
    output: Tensor,
    bias: Tensor | None,
    stride: int,
    padding: int,
    dilation: int = 1,
    groups: int = 1,
) -> None:
    if _tape is not None:
        _tape.layers.append(ConvUse(weight, input, output, bias, stride, padding, dilation, groups))


def relu(before: Tensor, batch_axis: int = 0) -> None:
    if _tape is not None:
        _tape.before_relu.append((before, batch_axis))


def norm(input: Tensor, kept: tuple[int, ...]) -> None:
    if _tape is not None:
        _tape.norms.append(NormUse(input, kept))


def features(x: Tensor) -> None:
    if _tape is not None:
        _tape.features = x
