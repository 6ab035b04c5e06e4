"""Compare proxies with the truth: rank correlation of each, at each warm-up, with a table of trained networks.

Signed so that +1 is perfect: truth is minus the validation log loss, and a proxy that is better when low is
negated. Intervals are bootstrap percentiles over architectures. Of several warm-ups, every one after the first also has
`change`: its Spearman less the first one's, with an interval from paired resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recnas.bench.correlation import rank_correlation
from recnas.bench.ctr_table import CtrTable
from recnas.bench.rank_change import rank_change
from recnas.engines.execution import Execution
from recnas.errors import DataError
from recnas.evaluators.settings import ScoreSettings
from recnas.jobs.score import score_archs
from recnas.proxies.registry import get_proxies
from recnas.runs.folder import RunDir
from recnas.searchers.objective import rank_sums
from recnas.threads import one_thread
from recnas.train.evaluate import evaluate
from recnas.train.settings import WarmupConfig
from recnas.train.warmup import load_warmed

VOTE = "vote"  # the sum of several proxies' ranks
TERMS_OF = ("sigeo", "sigeo_released")  # whose parts are of interest on their own


def correlate(
    runs: Sequence[Path | str],
    table: CtrTable,
    settings: ScoreSettings,
    archs: int | None = None,
    shared_rows: int = 0,
    vote: Sequence[str] = (),
    how: Execution | None = None,
) -> list[dict[str, Any]]:
    """One row per (warm-up run, proxy or term): Spearman and Kendall with intervals.

    Args:
        archs: how many of the table's architectures, in its order; None for all.
        shared_rows: also rank by the log loss of the shared weights on so many validation rows; 0 does not.
        vote: also rank by the sum of these proxies' ranks.
    """
    keys = list(table.archs)[:archs]
    truth = [-table.valid[key] for key in keys]
    rows: list[dict[str, Any]] = []
    first: dict[str, list[float]] = {}
    for run in runs:
        share, values = table_scores(run, table, keys, settings, how)
        if vote:
            values[VOTE] = by_vote([values[name] for name in vote])
        if shared_rows:
            described = [table.archs[key] for key in keys]
            values["shared_logloss"] = [-loss for loss in shared_losses(run, described, shared_rows, how)]
        for name, found in values.items():
            change = rank_change(first[name], found, truth).to_dict() if name in first else {}
            rows.append(
                {"run": str(run), "share": share, "proxy": name, **rank_correlation(found, truth).to_dict(), **change}
            )
        first = first or values
    sizes = {"params (table)": table.params, "macs (table)": table.macs}
    rows += [
        {
            "run": "",
            "share": None,
            "proxy": name,
            **rank_correlation([float(by_key[key]) for key in keys], truth).to_dict(),
        }
        for name, by_key in sizes.items()
    ]
    return rows


def table_scores(
    run: Path | str,
    table: CtrTable,
    keys: Sequence[str],
    settings: ScoreSettings,
    how: Execution | None = None,
) -> tuple[float, dict[str, list[float]]]:
    """The warm-up's share, and what every proxy (and term of SiGeo) says of these architectures, high for good.

    A term that a degenerate network does not have is left out.
    """
    manifest = RunDir.open(run).manifest()
    if manifest["data"]["fingerprint"] != table.data:
        raise DataError(
            f"{run} was warmed up on data {manifest['data']['fingerprint'][:12]}, the table was trained on {table.data[:12]}.",
            "Use a warm-up of the same prepared data.",
        )
    share = WarmupConfig.model_validate(manifest["config"]).warmup.data_share
    better = {proxy.name: 1.0 if proxy.higher_is_better else -1.0 for proxy in get_proxies(settings.proxies)}
    values: dict[str, list[float]] = {}
    for line in score_archs(run, [table.archs[key] for key in keys], settings, how):
        for name, score in line.scores.items():
            values.setdefault(name, []).append(better[name] * score.value)
            if name in TERMS_OF and score.reason is None:
                for term, value in score.terms.items():
                    values.setdefault(f"{name}.{term}", []).append(-value if term == "loss" else value)
    return share, {name: column for name, column in values.items() if len(column) == len(keys)}


def shared_losses(
    run: Path | str, described: Sequence[dict[str, Any]], rows: int, how: Execution | None = None
) -> list[float]:
    """Validation log loss of architectures under the shared weights of a warmed supernet, as they are."""
    progress = (how or Execution()).progress
    supernet, embeddings, data, config = load_warmed(run)
    size = config.supernet.eval_batch_size
    progress.phase("shared weights", len(described), "archs")
    losses = []
    with one_thread():
        for one in described:
            candidate = supernet.candidate(supernet.space.from_dict(one))
            losses.append(evaluate(candidate, embeddings, data, "valid", batch_size=size, rows=rows)["logloss"])
            progress.advance(1)
    progress.end()
    return losses


def by_vote(columns: Sequence[Sequence[float]]) -> list[float]:
    """Sum of ranks, high for good, as a search with `combine: vote` adds them up."""
    return (-rank_sums(-np.array(columns).T)).tolist()


def scores_by_key(
    run: Path | str, table: CtrTable, settings: ScoreSettings, how: Execution | None = None
) -> dict[str, dict[str, float]]:
    """What each proxy says of the table's architectures, high for good, and a vote of all if there are several."""
    keys = list(table.archs)
    _, values = table_scores(run, table, keys, settings, how)
    found = {name: values[name] for name in settings.proxies}
    if len(found) > 1:
        found[VOTE] = by_vote(list(found.values()))
    return {name: dict(zip(keys, scores)) for name, scores in found.items()}
