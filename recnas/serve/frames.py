"""Predictions for the raw rows of a pandas frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch

from recnas.errors import DataError
from recnas.serve.load import TrainedModel


def predict_frame(model: TrainedModel, frame: Any) -> pd.Series | pd.DataFrame:
    """Click probabilities of raw rows, under the frame's own index; of several labels a column each."""
    if not isinstance(frame, pd.DataFrame):
        raise DataError(
            f"predict was given a {type(frame).__name__} alone.",
            "Give it a pandas frame with the raw columns, or two tensors: dense and ids.",
        )
    rows = model.rows.encode(frame)
    size = model.settings.eval_batch_size
    parts = [
        model.predict(
            torch.from_numpy(rows.dense[start : start + size]), torch.from_numpy(rows.ids[start : start + size])
        )
        for start in range(0, len(rows.ids), size)
    ]
    found = torch.cat(parts).float().cpu().numpy() if parts else np.zeros(0, np.float32)
    if model.schema.labels:
        names = [label.name for label in model.schema.labels]
        return pd.DataFrame(found.reshape(-1, len(names)), index=frame.index, columns=names)
    return pd.Series(found, index=frame.index, name="probability")
