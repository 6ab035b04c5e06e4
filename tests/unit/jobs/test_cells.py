"""Scoring NAS-Bench-201 cells as a job."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from recnas.bench.nasbench201 import Nb201Table, write_generated
from recnas.bench.pack_scores import pack_scores
from recnas.bench.truth import Truth
from recnas.engines.execution import Execution
from recnas.jobs.correlate_cells import CellCorrelation, correlate_scores
from recnas.jobs.score_cells import sample_cells, score_cells
from recnas.runs.records import Scored
from recnas.space.nasbench201 import Nb201Space
from recnas.tasks.settings import CellScoring

SETTINGS = CellScoring(proxies=("sigeo", "naswot", "params"), channels=2, cells=1, batches=2, batch_size=8)


def without_clock(results: list[Scored]) -> list[Scored]:
    return [result.model_copy(update={"seconds": 0.0}) for result in results]


@pytest.mark.spawns
def test_cells_are_scored_once_per_network_and_resume(tmp_path: Path):
    rng = np.random.default_rng(0)
    archs = [Nb201Space().sample(rng) for _ in range(5)]
    archs.append(archs[2])
    first = score_cells(archs[:3], tmp_path / "run", SETTINGS)
    both = score_cells(archs, tmp_path / "run", SETTINGS)
    assert both[:3] == first
    assert both[5] == both[2]
    assert len((tmp_path / "run" / "ledger.jsonl").read_text().splitlines()) == len({result.key for result in both})
    assert without_clock(score_cells(archs, tmp_path / "two", SETTINGS, Execution(2))) == without_clock(both)


def test_correlation_with_a_table(tmp_path: Path):
    rng = np.random.default_rng(1)
    write_generated(tmp_path / "nb201.parquet", list({Nb201Space().sample(rng): None for _ in range(40)}))
    table = Truth.of_nasbench201(Nb201Table.read(tmp_path / "nb201.parquet"))
    rows = sample_cells(table, 12)
    assert sample_cells(table, 5) == rows[:5]
    results = score_cells([table.archs[row] for row in rows], tmp_path / "run", SETTINGS)
    config = CellCorrelation(datasets=("cifar10",), resamples=0)
    found = {row["proxy"]: row for row in correlate_scores(table, pack_scores([tmp_path / "run"]), rows, config)}
    assert set(found) == {"sigeo@2", "naswot@2", "params@2"}
    accuracy = table.accuracy("cifar10", "test", 200)[rows]
    for name, row in found.items():
        scores = [result.scores[name.removesuffix("@2")] for result in results]
        assert row["degenerate"] == sum(score.reason is not None for score in scores)
        # A degenerate network ranks last.
        values = [-1e9 if score.reason is not None else score.value for score in scores]
        assert row["spearman"] == pytest.approx(stats.spearmanr(values, accuracy).statistic)
        assert row["kendall"] == pytest.approx(stats.kendalltau(values, accuracy).statistic)
        assert row["n"] == 12
