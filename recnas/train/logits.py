"""Scores that outlast a training, so that models can be compared row by row: logits in file order, float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recnas.files import write_atomic


def logits_path(folder: Path, split: str, seed: int) -> Path:
    """Of one seed of a training whose run directory is `folder`."""
    return folder / "predictions" / f"{split}-seed-{seed}.npy"


def write_logits(path: Path, logits: np.ndarray) -> None:
    """Whole or absent."""
    write_atomic(path, lambda file: np.save(file, logits.astype(np.float32)))
