"""One small trained model, shared by the tests that load, score and export it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from recnas.jobs.train import train
from recnas.space.nasrec import NasrecSpace
from recnas.train.settings import EmbeddingSettings, TrainSettings

SETTINGS = TrainSettings(
    batch_size=256, epochs=0.1, lr=0.03, threads=1, embeddings=EmbeddingSettings(width=8), device="cpu"
)


def small_arch(seed: int = 1):
    return NasrecSpace("nasrec-full", blocks=2).sample(np.random.default_rng(seed))


@pytest.fixture(scope="session")
def trained_run(criteo_data, tmp_path_factory) -> Path:
    """A training run of two seeds on the generated Criteo rows."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("trained") / "run"
    train(small_arch(), criteo_data, out, SETTINGS, seeds=2)
    return out
