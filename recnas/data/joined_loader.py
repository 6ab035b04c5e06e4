"""Batches from several splits as if they were one: what the last training of a chosen model reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from recnas.data.batch import Batch
from recnas.data.loader import BatchLoader
from recnas.seeds import stream


class JoinedLoader:
    """Mixes the batches of several loaders, each batch from one of them, in an order fixed by (seed, epoch).

    Every epoch uses every batch once. The position is two integers, as that of a `BatchLoader`.
    """

    def __init__(self, loaders: Sequence[BatchLoader], seed: int) -> None:
        self.loaders, self.seed = list(loaders), seed
        self._epoch = self._batch = 0

    def __len__(self) -> int:
        return sum(map(len, self.loaders))

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self._epoch, "batch": self._batch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._epoch, self._batch = int(state["epoch"]), int(state["batch"])

    def epoch(self) -> Iterator[Batch]:
        """The rest of the current epoch; the position moves on before a batch is handed out."""
        if self._batch >= len(self):
            self._epoch, self._batch = self._epoch + 1, 0
        turns = np.repeat(np.arange(len(self.loaders)), [len(loader) for loader in self.loaders])
        turns = stream(self.seed, "split-turns", self._epoch).permutation(turns)
        used = np.bincount(turns[: self._batch], minlength=len(self.loaders))
        for loader, batches in zip(self.loaders, used):
            loader.load_state_dict({"epoch": self._epoch, "batch": int(batches)})
        # A loader that has none left would start its next epoch; its turn does not come any more.
        sources = [loader.epoch() for loader in self.loaders]
        for turn in turns[self._batch :]:
            self._batch += 1
            yield next(sources[turn])
