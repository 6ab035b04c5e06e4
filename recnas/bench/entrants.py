"""The models of a comparison: what each is made of, and what tuning may change about it."""

from __future__ import annotations

import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from recnas.baselines.base import Baseline, InputShape
from recnas.baselines.counts import count_macs, count_params
from recnas.baselines.zoo import build, get_entry
from recnas.bench.other_models import OTHER_MODELS
from recnas.data.schema import Schema
from recnas.model.embeddings import Embeddings
from recnas.model.nasrec.subnet import new_subnet
from recnas.seeds import stream
from recnas.space.nasrec.cost import count
from recnas.space.nasrec.json import from_dict
from recnas.train.recipe import model_options, recipe_grid, recipe_of, with_recipe
from recnas.train.settings import TrainSettings
from recnas.train.setup import make_tables, net_shape, with_tables_of

Choice = dict[str, Any]  # the learning rate, whatever else of a model tuning may change, what a user set; JSON-able
Grid = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Built:
    """A new network and its tables, and what they cost."""

    network: nn.Module
    embeddings: Embeddings
    settings: TrainSettings
    cost: dict[str, int]


@dataclass(frozen=True)
class Entrant(ABC):
    """One row of the leaderboard. `id` stands for it in the ledger, `label` on the screen."""

    id: str
    label: str
    searched: ClassVar[bool] = False  # is it an architecture, rather than a hand-crafted model?
    repeats: ClassVar[bool] = False  # does every seed give the same model?

    @abstractmethod
    def grid(self, settings: TrainSettings) -> Grid:
        """Everything tuning may change, by name."""

    @abstractmethod
    def default(self, settings: TrainSettings) -> Choice:
        """What it starts from; it need not lie on the grid."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What it is, as JSON, for files."""

    def points(self, settings: TrainSettings) -> int:
        """How many different choices there are."""
        grid, default = self.grid(settings), self.default(settings)
        on_grid = all(default[name] in _plain(values) for name, values in grid.items())
        return prod(map(len, grid.values())) + (not on_grid)

    def choices(self, settings: TrainSettings, trials: int, seed: int, instead: Grid | None = None) -> list[Choice]:
        """The default and further points of the grid, drawn without repeats; fewer if the grid ends.

        More trials are the same trials and more: the order depends on the seed and the model alone.

        Args:
            instead: values of some settings, in the place of those that the grid has.
        """
        default, grid = self.default(settings), {**self.grid(settings), **(instead or {})}
        sizes = [len(values) for values in grid.values()]
        chosen = [default]
        for index in stream(seed, "tuning-trials", zlib.crc32(self.id.encode())).permutation(prod(sizes)):
            if len(chosen) >= trials:
                break
            places = np.unravel_index(index, sizes) if sizes else ()
            point = default | {name: _plain(values[int(at)]) for (name, values), at in zip(grid.items(), places)}
            if point != default:
                chosen.append(point)
        return chosen


@dataclass(frozen=True)
class Trainable(Entrant):
    """An entrant that our own trainer trains.

    `given` is what a user has set for this entrant alone: options of the model, and settings of the recipe.
    """

    given: tuple[tuple[str, Any], ...] = field(default=(), kw_only=True)

    @abstractmethod
    def build(self, choice: Choice, schema: Schema, settings: TrainSettings, seed: int, device: torch.device) -> Built:
        """Network and tables under one choice."""


@dataclass(frozen=True)
class HandCrafted(Trainable):
    """A model of the zoo."""

    def grid(self, settings: TrainSettings) -> Grid:
        return {**recipe_grid(settings), **get_entry(self.id).grid}

    def default(self, settings: TrainSettings) -> Choice:
        chosen = get_entry(self.id).settings()
        own = {name: getattr(chosen, name) for name in get_entry(self.id).grid}
        return _plain(recipe_of(settings) | own | dict(self.given))

    def describe(self) -> dict[str, Any]:
        return {"kind": "hand-crafted", "model": self.id}

    def build(self, choice: Choice, schema: Schema, settings: TrainSettings, seed: int, device: torch.device) -> Built:
        width = settings.embeddings.width
        shape = InputShape.of(schema, width)
        settings, _ = with_recipe(settings, choice)
        network = build(self.id, shape, model_options(self.id, settings, choice), seed)
        assert isinstance(network, Baseline)
        embeddings = make_tables(schema, settings, seed, device, network)
        layout = network.field_columns
        columns = (network.table_width(width),) * schema.n_sparse if layout is None else layout.columns
        cost = {
            "params": count_params(network),
            "macs": count_macs(network, shape),
            "embedding_params": sum(rows * own for rows, own in zip(embeddings.rows, columns)),
        }
        return Built(network.to(device), embeddings, with_tables_of(network, settings), cost)


@dataclass(frozen=True)
class Architecture(Trainable):
    """A NASRec architecture, with how its search had its networks built."""

    arch: dict[str, Any]
    options: tuple[tuple[str, Any], ...] = ()
    searched = True

    def grid(self, settings: TrainSettings) -> Grid:
        return recipe_grid(settings)

    def default(self, settings: TrainSettings) -> Choice:
        return _plain(recipe_of(settings) | dict(self.given))

    def describe(self) -> dict[str, Any]:
        return {"kind": "architecture", "arch": self.arch, "options": _plain(dict(self.options))}

    def build(self, choice: Choice, schema: Schema, settings: TrainSettings, seed: int, device: torch.device) -> Built:
        width = settings.embeddings.width
        settings, _ = with_recipe(settings.model_copy(update=dict(self.options)), choice)
        arch = from_dict(self.arch)
        network = new_subnet(arch, net_shape(schema, settings), seed, settings.dropout)
        counted = count(arch, schema, width=width, layernorm=settings.layernorm)
        embeddings = make_tables(schema, settings, seed, device, network)
        columns = schema.table_columns(arch.table_columns(width, schema.n_sparse, schema.n_labels))
        cost = {
            "params": counted.params,
            "macs": counted.macs,
            "embedding_params": sum(
                rows * columns[field] for rows, field in zip(embeddings.rows, embeddings.row_map.owners)
            ),
        }
        return Built(network.to(device), embeddings, with_tables_of(network, settings), cost)


@dataclass(frozen=True)
class OtherLibrary(Entrant):
    """A model of another library, fitted on the same encoded rows."""

    repeats = True

    def grid(self, settings: TrainSettings) -> Grid:
        return dict(OTHER_MODELS[self.id].grid)

    def default(self, settings: TrainSettings) -> Choice:
        return {name: OTHER_MODELS[self.id].default[name] for name in OTHER_MODELS[self.id].grid}

    def describe(self) -> dict[str, Any]:
        return {"kind": "other-library", "model": self.id}


def _plain(value: Any) -> Any:
    """As JSON gives it back: lists for tuples."""
    return json.loads(json.dumps(value))
