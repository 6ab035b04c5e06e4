"""Warm up a weight-sharing supernet on a share of the training rows.

RUN/manifest.json   config, data fingerprint, versions
RUN/supernet/       the newest checkpoint: shared weights, tables, optimizer state
RUN/ledger.jsonl    one line per random subnet that was checked with the shared weights
RUN/result.json     steps, rows, mean validation log loss of those subnets
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import torch

from recnas.data.prepared import PreparedData
from recnas.errors import RunError
from recnas.files import write_json
from recnas.model.embeddings import Embeddings
from recnas.model.nasrec.init import HEAD_START
from recnas.model.nasrec.supernet import Supernet
from recnas.plugins import require
from recnas.progress import Progress
from recnas.runs.folder import RunDir
from recnas.runs.layout import RESULT
from recnas.runs.records import CheckedSubnet, read_lines
from recnas.runs.results import SubnetLosses, WarmupResult
from recnas.seeds import stream
from recnas.space.nasrec.json import to_dict
from recnas.space.nasrec.plan import HEAD_WEIGHT
from recnas.space.settings import make_ctr_space
from recnas.train.checkpoint import Checkpoint, load_latest
from recnas.train.distributed import current_ranks
from recnas.train.evaluate import evaluate
from recnas.train.loop import SupernetPaths
from recnas.train.paths import PathSampler
from recnas.train.settings import TrainSettings, WarmupConfig
from recnas.train.setup import (
    check_same_data,
    choose_device,
    make_loader,
    make_tables,
    net_shape,
    new_trainer,
    steps_of,
    train_with_checkpoints,
    written_run,
)
from recnas.train.vectors import use_vectors


def warmup(config: WarmupConfig, out: Path | str, progress: Progress | None = None) -> WarmupResult:
    """Warm up as the config says; a run that exists is continued."""
    progress = progress or Progress(quiet=True)
    data = PreparedData.open(config.data)
    ranks = current_ranks()
    ranks.check_batch(config.supernet.batch_size, "supernet.batch_size")
    check_same_data(data)
    device = choose_device(config.supernet)
    with written_run(out, "warmup", data, config.supernet.threads, config=config.model_dump(mode="json")) as run:
        started = time.monotonic()
        supernet, embeddings, steps = _warm(config, data, run, device, progress)
        seconds = time.monotonic() - started
        checked = _check(config, data, run, supernet, embeddings, device, progress)
        rows = round(config.warmup.data_share * data.rows("train"))
        result = WarmupResult(
            share=config.warmup.data_share,
            steps=steps,
            rows=rows,
            batch_size=_settings(config, rows).batch_size,
            seconds=seconds,
            valid_logloss_of_subnets=SubnetLosses(
                archs=len(checked),
                mean=statistics.fmean(checked) if checked else None,
                std=statistics.stdev(checked) if len(checked) > 1 else None,
            ),
        )
        if ranks.first:
            write_json(run.path / RESULT, result.to_json())
    return result


def _warm(
    config: WarmupConfig, data: PreparedData, run: RunDir, device: torch.device, progress: Progress
) -> tuple[Supernet, Embeddings, int]:
    space = make_ctr_space(config.space, data.schema.n_sparse)
    supernet = Supernet(space, net_shape(data.schema, config.supernet), torch.Generator().manual_seed(config.seed)).to(
        device
    )
    embeddings = make_tables(data.schema, config.supernet, config.seed, device, supernet)
    rows = round(config.warmup.data_share * data.rows("train"))
    use_vectors(embeddings, data, supernet, config.supernet)
    if rows == 0:  # zero-shot: the weights as they were drawn
        return supernet, embeddings, 0
    with torch.no_grad():
        supernet.storages[HEAD_WEIGHT].mul_(HEAD_START)
    train = _settings(config, rows)
    loader = make_loader(data, train, config.seed, device, rows)
    steps = steps_of(loader, train)
    sampler = PathSampler(space, config.seed, steps, config.warmup.strategy, config.warmup.full_path_share)
    trainer = new_trainer(
        SupernetPaths(supernet, sampler, config.supernet.head_lr_share), embeddings, loader, train, device, steps, data
    )
    train_with_checkpoints(trainer, run.path / "supernet", _made_from(data, supernet), progress, "warm up")
    return supernet, embeddings, steps


def _settings(config: WarmupConfig, rows: int) -> TrainSettings:
    size = config.warmup.batch_size(rows, config.supernet.batch_size)
    return config.supernet.model_copy(update={"batch_size": size})


def _made_from(data: PreparedData, supernet: Supernet) -> dict[str, Any]:
    return {"data": data.fingerprint, "supernet": supernet.describe()}


def _check(
    config: WarmupConfig,
    data: PreparedData,
    run: RunDir,
    supernet: Supernet,
    embeddings: Embeddings,
    device: torch.device,
    progress: Progress,
) -> list[float]:
    """Validation log loss of random subnets under the shared weights; finished ones are not repeated."""
    rng = stream(config.seed, "warmup-check")
    ranks = current_ranks()
    lines: list[CheckedSubnet] = read_lines("warmup", run.ledger.read(), str(run.ledger.path)) if ranks.first else []
    done = ranks.share({line.key: line for line in lines})
    losses = []
    progress.phase("check subnets", config.check.archs, "archs")
    for _ in range(config.check.archs):
        arch = supernet.space.sample(rng)
        line = done.get(arch.shared_key)
        if line is None:
            metrics = evaluate(
                supernet.candidate(arch), embeddings, data, "valid",
                batch_size=config.supernet.eval_batch_size, rows=config.check.rows, device=device,
            )  # fmt: skip
            line = CheckedSubnet(key=arch.shared_key, arch=to_dict(arch), valid=metrics)
            if ranks.first:
                run.ledger.append(line.to_json())
        loss = line.valid["logloss"]
        assert loss is not None, "evaluate refuses losses that are not finite"
        losses.append(loss)
        progress.advance(1)
    progress.end()
    return losses


def load_warmed(
    out: Path | str, asked: WarmupConfig | None = None
) -> tuple[Supernet, Embeddings, PreparedData, WarmupConfig]:
    """A warmed supernet and its tables, for scoring. Refused if the data were prepared anew since.

    Args:
        asked: what it must have been warmed up with; None takes any.

    Raises:
        RunError: the final weights are not there, or not whole: never are others taken in their place.
    """
    run = RunDir.open(out)
    manifest = run.manifest()
    run.check("warmup")
    require(manifest, run.path)
    if asked is not None:
        wanted = asked.model_dump(mode="json")
        wanted["supernet"]["threads"] = manifest["config"]["supernet"]["threads"]  # settled when the run was made
        run.check("warmup", config=wanted)
    data = PreparedData.open(run.data_path())
    run.check("warmup", data={"path": str(data.path), "fingerprint": data.fingerprint})
    config = WarmupConfig.model_validate(manifest["config"] | {"data": str(data.path)})
    device = choose_device(config.supernet)
    supernet = Supernet(
        make_ctr_space(config.space, data.schema.n_sparse),
        net_shape(data.schema, config.supernet),
        torch.Generator().manual_seed(config.seed),
    ).to(device)
    embeddings = make_tables(data.schema, config.supernet, config.seed, device, supernet)
    if round(config.warmup.data_share * data.rows("train")):  # else the weights are those that were drawn
        _take_weights(_final(run.path, _made_from(data, supernet)), supernet, embeddings)
    return supernet, embeddings, data, config


def _final(run: Path, made_from: dict[str, Any]) -> Checkpoint:
    """The checkpoint of a warm-up that ended."""
    folder = run / "supernet"
    saved = load_latest(folder, made_from)
    if saved is None or saved.step < saved.facts["total_steps"]:
        found = (
            "there is none" if saved is None else f"it stops at step {saved.step:,} of {saved.facts['total_steps']:,}"
        )
        unfinished = not (run / RESULT).exists()
        raise RunError(
            f"{folder} should hold the warmed weights, but {found}.",
            f"The warm-up is not finished: repeat the command that began it ({run})."
            if unfinished
            else f"Files were removed. Restore them, or let the warm-up be done again: recnas repair {run}",
        )
    return saved


@torch.no_grad()
def _take_weights(saved: Checkpoint, supernet: Supernet, embeddings: Embeddings) -> None:
    for name, storage in supernet.storages.items():
        storage.copy_(saved.tensors[f"network/{name}"])
    embeddings.load_state_dict(
        {
            part: {name: saved.tensors[f"embeddings/{part}/{name}"] for name in tables}
            for part, tables in embeddings.state_dict().items()
        }
    )
