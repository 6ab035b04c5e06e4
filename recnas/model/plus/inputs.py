"""What the operators of a block are given: streams, read as vectors, as rows or flat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch.nn.functional as F
from torch import Tensor

from recnas.model import kernels, observe
from recnas.model.nasrec.operators import ACTIVATIONS, BlockInputs, join
from recnas.model.plus.norms import Statistics, normalise
from recnas.space.nasrec.layers import Layer, NetShape
from recnas.space.plus.arch import PlusBlock


class Streams:
    """The outputs of all inputs so far. Dense `[B, d]`; rows `[D, B, n]`, those of a merge apart."""

    def __init__(self, dense: Tensor, vectors: Tensor) -> None:
        self.batch = dense.shape[0]
        self.numbers, self.vectors = dense, vectors  # [B, I], [B, F, D]
        first = dense if dense.shape[1] else dense.new_zeros(self.batch, 1)
        self._dense: list[Tensor | None] = [first]
        self._rows: list[tuple[Tensor, ...]] = [()]
        self._flat: dict[int, tuple[Tensor, ...]] = {0: (vectors.flatten(1),) if vectors.shape[1] else ()}
        self._raw: Tensor | None = None

    def add(self, dense: Tensor | None, rows: tuple[Tensor, ...]) -> None:
        self._dense.append(dense)
        self._rows.append(rows)

    def dense(self, j: int) -> Tensor:
        found = self._dense[j]
        assert found is not None, "a dead stream is read: live_parts and the plan disagree"
        return found

    def rows(self, j: int) -> tuple[Tensor, ...]:
        if j == 0 and not self._rows[0]:
            self._rows[0] = (self.vectors.permute(2, 0, 1).contiguous(),)
        return self._rows[j]

    def flat(self, j: int) -> tuple[Tensor, ...]:
        """The rows of input j behind each other, `[B, n D]`."""
        if j not in self._flat:
            self._flat[j] = tuple(part.permute(1, 2, 0).flatten(1) for part in self._rows[j])
        return self._flat[j]

    def wide(self, dense: Sequence[int], flat: Sequence[int]) -> list[Tensor]:
        """Dense inputs and flattened rows in the order of `LayerBuilder.wide_spans`."""
        found: list[Tensor] = []
        for j in sorted({*dense, *flat}):
            found += [self.dense(j)] if j in dense else []
            found += self.flat(j) if j in flat else ()
        return found

    @property
    def raw(self) -> Tensor:
        """All numbers and vectors of a row of data behind each other."""
        if self._raw is None:
            self._raw = join([part for part in (self.numbers, *self.flat(0)) if part.shape[1]])
        return self._raw


class PlusInputs(BlockInputs):
    """As NASRec's operators know it, and what further ones read."""

    def __init__(
        self,
        number: int,
        block: PlusBlock,
        shape: NetShape,
        params: Mapping[str, Tensor],
        streams: Streams,
        statistics: Statistics | None,
        drop: Callable[[Tensor, float | None], Tensor] | None = None,
    ) -> None:
        # NASRec's operators ask for these by name; here they are looked up when asked for.
        self.__dict__.update(block=block, shape=shape, params=params)
        self.__dict__.update(number=number, streams=streams, statistics=statistics, dropping=drop)

    number: int
    streams: Streams
    statistics: Statistics | None
    dropping: Callable[[Tensor, float | None], Tensor] | None

    def drop(self, x: Tensor) -> Tensor:
        """The block's dropout, for an operator that drops inside."""
        return x if self.dropping is None else self.dropping(x, self.genes.dropout)

    @property
    def genes(self) -> PlusBlock:
        assert isinstance(self.block, PlusBlock)
        return self.block

    def __getattr__(self, name: str) -> Sequence[Tensor]:
        if name in ("dense_in", "left", "right"):
            return [self.streams.dense(j) for j in getattr(self.block, name)]
        if name == "rows":
            return (join([part for j in self.block.sparse_in for part in self.streams.rows(j)]),)
        raise AttributeError(name)

    @property
    def wide(self) -> list[Tensor]:
        return self.streams.wide(self.block.dense_in, self.genes.flat_in)

    def set_of_rows(self, inputs: tuple[int, ...]) -> Tensor:
        return join([part for j in inputs for part in self.streams.rows(j)])

    def normalised(self, y: Tensor, norm: tuple[str, str] | None) -> Tensor:
        return normalise(y, self.genes.norm, norm, self.params, self.statistics)

    def activated(self, y: Tensor) -> Tensor:
        kind = self.genes.activation
        return y if kind == "none" else ACTIVATIONS[kind](y, 0)

    def finish(self, y: Tensor, norm: tuple[str, str] | None, x: Sequence[Tensor] = ()) -> Tensor:
        """Normalisation, activation and residual of the block, after an operator that has read `x`."""
        y = self.activated(self.normalised(y, norm))
        return y + fit(join(x), y.shape[1]) if self.genes.residual and len(x) else y


def affine(xs: Sequence[Tensor], layer: Layer, given: PlusInputs, bias: bool = True) -> Tensor:
    """Linear over the inputs behind each other."""
    weights = [given.params[name] for name in layer.weight]
    if len(weights) != len(xs):
        xs = (join(xs),)
    return kernels.linear(xs, weights, given.params[layer.bias] if bias and layer.bias else None)


def over_rows(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Linear over the rows, `[D, B, n]` to `[D, B, m]`."""
    out = F.linear(rows, weight, bias)
    observe.linear(weight, rows, out, bias, batch_axis=1)
    return out


def fit(x: Tensor, n: int) -> Tensor:
    """The last axis cut, or padded with zeros, to `n`."""
    if x.shape[-1] > n:
        return x[..., :n]
    return x if x.shape[-1] == n else F.pad(x, (0, n - x.shape[-1]))
