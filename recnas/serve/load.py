"""Open a trained model again, from its run directory.

    RUN             a training run: its first finished seed. A search run: its winner
    RUN:best        the seed with the lowest validation log loss (of the winner, for a search run)
    RUN:seed-3      that seed
    RUN:deepfm      a model of a comparison that kept its weights; also RUN:deepfm:seed-3, RUN:deepfm:best

    model = load_trained("runs/criteo:best")
    model.predict(batch.dense, batch.ids)            # probabilities [B]

Weights come from safetensors and JSON files, so nothing that is read is ever executed. A run keeps its own
copy of the schema, so the weights need nothing else; raw text needs the vocabulary of the prepared data,
which `TrainedModel.data` opens and checks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from recnas.baselines.base import InputShape
from recnas.baselines.zoo import build, find_name
from recnas.config import check_settings, nearest
from recnas.data.prepared import PreparedData
from recnas.data.schema import Schema
from recnas.errors import DataError, RunError
from recnas.model.embeddings import RowMap, TableReader
from recnas.model.nasrec.subnet import Subnet
from recnas.runs.folder import RunDir
from recnas.runs.layout import file_name
from recnas.space.nasrec.json import from_dict
from recnas.train.checkpoint import Checkpoint, load_latest
from recnas.train.recipe import model_options
from recnas.train.settings import TrainSettings
from recnas.train.setup import net_shape

SCHEMA = "schema.json"  # the run's own copy
_SEED = re.compile(r"seed-(\d+)")


@dataclass(frozen=True)
class TrainedModel:
    """A network and its tables as one training left them, ready to predict.

    Attributes:
        path: folder of the seed's checkpoint. key: of the architecture, or the name of a hand-crafted model.
        described: what was built, as JSON. fingerprint: of the data it was trained on.
        data_path: where those data were. metrics: by split, as measured when its training ended.
    """

    path: Path
    seed: int
    key: str
    described: dict[str, Any]
    network: nn.Module
    tables: TableReader
    schema: Schema
    settings: TrainSettings
    fingerprint: str
    data_path: Path
    metrics: dict[str, Any]

    @torch.no_grad()
    def logits(self, dense: Tensor, ids: Tensor) -> Tensor:
        """Logits `[B]` of `dense [B, I]` and `ids [B, F]`."""
        device = self.tables.stack.device
        return self.network(dense.to(device), self.tables.lookup(ids.to(device)))

    def predict(self, dense: Tensor, ids: Tensor) -> Tensor:
        """Click probabilities `[B]`."""
        return self.logits(dense, ids).sigmoid()

    def data(self, path: Path | str | None = None) -> PreparedData:
        """The data it was trained on, from where they were or from `path`; others are refused."""
        return trained_data(path or self.data_path, self.fingerprint, moved=path is not None)


def trained_data(path: Path | str, fingerprint: str, moved: bool = False) -> PreparedData:
    path = Path(path)
    if not moved and not path.exists():
        raise DataError(
            f"The model was trained on {path}, which is not there (any more); the vocabulary that turns raw "
            "values into ids is kept with those data.",
            "Put the folder back, or say where it is now: --data DIR",
        )
    data = PreparedData.open(path)
    if data.fingerprint != fingerprint:
        raise DataError(
            f"{path} holds other data than the model was trained on (fingerprint {data.fingerprint[:16]}, "
            f"not {fingerprint[:16]}), so its ids mean other values.",
            "Give the folder the model was trained on: --data DIR. Compare with: recnas inspect DIR",
        )
    return data


def load_trained(
    spec: str | Path,
    data: Path | str | None = None,
    seed: int | None = None,
    device: torch.device | str = "cpu",
) -> TrainedModel:
    """The model that `spec` names; see the module's text.

    Args:
        data: where the prepared data are, if they were moved.
        seed: the same as `RUN:seed-N`.

    Raises:
        RunError: there is no such run, it is not finished, or it holds no trained model.
    """
    run, names = _find(str(spec))
    if seed is not None:
        if names and _SEED.fullmatch(names[-1]) and names[-1] != f"seed-{seed}":
            raise RunError(f"{spec} and --seed {seed} name two seeds.", "Leave one of them out.")
        names = [*(name for name in names if name != "best" and not _SEED.fullmatch(name)), f"seed-{seed}"]
    if run.manifest().get("kind") == "search":
        run = _winner(run)
    manifest = run.manifest()
    fingerprint, data_path = manifest.get("data", {}).get("fingerprint"), data or run.data_path()
    known = _schema(run.path)

    def schema() -> Schema:
        return known or trained_data(data_path, fingerprint, moved=data is not None).schema

    if manifest.get("kind") == "train":
        part = _trained(run, names, schema)
    elif manifest.get("kind") == "compare":
        part = _compared(run, names, schema)
    else:
        raise RunError(
            f"{run.path} is a {manifest.get('kind')} run; it holds no model trained from scratch.",
            "Train one: recnas train ARCH.json --data DIR --out RUN, or recnas search CONFIG --out RUN",
        )
    saved = _checkpoint(part.folder, {"data": fingerprint, **part.made_from})
    network = part.network.to(device).eval()
    fill_network(network, saved.tensors, part.folder)
    return TrainedModel(
        path=part.folder,
        seed=int(part.event["seed"]),
        key=part.key,
        described=part.described,
        network=network,
        tables=fill_tables(schema(), part.settings, saved.tensors, torch.device(device), part.folder),
        schema=schema(),
        settings=part.settings,
        fingerprint=fingerprint,
        data_path=Path(data_path),
        metrics={str(split): part.event[split] for split in ("valid", "test") if split in part.event},
    )


class _Part(NamedTuple):
    """A network that is still to get its weights, and where these are."""

    folder: Path
    event: dict[str, Any]  # the ledger's line
    key: str
    described: dict[str, Any]
    network: nn.Module
    settings: TrainSettings
    made_from: dict[str, Any]


def _trained(run: RunDir, names: list[str], schema: Callable[[], Schema]) -> _Part:
    _check_names(run, names, 0)
    events = [event for event in run.ledger.read() if event.get("event") == "seed"]
    if not events:
        raise RunError(
            f"No training in {run.path} has finished yet.",
            f"Repeat the command it was started with (recnas train ... --out {run.path}): it continues.",
        )
    event = _choose(str(run.path), events, names[-1] if names else "")
    manifest = run.manifest()
    settings = check_settings(TrainSettings, manifest["settings"], str(run.manifest_path))
    arch = from_dict(manifest["arch"])
    network = Subnet(arch, net_shape(schema(), settings))
    folder = run.path / f"seed-{event['seed']}"
    return _Part(folder, event, arch.key, manifest["arch"], network, settings, {"arch": arch.key})


def _compared(run: RunDir, names: list[str], schema: Callable[[], Schema]) -> _Part:
    """A model of `recnas compare --keep`; without a name, there must be but one."""
    _check_names(run, names, 1)
    kept: dict[str, list[dict[str, Any]]] = {}
    for event in run.ledger.read():
        folder = run.path / "models" / f"{file_name(str(event.get('id')))}-seed-{event.get('seed')}"
        if event.get("event") == "seed" and "failed" not in event and (folder / "model.json").exists():
            kept.setdefault(event["id"], []).append({**event, "folder": folder})
    if not kept:
        raise RunError(
            f"The comparison in {run.path} kept no weights.",
            "Compare again with --keep and another --out, or train one architecture: recnas train",
        )
    wanted = [name for name in names if name != "best" and not _SEED.fullmatch(name)]
    labels = {events[0]["model"]: key for key, events in kept.items()}
    key = (find_name(wanted[0]) or labels.get(wanted[0], wanted[0])) if wanted else next(iter(kept))
    if key not in kept or (not wanted and len(kept) > 1):
        asked = f"no model {wanted[0]!r}; {nearest(wanted[0], kept)}" if wanted else "several models"
        raise RunError(f"{run.path} has {asked}", f"Name one of: {', '.join(f'{run.path}:{name}' for name in kept)}")
    pick = names[-1] if names and names[-1] not in wanted else ""
    event = _choose(f"{run.path}:{key}", kept[key], pick)
    folder = event.pop("folder")
    made_from = json.loads((folder / "model.json").read_text())
    settings = check_settings(TrainSettings, made_from["settings"], str(folder / "model.json"))
    if made_from["model"]["kind"] == "architecture":
        described = made_from["model"]["arch"]
        network: nn.Module = Subnet(from_dict(described), net_shape(schema(), settings))
    else:
        # The tables of some models are wider than their vectors: this is the vectors' width.
        width = run.manifest()["settings"]["embeddings"]["width"]
        options = model_options(key, settings, made_from["choice"])
        described = {"model": key, "options": options, "width": width}
        network = build(key, InputShape.of(schema(), width), options)
    return _Part(folder, event, key, described, network, settings, made_from)


# Weights


@torch.no_grad()
def fill_network(network: nn.Module, tensors: Mapping[str, Tensor], source: Path | str) -> None:
    """Copy `network/...` of a checkpoint into a network of the same shapes; gradients are switched off."""
    mine = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    saved = {name.removeprefix("network/") for name in tensors if name.startswith("network/")}
    if mine.keys() != saved:
        raise RunError(
            f"{source} holds the weights of another network than its architecture describes.",
            "The run was changed, or written by another version. Train again.",
        )
    for name, tensor in mine.items():
        tensor.copy_(tensors[f"network/{name}"])
        tensor.requires_grad_(False)


@torch.no_grad()
def fill_tables(
    schema: Schema,
    settings: TrainSettings,
    tensors: Mapping[str, Tensor],
    device: torch.device,
    source: Path | str,
) -> TableReader:
    """The tables of a checkpoint for reading: no optimizer state, so half the memory of training."""
    options = settings.embeddings
    row_map = RowMap(schema, options.cap, options.hash_rows, device)
    stack = torch.empty((row_map.total, options.width), device=device)
    for name, start, rows in zip(row_map.names, row_map.starts, row_map.rows):
        table = tensors.get(f"embeddings/weights/{name}")
        if table is None or tuple(table.shape) != (rows, options.width):
            found = "none" if table is None else list(table.shape)
            raise RunError(
                f"{source} should hold a table of {[rows, options.width]} for column {name}; it has {found}.",
                "The run was changed, or its schema.json is of other data. Train again.",
            )
        stack[start : start + rows].copy_(table)
    return TableReader(stack, row_map)


def _checkpoint(folder: Path, made_from: dict[str, Any]) -> Checkpoint:
    saved = load_latest(folder, made_from)
    if saved is None:
        raise RunError(
            f"{folder} has no whole checkpoint, though its training ended: files were removed or damaged.",
            "Restore the folder, or train again into a new --out.",
        )
    if saved.step < saved.facts["total_steps"]:
        raise RunError(
            f"{folder} holds step {saved.step:,} of {saved.facts['total_steps']:,}: the last checkpoint is damaged.",
            "Restore the folder, or train again into a new --out.",
        )
    return saved


# Finding


def _find(spec: str) -> tuple[RunDir, list[str]]:
    """The run directory and what follows it behind colons; a folder may have colons in its own name."""
    path, names = spec, list[str]()
    while not Path(path).is_dir() and ":" in path:
        path, _, last = path.rpartition(":")
        names.insert(0, last)
    if not Path(path).is_dir():
        raise RunError(
            f"There is no run directory {path}.",
            "Check the path; runs are made by recnas search, recnas train and recnas compare --keep.",
        )
    if not (Path(path) / "manifest.json").exists():
        raise RunError(
            f"{path} is not a run directory: it has no manifest.json.",
            "Give the folder that was --out of recnas search or recnas train.",
        )
    return RunDir.open(path), names


def _check_names(run: RunDir, names: list[str], models: int) -> None:
    """At most `models` names of models, then at most one `best` or `seed-N`."""
    rest = names[:-1] if names and (names[-1] == "best" or _SEED.fullmatch(names[-1])) else names
    if len(rest) > models:
        raise RunError(
            f"{run.path} has no model {':'.join(names)!r}.",
            f"Write {run.path}, {run.path}:best or {run.path}:seed-0",
        )


def _winner(run: RunDir) -> RunDir:
    if not (run.path / "result.json").exists() or not (run.path / "winner" / "result.json").exists():
        raise RunError(
            f"The search in {run.path} is not finished: its winner has no trained weights yet.",
            f"Continue it: recnas search --resume {run.path}",
        )
    return RunDir.open(run.path / "winner")


def _choose(where: str, events: list[dict[str, Any]], wanted: str) -> dict[str, Any]:
    """The ledger's line of the seed asked for; a seed without one has not finished."""
    done = {int(event["seed"]): event for event in events}
    match = _SEED.fullmatch(wanted)
    if match is None:
        scored = [event for event in done.values() if "valid" in event]
        if wanted == "best" and scored:
            return min(scored, key=lambda event: (event["valid"]["logloss"], event["seed"]))
        return done[min(done)]
    if int(match[1]) not in done:
        known = ", ".join(str(number) for number in sorted(done))
        raise RunError(
            f"{where} has no finished seed {match[1]}; it has {known}.",
            f"Write {where}:seed-{min(done)}, or train that seed: the run's own command with --seed {match[1]}",
        )
    return done[int(match[1])]


def _schema(folder: Path) -> Schema | None:
    """The run's copy, if it has one: runs of earlier versions have not."""
    try:
        return Schema.from_dict(json.loads((folder / SCHEMA).read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{folder / SCHEMA} is damaged.", "Restore it from the prepared data.") from None
