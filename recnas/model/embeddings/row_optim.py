"""Optimizers of embedding tables: a step on the rows that a batch touched.

    adagrad          s += g^2                    w -= lr g / (sqrt(s) + eps)
    rowwise-adagrad  s += mean of g^2 of a row   as above, one s per row
    adam             m, v as usual               w -= lr m' / (sqrt(v') + 1e-8), moments corrected by the number of steps

Rows that are not in a batch keep their weights and their state, so a step costs what the batch touches and not what
the tables hold (torch.optim.SparseAdam does the same).

L2 adds `l2 * w` to the gradient of a row, the gradient of `l2 / 2 * sum(table^2)` in the loss:

    dense   of every row in every step, and every row takes a step: what frameworks with dense tables do. A step
            then costs what the tables hold.
    lazy    of the touched rows only, times the number of steps since a row was last touched (this one included).
            Its sum over a training is the same pull, so the same weights are optimal; what differs is the
            way there: a row moves only when it is touched. Costs one number more per row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Optimizer = Literal["adagrad", "rowwise-adagrad", "adam"]
L2Kind = Literal["lazy", "dense"]
BETAS, ADAM_EPS = (0.9, 0.999), 1e-8


@dataclass(frozen=True)
class TableOptimizer:
    """Which optimizer tables have. eps: of Adagrad. l2: see the module."""

    kind: Optimizer = "adagrad"
    eps: float = 1e-2
    l2: float = 0.0
    l2_kind: L2Kind = "lazy"

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the state that is kept per row, or per value of it."""
        state = ("means", "squares") if self.kind == "adam" else ("sums",)
        return (*state, "seen") if self.l2 and self.l2_kind == "lazy" else state

    def shape(self, part: str, rows: int, width: int) -> tuple[int, ...]:
        per_row = part == "seen" or (part == "sums" and self.kind == "rowwise-adagrad")
        return (rows,) if per_row else (rows, width)

    @property
    def is_adagrad(self) -> bool:
        """The kind that fbgemm's kernels compute."""
        return self.kind != "adam" and not self.l2


class RowOptimizer:
    """The state of all rows of one table `[R, D]`.

    Attributes:
        state: by name, see `TableOptimizer.parts`; `seen` is the step in which a row was last touched.
        steps: taken so far.
    """

    def __init__(
        self, options: TableOptimizer, rows: int, width: int, empty: Callable[[tuple[int, ...]], Tensor]
    ) -> None:
        self.options, self.steps = options, 0
        self.state = {part: empty(options.shape(part, rows, width)).zero_() for part in options.parts}

    @torch.no_grad()
    def step(self, table: Tensor, rows: Tensor, grad: Tensor, lr: float) -> None:
        """Apply `grad [U, D]` to the `rows [U]` of the table: distinct ones, or the same again with the same gradient."""
        self.steps += 1
        options = self.options
        if options.l2 and options.l2_kind == "dense":
            whole = table * options.l2
            grad = whole.index_copy_(0, rows, whole.index_select(0, rows) + grad)  # rows may be repeated, all alike
            self._move(table, grad, self.state, lr)
            return
        state = {part: tensor.index_select(0, rows) for part, tensor in self.state.items()}
        weights = table.index_select(0, rows)
        if options.l2:
            missed = (self.steps - state["seen"]) * options.l2
            grad = torch.addcmul(grad, weights, missed[:, None])
            state["seen"].fill_(self.steps)
        self._move(weights, grad, state, lr)
        table.index_copy_(0, rows, weights)
        for part, tensor in state.items():
            self.state[part].index_copy_(0, rows, tensor)

    def _move(self, weights: Tensor, grad: Tensor, state: dict[str, Tensor], lr: float) -> None:
        """One step of `weights [U, D]` and their state, in place."""
        if self.options.kind == "adam":
            beta1, beta2 = BETAS
            mean = state["means"].lerp_(grad, 1 - beta1)
            square = state["squares"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            rate = lr / (1 - beta1**self.steps)
            root = square.sqrt().mul_((1 - beta2**self.steps) ** -0.5).add_(ADAM_EPS)
            weights.addcdiv_(mean, root, value=-rate)
            return
        squares = grad * grad if self.options.kind == "adagrad" else (grad * grad).mean(1)
        root = state["sums"].add_(squares).sqrt().add_(self.options.eps)
        weights.addcdiv_(grad, root if root.ndim == 2 else root[:, None], value=-lr)
