"""What tuning may change about the training of any model, hand-crafted or searched: declared once, the same for all.

A model's own options (widths, numbers of layers ...) come on top, in `recnas.baselines.zoo`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from recnas.baselines.zoo import get_entry
from recnas.seeds import stream
from recnas.train.settings import TrainSettings

# Learning rates of the layers, by optimizer.
LEARNING_RATES: Mapping[str, tuple[float, ...]] = {
    "adagrad": (0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24),
    "adamw": (1e-4, 2e-4, 3e-4, 5e-4, 7e-4, 1e-3, 1.5e-3, 2e-3, 3e-3, 5e-3, 1e-2),
}
# Of the tables, by their optimizer; null: as the layers.
TABLE_RATES: Mapping[str, tuple[float | None, ...]] = {
    "adagrad": (0.03, 0.06, 0.12, 0.24),
    "rowwise-adagrad": (0.03, 0.06, 0.12, 0.24),
    "adam": (None, 3e-4, 1e-3, 3e-3),
}
TABLE_L2 = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 5e-2)
DROPOUTS = (0.0, 0.1, 0.2, 0.4)
BATCH_SIZES = (128, 256, 512, 1024, 4096)
AVERAGES = (None, 0.999)

TABLES = "embeddings."  # what settings of the tables begin with
KEYS = ("lr", "dropout", "batch_size", "average", TABLES + "lr", TABLES + "l2")


def recipe_grid(settings: TrainSettings) -> dict[str, tuple[Any, ...]]:
    """Every value that tuning tries, by the name of the setting."""
    values = (
        LEARNING_RATES[settings.optimizer],
        DROPOUTS,
        BATCH_SIZES,
        AVERAGES,
        TABLE_RATES[settings.embeddings.optimizer],
        TABLE_L2,
    )
    return dict(zip(KEYS, values, strict=True))


def recipe_of(settings: TrainSettings) -> dict[str, Any]:
    """The same settings as they are before tuning."""
    tables = settings.embeddings
    return {
        key: getattr(tables, key.removeprefix(TABLES)) if key.startswith(TABLES) else getattr(settings, key)
        for key in KEYS
    }


def drawn_recipe(
    settings: TrainSettings,
    around: Mapping[str, Any],
    keep: float,
    seed: int,
    what: str,
    number: int,
    batch_sizes: Sequence[int] = BATCH_SIZES,
) -> dict[str, Any]:
    """Another point of the grid, near a recipe: each setting stays as it is with the probability `keep`.

    Args:
        what, number: whose recipe it is, and which of its recipes; each has draws of its own.
        batch_sizes: instead of the grid's.
    """
    grid = recipe_grid(settings) | {"batch_size": tuple(batch_sizes)}
    rng = stream(seed, "drawn-recipes", zlib.crc32(what.encode()), number)
    changed = dict(around)
    while changed == dict(around):
        for name, values in grid.items():
            drawn, stays = values[int(rng.integers(len(values)))], rng.random() < keep
            changed[name] = around[name] if stays else drawn
    return json.loads(json.dumps(changed))


def with_recipe(settings: TrainSettings, choice: Mapping[str, Any]) -> tuple[TrainSettings, dict[str, Any]]:
    """Training settings under a choice, and the rest of the choice, which is the model's own."""
    recipe = {key: value for key, value in choice.items() if key in KEYS}
    of_tables = {key.removeprefix(TABLES): value for key, value in recipe.items() if key.startswith(TABLES)}
    tables = settings.embeddings.model_copy(update=of_tables)
    changed = {key: value for key, value in recipe.items() if not key.startswith(TABLES)} | {"embeddings": tables}
    return settings.model_copy(update=changed), {key: value for key, value in choice.items() if key not in KEYS}


def model_options(name: str, settings: TrainSettings, choice: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a hand-crafted model under a choice; `settings` has the choice's recipe in it already."""
    _, own = with_recipe(settings, choice)
    shared = {"dropout": settings.dropout, "norm": settings.norm}
    known = get_entry(name).settings.model_fields
    return {option: value for option, value in shared.items() if option in known} | own
