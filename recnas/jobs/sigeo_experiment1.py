"""SiGeo's experiment 1: do the statistics of its theorem 2 rank networks by where their training ends?

Two-layer ReLU networks of width 2, 4, ..., 48 are trained for three epochs of plain SGD. After a share of the first epoch
(none, 10 %, 40 %) four batches not yet seen give, at fixed weights:

    loss            mean training loss                                       lower is better
    fisher_rao      mean over batches of (theta . g)^2                       higher is better
    mean_gradient   mean over batches of sum |g|, the L1 norm of theorem 2   higher is better
    zico            SiGeo's first term, sum over parameters of log sum (mean |g| / std)
    width           the width itself, to see what the others add

and are rank-correlated, over the widths, with the final training and test loss; +1 is perfect.

    RUN/manifest.json   settings, fingerprint of the data
    RUN/ledger.jsonl    one line per (seed, width): statistics at each warm-up, final losses
    RUN/result.json     the correlations

MNIST and Fashion-MNIST come from idx files you have. `digits` (scikit-learn's 1,797 images of 8 x 8, a fifth of them for
testing) needs no files; it is small, so its batches are smaller and its learning rate higher than the paper's.

Departures: images are normalised by their own mean and deviation (the text names those of CIFAR-10, three colours, for
grey images). The text has a learning rate of 0.02 in one place and 0.01 in another; 0.02 is the default.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from recnas.bench.correlation import rank_correlation
from recnas.engines.execution import Execution
from recnas.errors import ConfigError
from recnas.evaluators.two_layer import STATISTICS, Experiment1, TrainAndMeasure, load
from recnas.files import write_json
from recnas.runs.folder import RunDir
from recnas.runs.records import TwoLayerTraining, read_lines

KIND = "experiment1"


def experiment1(settings: Experiment1, out: Path | str, how: Execution | None = None) -> list[dict[str, Any]]:
    """Train what is not trained yet, correlate, write `result.json`; one row per (statistic, warm-up, split)."""
    how = how or Execution()
    images = load(settings)
    rows = len(images.train[1])
    if settings.batch * settings.batches > rows:
        raise ConfigError(
            f"{settings.batches} batches of {settings.batch} need more than the {rows} training images.",
            "Lower batch_size.",
        )
    facts = settings.model_dump(mode="json", exclude={"path", "widths", "resamples"})
    run = RunDir.create(out, KIND, settings=facts, data={"fingerprint": images.fingerprint(), "train": rows}, threads=1)
    tasks = [(seed, width) for seed in range(settings.seeds) for width in settings.widths]
    with run.locked():
        lines: list[TwoLayerTraining] = read_lines(KIND, run.ledger.read(), str(run.ledger.path))
        trained = {(line.seed, line.width): line for line in lines}
        rest = [task for task in tasks if task not in trained]
        how.progress.phase("train", len(rest), "networks")
        with how.open(TrainAndMeasure(settings)) as engine:
            for task, line in zip(rest, engine.map(rest)):
                trained[task] = line
                run.ledger.append(line.to_json())
                how.progress.advance(1)
        how.progress.end()
        table = correlations([trained[task] for task in tasks], settings)
        write_json(run.path / "result.json", {"data": settings.data, "networks": len(tasks), "rows": table})
    return table


def correlations(lines: Sequence[TwoLayerTraining], settings: Experiment1) -> list[dict[str, Any]]:
    """Rank correlation of each statistic with minus the final losses, over the widths."""
    by_width = [[line for line in lines if line.width == width] for width in settings.widths]
    rows = []
    for name, better in STATISTICS.items():
        for level, share in enumerate(settings.warmup):
            values = [better * fmean(line.statistics[level][name] for line in seeds) for seeds in by_width]
            for split in ("train", "test"):
                truth = [-fmean(getattr(line, f"{split}_loss") for line in seeds) for seeds in by_width]
                figures = rank_correlation(values, truth, resamples=settings.resamples).to_dict()
                rows.append({"statistic": name, "warmup": share, "loss": split, **figures})
    return rows
