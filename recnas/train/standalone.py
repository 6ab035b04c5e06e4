"""Train one architecture from scratch, once per seed, and write down what it reached.

    RUN/manifest.json   architecture, settings, data fingerprint, versions
    RUN/arch.json       the architecture in recnas's own format
    RUN/schema.json     the inputs, so that the weights can be loaded without the data
    RUN/ledger.jsonl    one line per finished seed
    RUN/seed-0/         checkpoint with weights and tables
    RUN/predictions/    logits of every seed on the rows of validation and test, .npy
    RUN/result.json     mean and standard deviation over the seeds

The test split is read once per seed, after its training has ended; nothing is chosen by it.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from recnas.data.prepared import PreparedData
from recnas.files import fsync_folder, fsync_tree, part_of, write_json, write_text
from recnas.model.nasrec.subnet import new_subnet
from recnas.progress import Progress
from recnas.runs.folder import RunDir
from recnas.runs.layout import RESULT
from recnas.runs.records import Metrics, SeedTraining, read_lines
from recnas.runs.results import Spread, TrainResult
from recnas.space.nasrec.arch import NasrecArch
from recnas.space.nasrec.cost import count
from recnas.space.nasrec.json import dump_arch, to_dict
from recnas.train.distributed import current_ranks
from recnas.train.evaluate import evaluate
from recnas.train.logits import logits_path, write_logits
from recnas.train.loop import FixedNetwork
from recnas.train.metrics import Metric, reported
from recnas.train.settings import TrainSettings
from recnas.train.setup import (
    check_same_data,
    check_stopping,
    choose_device,
    make_joined_loader,
    make_tables,
    net_shape,
    new_trainer,
    train_with_checkpoints,
    watch_validation,
    watched,
    written_run,
)
from recnas.train.vectors import use_vectors
from recnas.train.warm import WarmStart


def train(
    arch: NasrecArch,
    data: PreparedData,
    out: Path | str,
    settings: TrainSettings | None = None,
    seeds: int = 1,
    first_seed: int = 0,
    progress: Progress | None = None,
    on: str = "train",
    trained: Mapping[int, Path] | None = None,
    warm: WarmStart | None = None,
) -> TrainResult:
    """Train `arch` with seeds first_seed, first_seed + 1, ...; a run that exists is continued.

    `on="train+valid"` adds the validation rows, for a model that is already chosen; they are then not
    evaluated. `trained` are folders of trainings, by seed, that have ended already with these settings: their
    checkpoints are taken over. `warm` are weights that the network and the tables start with.
    """
    settings = settings or TrainSettings()
    progress = progress or Progress(quiet=True)
    ranks = current_ranks()
    ranks.check_batch(settings.batch_size, "batch_size")
    check_same_data(data)
    if on == "train":
        check_stopping(settings, data, progress if ranks.first else Progress(quiet=True))
    device = choose_device(settings)
    facts: dict[str, Any] = {
        "arch": to_dict(arch),
        "settings": settings.model_dump(mode="json"),
        "on": on,
        **({} if warm is None else {"from": warm.facts}),
    }
    with written_run(out, "train", data, settings.threads, **facts) as run:
        if ranks.first:
            write_text(run.path / "arch.json", dump_arch(arch))
            write_json(run.path / "schema.json", data.schema.to_dict())
        done = ranks.share(_finished(run) if ranks.first else {})
        for seed in range(first_seed, first_seed + seeds):
            if seed not in done:
                if ranks.first and trained is not None and seed in trained:
                    _take_over(trained[seed], run.path / f"seed-{seed}")
                done[seed] = _train_one(arch, data, run, settings, seed, device, progress, on, warm)
                if ranks.first:
                    run.ledger.append(done[seed].to_json())
        result = _result(arch, data, settings, [done[seed] for seed in sorted(done)])
        if ranks.first:
            write_json(run.path / RESULT, result.to_json())
    return result


def _take_over(source: Path, folder: Path) -> None:
    """Copy a checkpoint, whole or not at all."""
    if folder.exists() or not source.is_dir():
        return
    part = part_of(folder)
    shutil.copytree(source, part)
    fsync_tree(part)
    part.rename(folder)
    fsync_folder(folder.parent)


def _finished(run: RunDir) -> dict[int, SeedTraining]:
    lines: list[SeedTraining] = read_lines("train", run.ledger.read(), str(run.ledger.path))
    return {line.seed: line for line in lines}


def _train_one(
    arch: NasrecArch,
    data: PreparedData,
    run: RunDir,
    settings: TrainSettings,
    seed: int,
    device: torch.device,
    progress: Progress,
    on: str,
    warm: WarmStart | None = None,
) -> SeedTraining:
    network = new_subnet(arch, net_shape(data.schema, settings), seed, settings.dropout).to(device)
    embeddings = make_tables(data.schema, settings, seed, device, network)
    loader = make_joined_loader(data, settings, seed, device, on)
    trainer = new_trainer(
        FixedNetwork(network), embeddings, loader, settings, device, data=data if warm is None else None
    )
    if warm is not None:
        use_vectors(embeddings, data, network, settings)
        warm.fill(network, embeddings)
        if embeddings.frozen is not None:
            embeddings.frozen.keep_as_now()
    if on == "train":
        watch_validation(trainer, network, data)
    started = time.monotonic()
    train_with_checkpoints(
        trainer,
        run.path / f"seed-{seed}",
        {"data": data.fingerprint, "arch": arch.key, "seed": seed, "on": on},
        progress,
        f"train seed {seed}",
        point_steps=100,
    )
    seconds = time.monotonic() - started
    metrics: dict[str, Metrics] = {}
    for split in ("valid", "test") if on == "train" else ("test",):
        progress.phase(split, data.rows(split))
        logits: list[torch.Tensor] = []
        metrics[split] = evaluate(
            network,
            embeddings,
            data,
            split,
            batch_size=settings.eval_batch_size,
            device=device,
            on_rows=progress.advance,
            on_logits=logits.append,
        )
        if current_ranks().first:
            write_logits(logits_path(run.path, split, seed), torch.cat(logits).float().cpu().numpy())
    progress.end()
    return SeedTraining(
        seed=seed,
        steps=trainer.trained_steps,
        seconds=seconds,
        train_curve=trainer.curve,
        **watched(trainer),
        **metrics,
    )


def _result(
    arch: NasrecArch, data: PreparedData, settings: TrainSettings, lines: Sequence[SeedTraining]
) -> TrainResult:
    cost = count(arch, data.schema, width=settings.embeddings.width, layernorm=settings.layernorm)
    metrics = reported(data.schema.labels)
    valid, test = (
        _spreads(metrics, [read for line in lines if (read := getattr(line, split)) is not None])
        for split in ("valid", "test")
    )
    entropy = (test or valid).get("normalized_entropy")
    return TrainResult(
        key=arch.key,
        data=data.fingerprint,
        seeds=tuple(line.seed for line in lines),
        params=cost.params,
        macs=cost.macs,
        embedding_params=cost.embedding_params,
        valid=valid,
        test=test,
        worse_than_constant=entropy is not None and entropy.mean is not None and entropy.mean > 1,
    )


def _spreads(metrics: Sequence[Metric], lines: Sequence[Metrics]) -> dict[str, Spread]:
    """Over the seeds of one split; a metric that no seed has is left out."""
    spreads = {}
    for name in (metric.name for metric in metrics):
        if values := [value for one in lines if (value := one[name]) is not None]:
            deviation = statistics.stdev(values) if len(values) > 1 else None
            spreads[name] = Spread(mean=statistics.fmean(values), std=deviation, values=tuple(values))
    return spreads
