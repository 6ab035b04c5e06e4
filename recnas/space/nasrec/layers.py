"""Layers by name and size, before there is a tensor: what operators are described with. No torch here.

An operator lists its layers by calling a `LayerBuilder`. Two builders exist: the one of `plan` registers every
parameter, cut into the regions of the supernet it lives in, and the one of `cost` adds up parameters and
multiply-adds. What is counted is therefore what is built.

When widths already agree some Linear layers do not exist (`elide`): the two projections of `dot`, the output
of `dot`, `gate` and `sum`, the merge at width 8 * D, FM at width D.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from recnas.data.schema import Schema
from recnas.errors import SpaceError
from recnas.space.nasrec.arch import DENSE_DIMS, MERGE_ROWS, SPARSE_DIMS, NasrecArch


@dataclass(frozen=True)
class NetShape:
    """What a network needs to know besides its architecture."""

    n_dense: int  # I; without dense fields the network reads one column of zeros
    n_sparse: int  # F
    width: int = 16  # D
    layernorm: bool = True
    activation: str = "relu"  # or "silu"
    dense_max: int = DENSE_DIMS[-1]  # slot sizes of the supernet
    sparse_max: int = SPARSE_DIMS[-1]
    labels: int = 1  # L: units of the last layer

    @classmethod
    def of(cls, schema: Schema, **options: object) -> NetShape:
        return cls(schema.n_dense, schema.n_sparse, **{"labels": schema.n_labels, **options})  # type: ignore[arg-type]

    @property
    def dense_width(self) -> int:
        return max(1, self.n_dense)

    @property
    def vectors_width(self) -> int:
        """Length of the vectors of a row behind each other."""
        return self.n_sparse * self.width

    @property
    def raw_width(self) -> int:
        """Length of all numbers and vectors of a row behind each other."""
        return self.n_dense + self.vectors_width

    @property
    def most_rows(self) -> int:
        """Rows of the longest sparse input."""
        return max(self.n_sparse, self.sparse_max + MERGE_ROWS)

    def wide_slot(self, j: int) -> int:
        """First column of input j in a shared weight that reads dense inputs and rows behind each other."""
        each = self.dense_max + (self.sparse_max + MERGE_ROWS) * self.width
        return 0 if j == 0 else self.dense_width + self.vectors_width + each * (j - 1)

    def dense_slot(self, j: int) -> int:
        """First column of dense input j in a shared weight."""
        return 0 if j == 0 else self.dense_width + self.dense_max * (j - 1)

    def sparse_slot(self, j: int) -> int:
        """First column of sparse input j in a shared weight over rows."""
        return 0 if j == 0 else self.n_sparse + (self.sparse_max + MERGE_ROWS) * (j - 1)


class Layer(NamedTuple):
    """Names of a Linear and the LayerNorm after it; either may be absent."""

    weight: tuple[str, ...] = ()
    bias: str | None = None
    norm: tuple[str, str] | None = None


class Span(NamedTuple):
    """A run of columns (or rows) of a weight: its name suffix, its place in the storage, its length."""

    suffix: str
    start: int
    length: int


def total(spans: Sequence[Span]) -> int:
    return sum(span.length for span in spans)


class LayerBuilder(ABC):
    """What an operator may ask for; `name` is where the parameters of a layer live.

    Args:
        arch: whose blocks decide the widths of inputs.
        shape: raw widths and options.
        sliced: parameters are looked up as leaves of the supernet instead of whole.
        elide: leave out Linear layers whose widths already agree.
    """

    def __init__(self, arch: NasrecArch, shape: NetShape, sliced: bool = False, elide: bool = True) -> None:
        self.arch, self.shape, self.sliced, self.elide = arch, shape, sliced, elide

    @abstractmethod
    def param(
        self, name: str, shape: tuple[int, ...], init: str, *axes: Sequence[Span], uses: int = 0
    ) -> tuple[str, ...]:
        """A parameter cut into the product of the spans of its axes; the names to look it up by.

        `uses`: how often each of its numbers is multiplied per row of data.
        """

    @abstractmethod
    def products(self, macs: int) -> None:
        """Multiply-adds per row of data that belong to no parameter."""

    # Layers

    def linear(
        self,
        name: str,
        out: int,
        columns: Sequence[Span],
        norm: bool | None = None,
        bias: bool | None = None,
        uses: int = 1,
    ) -> Layer:
        """A Linear that always exists; a LayerNorm follows, or else the Linear has a bias."""
        norm = self.shape.layernorm if norm is None else norm
        bias = not self.shape.layernorm if bias is None else bias
        rows = [Span("", 0, out)]
        weight = self.param(f"{name}.weight", (out, total(columns)), "xavier", rows, columns, uses=uses)
        bias_name = self.vector(f"{name}.bias", out, "zeros") if bias else None
        return Layer(weight, bias_name, self.norm(name, out) if norm else None)

    def bare(self, name: str, out: int) -> Layer:
        """A bias with no weight before it."""
        return Layer(bias=self.vector(f"{name}.bias", out, "zeros"))

    def projection(self, name: str, out: int, columns: Sequence[Span], uses: int = 1) -> Layer:
        """A Linear and its LayerNorm, neither of which exists where the width is already right."""
        if self.elide and total(columns) == out:
            return Layer()
        return self.linear(name, out, columns, uses=uses)

    def output(self, name: str, out: int, columns: Sequence[Span], width: int, bias: bool | None = None) -> Layer:
        """A Linear from `width` that may be elided and a LayerNorm that stays. `columns` may cover less
        than `width`: the rest multiplies padding and exists in the standalone form only."""
        norm = self.norm(name, out) if self.shape.layernorm else None
        if self.elide and width == out:
            return Layer(norm=norm)
        weight = self.param(f"{name}.weight", (out, width), "xavier", [Span("", 0, out)], columns, uses=1)
        has_bias = not self.shape.layernorm if bias is None else bias
        return Layer(weight, self.vector(f"{name}.bias", out, "zeros") if has_bias else None, norm)

    def residual(self, name: str, columns: Sequence[Span], uses: int = 1) -> Layer:
        """A square Linear whose LayerNorm is always on and starts with a small gain."""
        layer = self.linear(name, total(columns), columns, norm=False, bias=True, uses=uses)
        return layer._replace(norm=self.norm(name, total(columns), "residual"))

    def norm(self, name: str, n: int, gain: str = "ones") -> tuple[str, str]:
        return self.vector(f"{name}.norm.weight", n, gain), self.vector(f"{name}.norm.bias", n, "zeros")

    def vector(self, name: str, n: int, init: str) -> str:
        return self.param(name, (n,), init, [Span("", 0, n)])[0]

    # Slots

    def dense_spans(self, inputs: Sequence[int]) -> list[Span]:
        """The columns of the dense inputs `inputs`."""
        return [Span(str(j), self.shape.dense_slot(j), self.dense_dim(j)) for j in inputs]

    def wide_spans(self, dense: Sequence[int], flat: Sequence[int]) -> list[Span]:
        """The columns of dense inputs and of flattened rows, input by input; a row's D columns are neighbours."""
        spans = []
        for j in sorted({*dense, *flat}):
            first = self.shape.wide_slot(j)
            if j in dense:
                spans.append(Span(str(j), first, self.dense_dim(j)))
            if j not in flat:
                continue
            first += self.shape.dense_width if j == 0 else self.shape.dense_max
            rows = self.shape.n_sparse if j == 0 else self.arch.blocks[j - 1].sparse_dim
            width = self.row_width((j,))
            if rows:
                spans.append(Span(f"{j}.flat", first, rows * width))
            if j and self.arch.blocks[j - 1].merge:
                after = first + self.shape.sparse_max * width
                spans.append(Span(f"{j}.flat.merge", after, MERGE_ROWS * width))
        return spans

    def row_width(self, inputs: Sequence[int]) -> int:
        """Components of the rows of the sparse inputs, which must agree."""
        width = self.shape.width
        found = {self.arch.blocks[j - 1].row_width(width) if j else width for j in inputs}
        if len(found) > 1:
            raise SpaceError(f"rows of {sorted(found)} components cannot be joined", "read one of them, or set heads")
        return found.pop() if found else width

    def rows(self, inputs: Sequence[int]) -> int:
        """How many rows the sparse inputs have together."""
        return total(self.row_spans(inputs))

    def dense_dim(self, j: int) -> int:
        return self.shape.dense_width if j == 0 else self.arch.blocks[j - 1].dense_dim

    def row_spans(self, inputs: Sequence[int]) -> list[Span]:
        """The rows of the sparse inputs `inputs`; merge rows are spans of their own."""
        spans = []
        for j in inputs:
            first = self.shape.sparse_slot(j)
            if j == 0:
                spans.append(Span("0", first, self.shape.n_sparse))
                continue
            block = self.arch.blocks[j - 1]
            spans.append(Span(str(j), first, block.sparse_dim))
            if block.merge:
                spans.append(Span(f"{j}.merge", first + self.shape.sparse_max, MERGE_ROWS))
        return spans
