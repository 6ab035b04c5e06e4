"""Nine hand-crafted models on Frappe_x1 with published settings, five seeds, beside the published leaderboard.

    RECNAS_SHARED=../shared scripts/test -o timeout=0 -m paper tests/paper/test_frappe_board.py

Takes about an hour and a half of both cores of a 2-core machine, and continues where it was stopped. The board and its settings are those
of BARS (Zhu et al.: BARS: Towards Open Benchmarking for Recommender Systems, SIGIR 2022), one run per model. What came
out is in docs/results/leaderboards.md.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recnas.cli.shipped import config_path
from recnas.config import check_settings, read_yaml
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.raw.sources import ReadySplit
from recnas.engines.execution import Execution
from recnas.jobs.compare.configured import compare_configured
from recnas.runs.results import ComparedModel
from recnas.tasks.comparison.settings import CompareConfig

ROOT = Path(__file__).parents[2]
FILES = Path(os.environ.get("RECNAS_SHARED", ROOT.parent / "shared")) / "data" / "ctr" / "frappe_x1"
# AUC and log loss on test.
PUBLISHED = {
    "dnn": (0.9833, 0.1622),
    "deepfm": (0.9842, 0.1482),
    "dcn": (0.9839, 0.1527),
    "dcn-v2": (0.9845, 0.1491),
    "xdeepfm": (0.9845, 0.1466),
    "autoint+": (0.9848, 0.1490),
    "dlrm": (0.9840, 0.1444),
    "finalmlp": (0.9861, 0.1484),
    "finalnet": (0.9857, 0.1311),
}

pytestmark = [
    pytest.mark.paper,
    pytest.mark.skipif(not FILES.exists(), reason="needs the files of Frappe_x1 (RECNAS_SHARED)"),
]


@pytest.fixture(scope="module")
def rows(paper_runs: Path, write_down) -> dict[str, ComparedModel]:
    split = ReadySplit(
        train=[FILES / "train_rebuilt.csv.gz"], valid=[FILES / "valid.csv.gz"], test=[FILES / "test.csv.gz"]
    )
    data = prepare("frappe_x1", split, paper_runs / "frappe-x1-data", PrepareOptions())
    values = read_yaml(config_path("frappe/board")) | {"data": str(data.path)}
    config = check_settings(CompareConfig, values, "frappe/board")
    board = compare_configured(config, data, paper_runs / "frappe-board", how=Execution(2))
    found = {row.id: row for row in board.models}
    write_down("leaderboards.md", "frappe", table(found))
    return found


def table(rows: dict[str, ComparedModel]) -> list[str]:
    lines = [
        "| model | AUC | published | log loss | published | best epochs |",
        "|---|---|---|---|---|---|",
    ]
    for name, (auc, logloss) in PUBLISHED.items():
        ours = {metric: rows[name].value("test", metric) for metric in ("auc", "logloss")}
        spread = {metric: f"{one.mean:.4f} ± {one.std or 0:.4f}" for metric, one in ours.items()}
        epochs = " ".join(f"{epoch:g}" for epoch in rows[name].best_epochs if epoch is not None)
        lines.append(f"| {name} | {spread['auc']} | {auc:.4f} | {spread['logloss']} | {logloss:.4f} | {epochs} |")
    return lines


@pytest.mark.parametrize("model", PUBLISHED)
def test_no_more_than_a_thousandth_below_the_published_auc(rows: dict[str, ComparedModel], model: str):
    mean = rows[model].value("test", "auc").mean
    assert mean is not None
    assert mean >= PUBLISHED[model][0] - 0.001


@pytest.mark.parametrize("model", PUBLISHED)
def test_log_loss_at_or_below_the_published_one(rows: dict[str, ComparedModel], model: str):
    mean = rows[model].value("test", "logloss").mean
    assert mean is not None
    assert mean <= PUBLISHED[model][1]
