"""Target attention: a sequence pooled by how well each of its values goes with the row's own value of the same table.

G. Zhou et al.: Deep Interest Network for Click-Through Rate Prediction. KDD 2018, eq. 3. For a value v of the sequence and the
query q, the vector of this row, a small perceptron of [v, q, q - v, q * v] says a weight; the vector of the sequence is the
weighted sum. As there, weights are not normalised, so that many values that fit say more than one.

The perceptron's weights belong to the tables: they are trained by the tables' optimizer at its rate (without L2), kept
in checkpoints beside them, and read by every network alike. So hand-crafted models, searched networks and the
supernet all get the same vector `[B, F, D]`, and none of them knows how it was made.

All weights of one sequence are one matrix of HIDDEN columns: 4 W rows of the hidden layer (W: width of a table row), its bias,
the output layer, and the output's bias in the first place of the last row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from recnas.model.embeddings.row_optim import RowOptimizer, TableOptimizer

HIDDEN = 16


def attend(values: Tensor, there: Tensor, query: Tensor, weights: Tensor) -> Tensor:
    """`[B, W]` of values `[B, L, W]`, of which there are those of `there [B, L]`, and queries `[B, W]`."""
    width = values.shape[-1]
    asked = query.unsqueeze(1).expand_as(values)
    bias, last, offset = weights[4 * width :].unbind()
    pairs = torch.cat([values, asked, asked - values, asked * values], -1)
    hidden = torch.relu(pairs @ weights[: 4 * width] + bias)
    score = (hidden * last).sum(-1) + offset[0]
    return (values * (score * there).unsqueeze(-1)).sum(1)


class AttentionWeights:
    """The weights of all sequences of one stack of tables, and their optimizer."""

    def __init__(
        self, names: Sequence[str], lengths: Sequence[int], width: int, optimizer: TableOptimizer, home: torch.device
    ) -> None:
        self.names, self._lengths, self._width = tuple(names), tuple(lengths), width
        rows = 4 * width + 3

        def empty(shape: tuple[int, ...]) -> Tensor:
            return torch.empty(shape, device=home)

        self.tensors = [empty((rows, HIDDEN)).zero_() for _ in names]
        self._optimizers = [RowOptimizer(replace(optimizer, l2=0.0), rows, HIDDEN, empty) for _ in names]

    @torch.no_grad()
    def fill(self, seed: int) -> None:
        """Start between a sum and a mean: every value counts 1 / sqrt(length), give or take what the hidden layer says."""
        from recnas.model.embeddings.plain import fill_normal

        for name, length, weights in zip(self.names, self._lengths, self.tensors):
            fill_normal(weights, seed, f"attention/{name}")
            weights[4 * self._width].zero_()
            weights[4 * self._width + 2].zero_()
            weights[4 * self._width + 2, 0] = length**-0.5

    def step(self, grads: Sequence[Tensor], lr: float) -> None:
        for weights, grad, optimizer in zip(self.tensors, grads, self._optimizers):
            optimizer.step(weights, torch.arange(len(weights), device=weights.device), grad, lr)

    def set_steps(self, steps: int) -> None:
        for optimizer in self._optimizers:
            optimizer.steps = steps

    def state(self) -> dict[str, dict[str, Tensor]]:
        """As `Embeddings.state_dict`."""
        found: dict[str, dict[str, Tensor]] = {"weights": dict(zip(map(stored_name, self.names), self.tensors))}
        for name, optimizer in zip(self.names, self._optimizers):
            for part, tensor in optimizer.state.items():
                found.setdefault(part, {})[stored_name(name)] = tensor
        return found


def stored_name(field: str) -> str:
    """In checkpoints; no column can have this name."""
    return f"attention/{field}"
