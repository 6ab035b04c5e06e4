"""Open a trained model again, from its run directory.

    RUN             a training run: its first finished seed. A search run: its winner
    RUN:best        the seed with the lowest validation log loss (of the winner, for a search run)
    RUN:seed-3      that seed

    model = load_trained("runs/criteo:best")
    model.predict(batch.dense, batch.ids)            # probabilities [B]

Weights come from safetensors and JSON files, so nothing that is read is ever executed. A run keeps its own
copy of the schema, so the weights need nothing else; raw text needs the vocabulary of the prepared data,
which `TrainedModel.data` opens and checks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recnas.config import check_settings
from recnas.data.prepared import PreparedData
from recnas.data.schema import Schema
from recnas.errors import DataError, RunError
from recnas.jobs.training import net_shape
from recnas.model.embeddings import RowMap, TableReader
from recnas.model.subnet import Subnet
from recnas.run import RunDir
from recnas.space.nasrec_arch import NasrecArch
from recnas.space.nasrec_json import from_dict
from recnas.train.checkpoint import Checkpoint, load_latest
from recnas.train.settings import TrainSettings

SCHEMA = "schema.json"  # the run's own copy
_SEED = re.compile(r"seed-(\d+)")


@dataclass(frozen=True)
class TrainedModel:
    """A network and its tables as one training left them, ready to predict.

    Attributes:
        path: folder of the seed's checkpoint. fingerprint: of the data it was trained on.
        data_path: where those data were. metrics: by split, as measured when its training ended.
    """

    path: Path
    seed: int
    arch: NasrecArch
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
    run, wanted = _find(str(spec))
    manifest = run.manifest()
    if manifest.get("kind") == "search":
        run = _winner(run)
        manifest = run.manifest()
    if manifest.get("kind") != "train":
        raise RunError(
            f"{run.path} is a {manifest.get('kind')} run; it holds no model trained from scratch.",
            "Train one: recnas train ARCH.json --data DIR --out RUN, or recnas search CONFIG --out RUN",
        )
    event = _seed_event(run, wanted if seed is None else f"seed-{seed}")
    fingerprint, data_path = manifest["data"]["fingerprint"], Path(manifest["data"]["path"])
    schema = _schema(run.path) or trained_data(data or data_path, fingerprint, data is not None).schema
    settings = check_settings(TrainSettings, manifest["settings"], str(run.manifest_path))
    arch = from_dict(manifest["arch"])
    folder = run.path / f"seed-{event['seed']}"
    saved = _checkpoint(folder, {"data": fingerprint, "arch": arch.key})
    network = Subnet(arch, net_shape(schema, settings)).to(device).eval()
    fill_network(network, saved.tensors, folder)
    tables = fill_tables(schema, settings, saved.tensors, torch.device(device), folder)
    metrics = {split: event[split] for split in ("valid", "test") if split in event}
    return TrainedModel(
        path=folder,
        seed=int(event["seed"]),
        arch=arch,
        network=network,
        tables=tables,
        schema=schema,
        settings=settings,
        fingerprint=fingerprint,
        data_path=Path(data) if data is not None else data_path,
        metrics=metrics,
    )


# Weights


@torch.no_grad()
def fill_network(network: nn.Module, tensors: Mapping[str, Tensor], source: Path | str) -> None:
    """Copy `network/...` of a checkpoint into a network of the same shapes; gradients are switched off."""
    mine = dict(network.named_parameters())
    saved = {name.removeprefix("network/") for name in tensors if name.startswith("network/")}
    if mine.keys() != saved:
        raise RunError(
            f"{source} holds the weights of another network than its architecture describes.",
            "The run was changed, or written by another version. Train again.",
        )
    for name, parameter in mine.items():
        parameter.copy_(tensors[f"network/{name}"])
        parameter.requires_grad_(False)


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


def _find(spec: str) -> tuple[RunDir, str]:
    """The run directory and what follows the colon; a folder may have a colon in its name."""
    path, colon, wanted = spec.rpartition(":")
    if Path(spec).exists() or not colon:
        path, wanted = spec, ""
    if not Path(path).is_dir():
        raise RunError(
            f"There is no run directory {path}.",
            "Check the path; runs are made by recnas search and recnas train.",
        )
    if wanted not in ("", "best") and not _SEED.fullmatch(wanted):
        raise RunError(
            f"{spec}: {wanted!r} names no model of a run.", f"Write {path}, {path}:best or {path}:seed-0"
        )
    if not (Path(path) / "manifest.json").exists():
        raise RunError(
            f"{path} is not a run directory: it has no manifest.json.",
            "Give the folder that was --out of recnas search or recnas train.",
        )
    return RunDir.open(path), wanted


def _winner(run: RunDir) -> RunDir:
    if not (run.path / "result.json").exists() or not (run.path / "best" / "result.json").exists():
        raise RunError(
            f"The search in {run.path} is not finished: its winner has no trained weights yet.",
            f"Continue it: recnas search --resume {run.path}",
        )
    return RunDir.open(run.path / "best")


def _seed_event(run: RunDir, wanted: str) -> dict[str, Any]:
    """The ledger's line of the seed asked for; a seed without one has not finished."""
    done = {int(event["seed"]): event for event in run.ledger.read() if event.get("event") == "seed"}
    if not done:
        raise RunError(
            f"No training in {run.path} has finished yet.",
            f"Repeat the command it was started with (recnas train ... --out {run.path}): it continues.",
        )
    match = _SEED.fullmatch(wanted)
    if match is None:
        scored = [event for event in done.values() if "valid" in event]
        if wanted == "best" and scored:
            return min(scored, key=lambda event: (event["valid"]["logloss"], event["seed"]))
        return done[min(done)]
    if int(match[1]) not in done:
        known = ", ".join(str(number) for number in sorted(done))
        raise RunError(
            f"{run.path} has no finished seed {match[1]}; it has {known}.",
            f"Write {run.path}:seed-{min(done)}, or train that seed: recnas train ... --seed {match[1]}",
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
