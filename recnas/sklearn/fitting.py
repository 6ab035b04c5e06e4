"""From rows in memory to a trained model: a file, `recnas.prepare`, and the job that trains the kind of model asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from recnas.api.comparing import compare
from recnas.api.data import prepare
from recnas.api.searching import search
from recnas.api.serving import load
from recnas.api.training import train_model
from recnas.baselines.zoo import find_name, model_names
from recnas.config import nearest
from recnas.data.prepared import PreparedData
from recnas.errors import ConfigError, SpaceError
from recnas.serve.load import TrainedModel
from recnas.sklearn.columns import LABEL, WEIGHT, BadInput, Columns, free_name
from recnas.space.nasrec.arch import NasrecArch
from recnas.tasks.archs import named_arch

SEARCH = "search"
LEAST_OF_A_CLASS = 2  # one row for training and one for validation


@dataclass(frozen=True)
class Fit:
    """What is fitted, and how; paths are inside `folder`."""

    folder: Path
    model: Any
    train: Mapping[str, Any]
    options: Mapping[str, Any]
    search: Mapping[str, Any]
    config: str
    seed: int
    workers: int

    def run(self, data: PreparedData) -> tuple[TrainedModel, str]:
        """The trained model, and how commands name it."""
        spec = self._trained(data)
        return load(spec), spec

    def _trained(self, data: PreparedData) -> str:
        out = self.folder / "run"
        if isinstance(self.model, str) and self.model == SEARCH:
            said = [*_texts({"seed": self.seed, "supernet.threads": 1}), *_texts(self.search)]
            said += _texts(self.train, "final.train.")
            return f"{search(self.config, out, *said, data=data, workers=self.workers).path}:best"
        settings = _texts({"threads": 1, **self.train})  # a result must not depend on how many jobs run beside it
        if isinstance(self.model, str) and (name := find_name(self.model)) is not None:
            said = [f"seed={self.seed}", "seeds=1", "latency_on=none", *settings]
            said += _texts(self.options, f"options.{name}.")
            compare([name], out, *said, data=data, keep=True, workers=1)
            return f"{out}:{name}"
        train_model(_architecture(self.model), data, out, *settings, seed=self.seed)
        return str(out)


def prepared(
    folder: Path,
    frame: pd.DataFrame,
    clicked: np.ndarray,
    weight: np.ndarray | None,
    columns: Columns,
    *,
    scaling: str,
    min_count: int,
    held_out: tuple[float, float],
    seed: int,
) -> PreparedData:
    """The rows as training data: `held_out` are the shares of validation and test."""
    frame = columns.raw(frame)
    label, heavy = free_name(LABEL, frame), free_name(WEIGHT, frame)
    rows = frame.assign(**{label: clicked}, **({heavy: weight} if weight is not None else {}))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.yaml").write_text(
        columns.recipe(label, heavy if weight is not None else None, scaling, min_count)
    )
    rows.to_parquet(folder / "rows.parquet", index=False)
    np.save(folder / "split.npy", split_rows(clicked, weight, held_out, seed))
    options: dict[str, Any] = {"split_index": str(folder / "split.npy"), "parquet": False, "protocol": "index"}
    return prepare(folder / "recipe.yaml", folder / "rows.parquet", folder / "data", **options)


def split_rows(clicked: np.ndarray, weight: np.ndarray | None, held_out: tuple[float, float], seed: int) -> np.ndarray:
    """0 train, 1 validation, 2 test of every row: these shares of the clicks and of the others.

    Validation has at least one of each, and test one of those of which there are three.
    """
    split = np.zeros(len(clicked), np.uint8)
    rng = np.random.default_rng(seed)
    for value in (0, 1):
        rows = np.flatnonzero((clicked == value) & (True if weight is None else weight > 0))
        if len(rows) < LEAST_OF_A_CLASS:
            counted = "" if weight is None else " with a weight"
            raise BadInput(
                f"n_samples={len(clicked)}: a class has {len(rows)} rows{counted}, and {LEAST_OF_A_CLASS} are needed, "
                "for training and validation.",
                "Fit on more rows.",
            )
        rows = rng.permutation(rows)
        valid, test = (max(1, round(share * len(rows))) for share in held_out)
        test = min(test, len(rows) - LEAST_OF_A_CLASS)
        split[rows[:valid]], split[rows[valid : valid + test]] = 1, 2
        if valid + test >= len(rows):
            raise BadInput(
                f"of {len(rows)} rows of a class none is left for training.",
                "Lower validation_fraction or test_fraction.",
            )
    return split


def _texts(settings: Mapping[str, Any], above: str = "") -> list[str]:
    """As "key=value": a dotted key changes one setting, a dictionary stands for a whole section."""
    return [f"{above}{key}={json.dumps(value)}" for key, value in settings.items()]


def _architecture(model: Any) -> NasrecArch:
    if isinstance(model, NasrecArch):
        return model
    try:
        return named_arch(str(model))
    except SpaceError as error:
        if isinstance(model, str) and not set(model) & set("/:."):
            known = [*model_names(), SEARCH]
            raise ConfigError(
                f"there is no model {model!r}; {nearest(model, known)}",
                f"Hand-crafted: {', '.join(known[:-1])}; or search, ARCH.json, RUN:best.",
            ) from error
        raise
