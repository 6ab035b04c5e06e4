"""Scoring NAS-Bench-201 cells as a job."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recnas.jobs.cells import CellSettings, correlate_cells, sample_cells, score_cells

from recnas.bench.nasbench201 import Nb201Table, write_generated
from recnas.space.nasbench201 import Nb201Space

SETTINGS = CellSettings(proxies=("sigeo", "naswot", "params"), channels=2, cells=1, batches=2, batch_size=8)


def without_clock(results: list[dict]) -> list[dict]:
    return [{name: value for name, value in result.items() if name != "seconds"} for result in results]


def test_cells_are_scored_once_per_network_and_resume(tmp_path: Path):
    rng = np.random.default_rng(0)
    archs = [Nb201Space().sample(rng) for _ in range(5)]
    archs.append(archs[2])
    first = score_cells(archs[:3], tmp_path / "run", SETTINGS)
    both = score_cells(archs, tmp_path / "run", SETTINGS)
    assert both[:3] == first
    assert both[5] == both[2]
    assert len((tmp_path / "run" / "ledger.jsonl").read_text().splitlines()) == len(
        {result["key"] for result in both}
    )
    assert without_clock(score_cells(archs, tmp_path / "two", SETTINGS, workers=2)) == without_clock(both)


def test_correlation_with_a_table(tmp_path: Path):
    rng = np.random.default_rng(1)
    write_generated(tmp_path / "nb201.parquet", list({Nb201Space().sample(rng): None for _ in range(40)}))
    table = Nb201Table.read(tmp_path / "nb201.parquet")
    rows = sample_cells(table, 12)
    assert sample_cells(table, 5) == rows[:5]
    results = score_cells([table.archs[row] for row in rows], tmp_path / "run", SETTINGS)
    found = {row["proxy"]: row for row in correlate_cells(table, rows, results, "cifar10")}
    assert set(found) == {"sigeo", "naswot", "params"}
    assert all(-1 <= row["spearman"] <= 1 for row in found.values())
    assert found["params"]["n"] == pytest.approx(12)
