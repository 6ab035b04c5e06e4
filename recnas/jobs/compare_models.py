"""What `recnas compare` can put side by side, and what tuning may change about each.

dlrm, deepfm, ...   a model of the zoo              RUN:best     the winner of a finished search
sklearn-lr          scikit-learn's, as a floor      ARCH.json    any NASRec architecture
lightgbm            likewise, if it is installed    all          the zoo, as far as the data fit, and scikit-learn's
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from recnas.baselines.base import Baseline, InputShape, start_tables
from recnas.baselines.counts import count_macs, count_params
from recnas.baselines.zoo import LEARNING_RATES, ZOO, build, check_fits, find_name, fits
from recnas.config import nearest
from recnas.data.prepared import PreparedData
from recnas.data.schema import Schema
from recnas.errors import ConfigError, RecnasError
from recnas.jobs.compare_floors import FLOORS
from recnas.jobs.find_arch import named_arch
from recnas.jobs.training import make_embeddings, net_shape
from recnas.model.embeddings import Embeddings
from recnas.model.subnet import new_subnet
from recnas.run import RunDir
from recnas.space.cost import count
from recnas.space.nasrec_arch import NasrecArch
from recnas.space.nasrec_json import from_dict, to_dict
from recnas.train.settings import TrainSettings

Choice = dict[str, Any]  # the learning rate and whatever else of a model tuning may change; JSON-able
DRAW_STREAM = 5  # keeps tuning's draws apart from every other use of a seed


@dataclass(frozen=True)
class Entrant:
    """One row of the leaderboard. `id` stands for it in the ledger, `label` on the screen."""

    id: str
    label: str
    kind: Literal["baseline", "arch", "floor"]
    arch: dict[str, Any] | None = None  # the architecture, and how its search had its networks built
    options: tuple[tuple[str, Any], ...] = ()

    def grid(self, optimizer: str) -> dict[str, tuple[Any, ...]]:
        """Everything tuning may change, by name."""
        if self.kind == "floor":
            return dict(FLOORS[self.id].grid)
        rates = {"lr": LEARNING_RATES[optimizer]}
        return {**rates, **ZOO[self.id].grid} if self.kind == "baseline" else rates

    def default(self, settings: TrainSettings) -> Choice:
        if self.kind == "floor":
            return {name: FLOORS[self.id].default[name] for name in FLOORS[self.id].grid}
        choice: Choice = {"lr": settings.lr}
        if self.kind == "baseline":
            chosen = ZOO[self.id].settings()
            choice |= {name: getattr(chosen, name) for name in ZOO[self.id].grid}
        return json.loads(json.dumps(choice))

    def choices(self, settings: TrainSettings, trials: int, seed: int) -> list[Choice]:
        """The default and further points of the grid, drawn without repeats; fewer if the grid ends.

        More trials are the same trials and more: the order depends on the seed and the model alone.
        """
        default, grid = self.default(settings), self.grid(settings.optimizer)
        points = [
            json.loads(json.dumps(dict(zip(grid, values)))) for values in itertools.product(*grid.values())
        ]
        rng = np.random.default_rng([seed, DRAW_STREAM, zlib.crc32(self.id.encode())])
        drawn = [points[i] for i in rng.permutation(len(points))]
        return [default, *(point for point in drawn if point != default)][: max(1, trials)]


def resolve(names: Sequence[str], data: PreparedData) -> list[Entrant]:
    """Entrants by name, in the order given. Every mistake is reported at once."""
    found: dict[str, Entrant] = {}
    faults: list[str] = []
    for name in names:
        try:
            entrants = _resolve(name, data)
        except RecnasError as error:
            faults.append(f"{error.what}{f' ({error.fix})' if error.fix else ''}")
            continue
        for entrant in entrants:
            earlier = found.get(entrant.id)
            if earlier is not None and name != "all":
                same = f" as {earlier.label}" if earlier.label != entrant.label else ""
                faults.append(f"{name} is the same model{same}, named twice")
            elif earlier is None:
                if any(entrant.label == other.label for other in found.values()):
                    entrant = replace(entrant, label=f"{entrant.label} ({entrant.id[:8]})")
                found[entrant.id] = entrant
    if not names:
        faults.append("no model is named")
    if faults:
        lines = "\n".join(f"  - {fault}" for fault in faults)
        raise ConfigError(
            f"these models cannot be compared:\n{lines}",
            f"Hand-crafted: {', '.join([*ZOO, *FLOORS])}, or all. Searched: RUN:best. Architectures: ARCH.json.",
        )
    return list(found.values())


def find_entrant(name: str, entrants: Sequence[Entrant]) -> Entrant:
    """The entrant a user means by `name`: label, id, alias or the same text as in --models."""
    for entrant in entrants:
        if name in (entrant.label, entrant.id) or find_name(name) == entrant.id:
            return entrant
    labels = [entrant.label for entrant in entrants]
    raise ConfigError(
        f"--reference {name} is not among the models that are compared; {nearest(name, labels)}",
        f"Add it to --models, or choose one of: {', '.join(labels)}",
    )


def _resolve(name: str, data: PreparedData) -> list[Entrant]:
    if name == "all":
        return [*(Entrant(n, n, "baseline") for n in ZOO if fits(n, data.schema.n_sparse)), Entrant("sklearn-lr", "sklearn-lr", "floor")]
    if (known := find_name(name)) is not None:
        check_fits(known, data.schema.n_sparse)
        return [Entrant(known, known, "baseline")]
    if name in FLOORS:
        return [Entrant(name, name, "floor")]
    if name.endswith(":best"):
        return [_searched(name, Path(name.removesuffix(":best")), data)]
    if name.endswith(".json") or Path(name).is_file():
        return [_architecture(named_arch(name), Path(name).stem, {})]
    raise ConfigError(f"there is no model {name!r}; {nearest(name.lower(), [*ZOO, *FLOORS])}")


def _searched(name: str, path: Path, data: PreparedData) -> Entrant:
    run = RunDir.open(path)
    run.check("search")
    manifest = run.manifest()
    theirs = manifest["data"]
    if theirs["fingerprint"] != data.fingerprint:
        raise ConfigError(
            f"{name} was searched on other data ({theirs['path']}, fingerprint {theirs['fingerprint'][:12]}) than "
            f"{data.path} ({data.fingerprint[:12]}): figures from different data say nothing about models; "
            f"compare on {theirs['path']}, or train {path}/best.json here as an architecture"
        )
    if not (path / "result.json").exists():
        raise ConfigError(f"{path} is not finished; continue it: recnas search --resume {path}")
    final = manifest["config"]["final"]
    train = final.get("retrain_train") or final["train"]
    built = {key: train[key] for key in ("layernorm", "activation") if key in train}
    return _architecture(named_arch(name), name, built)


def _architecture(arch: NasrecArch, label: str, built: dict[str, Any]) -> Entrant:
    return Entrant(arch.key, label, "arch", to_dict(arch), tuple(sorted(built.items())))


@dataclass(frozen=True)
class Built:
    """A new network and its tables, and what they cost."""

    network: nn.Module
    embeddings: Embeddings
    settings: TrainSettings
    cost: dict[str, int]


def build_entrant(
    entrant: Entrant,
    choice: Mapping[str, Any],
    schema: Schema,
    settings: TrainSettings,
    seed: int,
    device: torch.device,
) -> Built:
    """Network and tables of a trained entrant under one choice."""
    width = settings.embeddings.width
    changes: dict[str, Any] = {"lr": choice["lr"]}
    if entrant.kind == "arch":
        assert entrant.arch is not None
        settings = settings.model_copy(update={**changes, **dict(entrant.options)})
        arch = from_dict(entrant.arch)
        network: nn.Module = new_subnet(arch, net_shape(schema, settings), seed)
        counted = count(arch, schema, width=width, layernorm=settings.layernorm)
        params, macs, columns = counted.params, counted.macs, width
    else:
        shape = InputShape.of(schema, width)
        chosen = {name: value for name, value in choice.items() if name != "lr"}
        network = build(entrant.id, shape, chosen, seed)
        assert isinstance(network, Baseline)
        params, macs, columns = (
            count_params(network),
            count_macs(network, shape),
            network.table_width(width),
        )
        padded = columns + (-columns % 4 if settings.embeddings.backend == "fused" else 0)
        tables = settings.embeddings.model_copy(update={"width": padded})
        settings = settings.model_copy(update={**changes, "embeddings": tables})
    embeddings = make_embeddings(schema, settings, seed, device)
    start_tables(embeddings, network, width)
    cost = {"params": params, "macs": macs, "embedding_params": sum(embeddings.rows) * columns}
    return Built(network.to(device), embeddings, settings, cost)
