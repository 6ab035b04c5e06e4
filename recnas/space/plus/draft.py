"""Writing an architecture of `nasrec-plus` down block by block, for encoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recnas.errors import SpaceError
from recnas.space.nasrec.arch import EFC
from recnas.space.nasrec.layers import NetShape
from recnas.space.plus import operators as ops
from recnas.space.plus.arch import AS_DATA, NAME, Head, PlusArch, PlusBlock
from recnas.space.plus.rules import LOGITS


class Draft:
    """Blocks so far. The stream of a block that a model does not use holds a sleeping operator that is never built."""

    def __init__(self, shape: NetShape) -> None:
        self.shape = shape
        self.blocks: list[PlusBlock] = []
        self.numbers = (0,) if shape.n_dense else ()
        self.vectors = (0,) if shape.n_sparse else ()

    def add(
        self,
        dense: str = ops.FLAT,
        sparse: str = EFC,
        *,
        width: int = AS_DATA,
        rows: int = AS_DATA,
        reads: Sequence[int] = (),
        flat: Sequence[int] = (),
        dropout: float | None = 0.0,
        **genes: Any,
    ) -> int:
        """One block more; its number. Without inputs it reads the raw ones.

        Args:
            reads, flat: dense inputs, and rows that are read flat. dropout: none, unless said otherwise.
        """
        if width == 1 and dense not in LOGITS:
            raise SpaceError("a layer of one unit is a logit in nasrec-plus, and no layer", "use at least 2 units")
        if not reads and not flat:
            reads, flat = self.numbers, self.vectors
        made = {"sparse_in": (0,), "left": (0,), "right": (0,), "merge": False, "fm": False, **genes}
        block = PlusBlock(
            dense_ops=(dense,),
            sparse_ops=(sparse,),
            dense_dim=width,
            sparse_dim=rows,
            dense_in=tuple(sorted(reads)),
            flat_in=tuple(sorted(flat)),
            dropout=dropout,
            **made,
        )
        self.blocks.append(block)
        return len(self.blocks)

    def perceptron(
        self, hidden: Sequence[int], settings: dict[str, Any], reads: Sequence[int] = (), flat: Sequence[int] = (),
        dropout: float | None = None, op: str = ops.DEEP,
    ) -> int:  # fmt: skip
        """Layers with the model's norm, ReLU and dropout; the number of the last."""
        last = 0
        dropout = settings["dropout"] if dropout is None else dropout
        for i, width in enumerate(hidden):
            last = self.add(
                op, width=width, reads=reads if i == 0 else (last,), flat=flat if i == 0 else (),
                norm=settings["norm"], activation="relu", dropout=dropout or None,
            )  # fmt: skip
        return last

    def fields(self, dense_fields: bool = True) -> int:
        """The input whose rows are the fields: the raw vectors, or these and a vector per numeric column."""
        return self.add(sparse=ops.FIELDS) if dense_fields and self.shape.n_dense else 0

    def done(self, *dense: int, numbers: bool = False, rows: Sequence[int] = (), first_order: bool = False,
             start_scale: float = 1.0, **head: Any) -> PlusArch:  # fmt: skip
        """The architecture whose head reads these blocks; with `numbers` the raw numbers too."""
        read = tuple(sorted((*dense, *(self.numbers if numbers else ()))))
        return PlusArch(NAME, tuple(self.blocks), Head(read, tuple(rows), **head), first_order, start_scale)
