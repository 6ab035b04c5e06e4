"""Score tables from runs that scored cells, and the correlations of everything in them with trained accuracies.

RUN/ledger.jsonl        one line per network (`recnas.jobs.score_cells`)
RUN/correlation.json    `rows`, by proxy: Spearman, Kendall, intervals; then HNAS's guarantees
                        `pairs`: how far proxies agree with each other, if asked
                        With several warm-ups: `change`, Spearman less that at the first of them, and its interval
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from recnas.bench.agreement import agreement
from recnas.bench.correlation import rank_correlation
from recnas.bench.guarantee import correlate_guarantee
from recnas.bench.nasbench201 import Split
from recnas.bench.pack_scores import pack_scores
from recnas.bench.rank_change import rank_change
from recnas.bench.score_table import ScoreColumn, ScoreTable
from recnas.bench.truth import SpaceName, Truth, read_truth
from recnas.config import Settings
from recnas.engines.execution import Execution
from recnas.errors import ConfigError, DataError
from recnas.files import write_json
from recnas.jobs.score_cells import sample_cells, score_cells
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.registry import get_space
from recnas.space.settings import SpaceSettings
from recnas.tasks.settings import CellScoring


class CellSpace(Settings):
    name: SpaceName = "nasbench201"  # of the cells


class GuaranteeSettings(Settings):
    """Which metrics are tried as M of HNAS's guarantees; those without scores are left out."""

    metrics: tuple[str, ...] = (
        "grad_norm", "snip", "grasp", "ntk_trace", "knas_root", "fisher", "synflow", "naswot",
    )  # fmt: skip
    kappa: str = "ntk_cond"  # condition number of the guarantees
    reading: Literal["paper", "released"] = "paper"  # of the bound: the paper's equation 7, or the released code's


class CellCorrelation(Settings):
    """`recnas correlate CONFIG` for cells: score them (or read a score table), then compare them with the accuracies."""

    space: CellSpace = CellSpace()
    table: str | None = None  # of trained cells; null: nb201.parquet in the folder RECNAS_TABLES names
    scores: str | None = None  # a score table; null: score `cells` cells now
    cells: int | None = Field(1000, ge=2)  # random cells; null: all
    score: CellScoring = CellScoring()
    datasets: tuple[str, ...] = ("cifar10",)  # whose accuracies the scores are compared with
    split: Split = "test"  # of the accuracies
    epochs: int = 200  # of the trainings behind the accuracies
    guarantee: GuaranteeSettings = GuaranteeSettings()
    pairs: tuple[str, ...] = ()  # proxies to compare with each other, two by two; those without scores are left out
    resamples: int = Field(100, ge=0)  # of the intervals
    shares: tuple[float, ...] = ()  # warm-ups to compare, each scored in a folder of its own; empty: score.warmup alone

    @model_validator(mode="after")
    def _shares_are_scored_now(self) -> CellCorrelation:
        if self.shares and self.scores is not None:
            raise ValueError("shares are scored now, so scores must be null")
        if any(not 0 <= share <= 1 for share in self.shares):
            raise ValueError("shares must lie between 0 and 1")
        return self

    @model_validator(mode="before")
    @classmethod
    def _scored_in_the_same_space(cls, data: Any) -> Any:
        """What is scored are cells of `space`, so that `score.space` need not be said."""
        if not isinstance(data, dict):
            return data
        space, score = data.get("space", {}), data.get("score", {})
        if isinstance(space, dict) and isinstance(score, dict) and "space" not in score:
            name = space.get("name", NASBENCH201)
            return data | {"score": score | {"space": {"name": name}}}
        return data

    @model_validator(mode="after")
    def _one_space(self) -> CellCorrelation:
        if "space" in self.score.model_fields_set and self.score.space.name != self.space.name:
            raise ValueError(
                f"score.space is {self.score.space.name!r}, and space.name is {self.space.name!r}: say it in space.name alone"
            )
        return self


def correlate_config(config: CellCorrelation, out: Path | str, how: Execution | None = None) -> list[dict[str, Any]]:
    """Score what is not scored, correlate, write `correlation.json`; one row per (data set, proxy or guarantee)."""
    table = read_truth(config.space.name, config.table)
    for dataset in config.datasets:
        table.accuracy(
            dataset, config.split, config.epochs
        )  # before hours go into scores that have nothing to stand beside
    out = Path(out)
    if config.shares:
        return _correlate_shares(config, table, out, how)
    if config.scores is None:
        chosen = sample_cells(table, len(table) if config.cells is None else config.cells)
        settings = config.score.model_copy(update={"space": SpaceSettings(name=config.space.name)})
        score_cells([table.archs[row] for row in chosen], out, settings, how)
        scores = pack_scores([out])
    else:
        scores = ScoreTable.read(config.scores, get_space(config.space.name).key)
        chosen = sample_cells(table, len(table) if config.cells is None else config.cells)
    rows = correlate_scores(table, scores, chosen, config)
    pairs = {"pairs": correlate_pairs(table, scores, chosen, config.pairs)} if config.pairs else {}
    write_json(out / "correlation.json", {"table": table.name, "rows": rows, **pairs})
    return rows


