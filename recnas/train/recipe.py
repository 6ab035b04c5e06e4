"""What tuning may change about the training of any model, hand-crafted or searched: declared once, the same for all.

A model's own options (widths, numbers of layers ...) come on top, in `recnas.baselines.zoo`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recnas.baselines.zoo import get_entry
from recnas.train.settings import TrainSettings

# Learning rates of the layers, by optimizer.
LEARNING_RATES: Mapping[str, tuple[float, ...]] = {
    "adagrad": (0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24),
    "adamw": (1e-4, 2e-4, 3e-4, 5e-4, 7e-4, 1e-3, 1.5e-3, 2e-3, 3e-3, 5e-3, 1e-2),
}
TABLE_L2 = "embeddings.l2"
RECIPE: Mapping[str, tuple[float, ...]] = {
    "dropout": (0.0, 0.1, 0.2, 0.4),
    TABLE_L2: (0.0, 1e-6, 1e-5, 1e-4, 1e-3),
}


def recipe_grid(optimizer: str) -> dict[str, tuple[Any, ...]]:
    """Every value that tuning tries, by the name of the setting."""
    return {"lr": LEARNING_RATES[optimizer], **RECIPE}


def recipe_of(settings: TrainSettings) -> dict[str, Any]:
    """The same settings as they are before tuning."""
    return {"lr": settings.lr, "dropout": settings.dropout, TABLE_L2: settings.embeddings.l2}


def with_recipe(settings: TrainSettings, choice: Mapping[str, Any]) -> tuple[TrainSettings, dict[str, Any]]:
    """Training settings under a choice, and the rest of the choice, which is the model's own."""
    own = dict(choice)
    tables = settings.embeddings.model_copy(update={"l2": own.pop(TABLE_L2)})
    changed = {"lr": own.pop("lr"), "dropout": own.pop("dropout"), "embeddings": tables}
    return settings.model_copy(update=changed), own


def model_options(name: str, settings: TrainSettings, choice: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a hand-crafted model under a choice; `settings` has the choice's recipe in it already."""
    _, own = with_recipe(settings, choice)
    shared = {"dropout": settings.dropout, "norm": settings.norm}
    known = get_entry(name).settings.model_fields
    return {option: value for option, value in shared.items() if option in known} | own
