"""Losses that were computed but not looked at yet, so that the host need not wait for a device in every step.

Where steps are computed on the CPU a loss is read at once. Elsewhere reading one makes the host wait until the
device has done all it was told, so losses are kept there and read many at a time: after the first step, then every
`READ_EVERY` steps, and before anything is kept, evaluated or ended (`Trainer.settle`). A loss that is not a number is
therefore noticed late, and still by its own step and batch; whatever was trained since is thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recnas.errors import RunError

READ_EVERY = 50  # steps on a device


class NotFinite(RunError):
    """The loss is not a number any more; nothing after the last checkpoint was kept."""

    def __init__(self, value: float, step: int, position: Mapping[str, int], before: Sequence[float] = ()) -> None:
        self.value, self.before = value, tuple(before)  # the losses before it that nobody had read
        super().__init__(
            f"The training loss became {value} at step {step + 1} (epoch {position['epoch']}, batch {position['batch']}).",
            "The last checkpoint is from before that. Lower the setting lr or set clip, and start a new run.",
        )

    def __reduce__(self) -> tuple:
        return (RunError, (self.what, self.fix))


def is_finite(value: float) -> bool:
    return value == value and value not in (float("inf"), float("-inf"))


@dataclass(frozen=True)
class _Pending:
    loss: Tensor  # a scalar, where it was computed
    step: int
    position: Mapping[str, int]  # of the loader


class PendingLosses:
    """Keeps losses until `read` looks at all of them at once."""

    def __init__(self, device: torch.device) -> None:
        self.every = 1 if device.type == "cpu" else READ_EVERY
        self._waiting: list[_Pending] = []
        self._first = True

    def add(self, loss: Tensor, step: int, position: Mapping[str, int]) -> None:
        self._waiting.append(_Pending(loss, step, position))

    @property
    def due(self) -> bool:
        return self._first or len(self._waiting) >= self.every

    def read(self) -> list[float]:
        """The losses since the last call, in order; raises `NotFinite` for the first that is not a number."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return []
        self._first = False
        if len(waiting) == 1:
            values = [float(waiting[0].loss)]
        else:
            values = torch.stack([one.loss for one in waiting]).tolist()
        for place, (one, value) in enumerate(zip(waiting, values)):
            if not is_finite(value):
                raise NotFinite(value, one.step, one.position, values[:place])
        return values

    def forget(self) -> None:
        """The training goes on from another state."""
        self._waiting = []