def _correlate_shares(config: CellCorrelation, table: Truth, out: Path, how: Execution | None) -> list[dict[str, Any]]:
    """Every warm-up in a folder of its own, and how much better than at the first of them each proxy ranks."""
    rows: list[dict[str, Any]] = []
    chosen = sample_cells(table, len(table) if config.cells is None else config.cells)
    first: dict[str, np.ndarray] = {}
    for share in dict.fromkeys(config.shares):
        score = config.score.model_copy(update={"warmup": config.score.warmup.model_copy(update={"data_share": share})})
        one = config.model_copy(update={"shares": (), "score": score})
        folder = out / f"warm-{100 * share:g}"
        found = correlate_config(one, folder, how)
        scores = pack_scores([folder])
        at, better = scores.rows_of([table.keys[row] for row in chosen]), directions(list(scores.columns))
        values = {name: missing_last(better[name] * column[at]) for name, column in scores.columns.items()}
        first = first or values
        for row in found:
            change: dict[str, Any] = {}
            if row["proxy"] in values and values is not first:
                accuracy = table.accuracy(row["dataset"], config.split, config.epochs)[chosen]
                change = rank_change(
                    first[row["proxy"]], values[row["proxy"]], accuracy, resamples=config.resamples
                ).to_dict()
            rows.append(row | {"share": share} | change)
    write_json(out / "correlation.json", {"table": table.name, "rows": rows})
    return rows


def correlate_scores(
    table: Truth, scores: ScoreTable, chosen: Sequence[int], config: CellCorrelation
) -> list[dict[str, Any]]:
    """Signed so that +1 is perfect; degenerate networks rank last."""
    at = scores.rows_of([table.keys[row] for row in chosen])
    better = directions(list(scores.columns))
    found: list[dict[str, Any]] = []
    for dataset in config.datasets:
        accuracy = table.accuracy(dataset, config.split, config.epochs)[list(chosen)]
        if np.isnan(accuracy).any():
            raise DataError(f"{table.name} has no {dataset} accuracy for some of the cells.", "Import the whole table.")
        for name, values in scores.columns.items():
            if ScoreColumn.parse(name).root:
                continue  # ranks as the proxy itself
            signed = better[name] * values[at]
            dead = int(np.isnan(signed).sum())
            figures = rank_correlation(missing_last(signed), accuracy, resamples=config.resamples).to_dict()
            found.append({"proxy": name, "dataset": dataset, "degenerate": dead, **figures})
        for metric, kappa in guarantee_pairs(scores, config.guarantee):
            m, k = scores.column(metric)[at], scores.column(kappa)[at]
            for row in correlate_guarantee(m, k, accuracy, config.guarantee.reading, config.resamples):
                found.append(
                    {
                        "proxy": f"{row['form']} {metric}, {kappa}",
                        "dataset": dataset,
                        "metric": metric,
                        "kappa": kappa,
                        **row,
                    }
                )
    return found


def correlate_pairs(
    table: Truth, scores: ScoreTable, chosen: Sequence[int], names: Sequence[str]
) -> list[dict[str, Any]]:
    """How far proxies agree with each other, each at its greatest width."""
    at = scores.rows_of([table.keys[row] for row in chosen])
    columns = [has[-1] for name in names if (has := scores.widths(name))]
    return agreement({column: scores.column(column)[at] for column in columns})


def guarantee_pairs(scores: ScoreTable, settings: GuaranteeSettings) -> list[tuple[str, str]]:
    """Metric and condition number: the metric at its greatest width, the condition number at its smallest."""
    kappas = scores.widths(settings.kappa)
    return [(has[-1], kappas[0]) for metric in settings.metrics if (has := scores.widths(metric)) and kappas]


def load_config(
    data: dict[str, Any], faults: Sequence[str], source: str, overrides: Sequence[str] = ()
) -> CellCorrelation:
    from recnas.config import check_settings
    from recnas.proxies.registry import get_proxies

    config = check_settings(CellCorrelation, data, source, faults, overrides)
    try:
        get_proxies(config.score.proxies)
    except ConfigError as error:
        raise ConfigError(error.what, "Correct score.proxies.") from None
    return config


def directions(columns: Sequence[str]) -> dict[str, float]:
    """By column: 1 if high is good, -1 if low is."""
    from recnas.proxies.registry import get_proxies

    found = {}
    for column in columns:
        (proxy,) = get_proxies([ScoreColumn.parse(column).proxy])
        found[column] = 1.0 if proxy.higher_is_better else -1.0
    return found


def missing_last(values: np.ndarray) -> np.ndarray:
    """Missing values below all others."""
    missing = np.isnan(values)
    if missing.all():
        return np.zeros(len(values))
    return np.where(missing, values[~missing].min() - 1.0, values)
