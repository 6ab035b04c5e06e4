"""One small trained model, shared by the tests that load, score and export it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from recnas.space.nasrec import NasrecSpace
from recnas.train.settings import EmbeddingSettings, TrainSettings
from recnas.train.standalone import train

SETTINGS = TrainSettings(batch_size=256, epochs=0.1, lr=0.03, threads=1, device="cpu")


@pytest.fixture(scope="session")
def train_small():
    """Trains a small random architecture; `limit` bounds its tables (cap or hash_rows)."""

    def run(data, out: Path, arch: int = 1, seeds: int = 1, **limit: int) -> Path:
        torch.set_num_threads(1)
        settings = SETTINGS.model_copy(update={"embeddings": EmbeddingSettings(width=8, **limit)})
        space = NasrecSpace("nasrec-full", blocks=2)
        train(space.sample(np.random.default_rng(arch)), data, out, settings, seeds)
        return out

    return run


@pytest.fixture(scope="session")
def trained_run(criteo_data, tmp_path_factory, train_small) -> Path:
    """A training run of two seeds on the generated Criteo rows."""
    return train_small(criteo_data, tmp_path_factory.mktemp("trained") / "run", seeds=2)
