"""Whole jobs on a second device, from their configs: they find there what they find on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recnas.config import check_settings
from recnas.data.prepared import PreparedData
from recnas.engines.execution import Execution
from recnas.jobs.compare import compare
from recnas.jobs.correlate_cells import CellCorrelation
from recnas.jobs.score_cells import score_cells
from recnas.jobs.search import search
from recnas.runs.folder import RunDir
from recnas.space.nasbench201.arch import Nb201Arch
from recnas.tasks.settings import ImageSearchConfig
from recnas.train.settings import TrainSettings
from tests.jobs.search_helpers import small_search
from tests.unit.device.second import NAME, second_device

DEVICES = ("cpu", NAME.type)
TABLES = {"embeddings": {"width": 8, "backend": "plain"}}


def lines(run: Path, event: str) -> list[dict[str, Any]]:
    return [line for line in RunDir(run).ledger.read() if line.get("event") == event]


@pytest.mark.parametrize("evaluator", ["proxy", "shared-weights", "training"])
def test_a_search_on_clicks(evaluator: str, criteo_data: PreparedData, tmp_path: Path):
    results = []
    for name in DEVICES:
        quick = {"batch_size": 64, "device": name, **TABLES}
        with second_device() as device:
            config = small_search(
                criteo_data.path,
                space={"name": "nasrec-small", "blocks": 1},
                warmup={"data_share": 0.01, "least_steps": 4},
                supernet=quick,
                evaluator=evaluator,
                score={"batches": 2, "batch_size": 32, "device": name, "proxies": ["sigeo", "naswot"]},
                shared_weights={"steps": 2, "batch_size": 32, "valid_rows": 200},
                query_training={"rows": 300, "valid_rows": 200, "train": quick},
                limits={"latency_ms_512": 1e9, "latency_on": name},
                search={"method": "random", "candidates": 2},
                final={"candidates": 1, "rows": 300, "train": {"epochs": 0.01, "stop": {"rows": 200}, **quick}},
            )
            results.append(search(config, tmp_path / name, Execution()))
            assert (device.operations > 1000) == (name != "cpu")
    here, there = (lines(tmp_path / name, "candidate") for name in DEVICES)
    assert [one["key"] for one in there] == [one["key"] for one in here]
    for one, other in zip(here, there, strict=True):
        assert other["values"] == pytest.approx(one["values"], rel=1e-3)
    assert results[1].winner.key == results[0].winner.key
    assert results[1].test["logloss"] == pytest.approx(results[0].test["logloss"], rel=1e-3)


def test_a_search_on_images(tmp_path: Path):
    results = []
    for name in DEVICES:
        config = {
            "space": {"name": "nasbench201", "network": {"channels": 2, "cells": 1}},
            "images": {"rows": 60, "side": 8},
            "query_training": {"batch_size": 8, "device": name},
            "search": {"method": "random", "candidates": 2},
            "final": {"candidates": 1, "train": {"epochs": 1, "batch_size": 8, "device": name}},
        }
        with second_device():
            results.append(search(check_settings(ImageSearchConfig, config, "the test"), tmp_path / name, Execution()))
    assert results[1].winner.key == results[0].winner.key
    assert results[1].test == pytest.approx(results[0].test)


def test_a_comparison(criteo_data: PreparedData, tmp_path: Path):
    boards = []
    for name in DEVICES:
        given = {"batch_size": 2000, "epochs": 1, "schedule": "constant", "stop": {"patience": None}, "device": name}
        with second_device():
            settings = TrainSettings.model_validate(given | TABLES)
            boards.append(
                compare(criteo_data, tmp_path / name, ["lr", "fm"], settings=settings, seeds=1, latency_on=name)
            )
    here, there = ({row.model: row.value("test", "logloss").mean for row in board.models} for board in boards)
    assert there == pytest.approx(here, rel=1e-4)
    assert len(here) == 2


def test_cells_scored_for_a_correlation(tmp_path: Path):
    cells = [Nb201Arch.from_number(number) for number in (11, 4711)]
    scores = []
    for name in DEVICES:
        with second_device():
            config = check_settings(
                CellCorrelation,
                {"score": {"images": {"rows": 40, "side": 8}, "batches": 2, "batch_size": 8, "channels": 2, "cells": 1,
                           "proxies": ["sigeo", "ntk_trace", "ntk_cond"], "device": name}},
                "the test",
            )  # fmt: skip
            scores.append(score_cells(cells, tmp_path / name, config.score))
    for one, other in zip(*scores, strict=True):
        assert {name: s.value for name, s in other.scores.items()} == pytest.approx(
            {name: s.value for name, s in one.scores.items()}, rel=1e-3
        )
