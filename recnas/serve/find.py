"""Which training a name such as `RUN:deepfm:seed-3` means, and the network that it trained, still without weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from torch import nn

from recnas.baselines.base import InputShape
from recnas.baselines.zoo import build, find_name
from recnas.config import check_settings, nearest
from recnas.data.schema import Schema
from recnas.errors import RunError
from recnas.files import read_json
from recnas.model.nasrec.subnet import Subnet
from recnas.runs.folder import RunDir
from recnas.runs.layout import file_name
from recnas.runs.records import ModelTraining, SeedTraining, read_lines
from recnas.space.nasrec.json import from_dict
from recnas.train.recipe import model_options
from recnas.train.settings import TrainSettings
from recnas.train.setup import net_shape, with_tables_of

_SEED = re.compile(r"seed-(\d+)")
T = TypeVar("T", SeedTraining, ModelTraining)


class Training(NamedTuple):
    """A network that is still to get its weights, and where these are."""

    folder: Path
    line: SeedTraining | ModelTraining  # of the ledger
    key: str
    described: dict[str, Any]
    network: nn.Module
    settings: TrainSettings
    made_from: dict[str, Any]


def find_run(spec: str, seed: int | None) -> tuple[RunDir, list[str]]:
    """The run directory of `RUN:name:...` (for a search: of its winner), and the names, with `seed` among them."""
    run, names = _find(spec)
    if seed is not None:
        if names and _SEED.fullmatch(names[-1]) and names[-1] != f"seed-{seed}":
            raise RunError(f"{spec} and --seed {seed} name two seeds.", "Leave one of them out.")
        names = [*(name for name in names if name != "best" and not _SEED.fullmatch(name)), f"seed-{seed}"]
    return (_winner(run) if run.manifest().get("kind") == "search" else run), names


def find_training(run: RunDir, names: list[str], schema: Callable[[], Schema]) -> Training:
    """The one training of a run that the names mean."""
    kind = run.manifest().get("kind")
    if kind == "train":
        return _trained(run, names, schema)
    if kind == "compare":
        return _compared(run, names, schema)
    raise RunError(
        f"{run.path} is a {kind} run; it holds no model trained from scratch.",
        "Train one: recnas train ARCH.json --data DIR --out RUN, or recnas search CONFIG --out RUN",
    )


def _trained(run: RunDir, names: list[str], schema: Callable[[], Schema]) -> Training:
    _check_names(run, names, 0)
    lines: list[SeedTraining] = read_lines("train", run.ledger.read(), str(run.ledger.path))
    if not lines:
        raise RunError(
            f"No training in {run.path} has finished yet.",
            f"Repeat the command it was started with (recnas train ... --out {run.path}): it continues.",
        )
    line = _choose(str(run.path), lines, names[-1] if names else "")
    manifest = run.manifest()
    settings = check_settings(TrainSettings, manifest["settings"], str(run.manifest_path))
    arch = from_dict(manifest["arch"])
    network = Subnet(arch, net_shape(schema(), settings))
    settings = with_tables_of(network, settings)
    folder = run.path / f"seed-{line.seed}"
    return Training(folder, line, arch.key, manifest["arch"], network, settings, {"arch": arch.key, "seed": line.seed})


def _compared(run: RunDir, names: list[str], schema: Callable[[], Schema]) -> Training:
    """A model of `recnas compare --keep`; without a name, there must be but one."""
    _check_names(run, names, 1)
    kept: dict[str, list[ModelTraining]] = {}
    lines = read_lines("compare", run.ledger.read(), str(run.ledger.path))
    for line in (one for one in lines if isinstance(one, ModelTraining) and one.event == "seed"):
        if line.failed is None and (_kept_in(run, line) / "model.json").exists():
            kept.setdefault(line.id, []).append(line)
    if not kept:
        raise RunError(
            f"The comparison in {run.path} kept no weights.",
            "Compare again with --keep and another --out, or train one architecture: recnas train",
        )
    wanted = [name for name in names if name != "best" and not _SEED.fullmatch(name)]
    labels = {lines[0].model: key for key, lines in kept.items()}
    key = (find_name(wanted[0]) or labels.get(wanted[0], wanted[0])) if wanted else next(iter(kept))
    if key not in kept or (not wanted and len(kept) > 1):
        asked = f"no model {wanted[0]!r}; {nearest(wanted[0], kept)}" if wanted else "several models"
        raise RunError(f"{run.path} has {asked}", f"Name one of: {', '.join(f'{run.path}:{name}' for name in kept)}")
    pick = names[-1] if names and names[-1] not in wanted else ""
    line = _choose(f"{run.path}:{key}", kept[key], pick)
    folder = _kept_in(run, line)
    made_from = read_json(folder / "model.json")
    settings = check_settings(TrainSettings, made_from["settings"], str(folder / "model.json"))
    # The tables of some networks are wider than their vectors: this is the vectors' width.
    width = run.manifest()["settings"]["embeddings"]["width"]
    if made_from["model"]["kind"] == "architecture":
        described = made_from["model"]["arch"]
        shape = replace(net_shape(schema(), settings), width=width)
        network: nn.Module = Subnet(from_dict(described), shape)
    else:
        options = model_options(key, settings, made_from["choice"])
        described = {"model": key, "options": options, "width": width}
        network = build(key, InputShape.of(schema(), width), options)
    return Training(folder, line, key, described, network, settings, made_from)


def _kept_in(run: RunDir, line: ModelTraining) -> Path:
    return run.path / "models" / f"{file_name(line.id)}-seed-{line.seed}"


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


def _choose(where: str, lines: Sequence[T], wanted: str) -> T:
    """The ledger's line of the seed asked for; a seed without one has not finished."""
    done = {line.seed: line for line in lines}
    match = _SEED.fullmatch(wanted)
    if match is None:
        judged = [
            (loss, line.seed)
            for line in done.values()
            if line.valid is not None and (loss := line.valid.get("logloss")) is not None
        ]
        return done[min(judged)[1] if wanted == "best" and judged else min(done)]
    if int(match[1]) not in done:
        known = ", ".join(str(number) for number in sorted(done))
        raise RunError(
            f"{where} has no finished seed {match[1]}; it has {known}.",
            f"Write {where}:seed-{min(done)}, or train that seed: the run's own command with --seed {match[1]}",
        )
    return done[int(match[1])]
