"""A report of a search that really ran: what the job writes is what the report reads."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from recnas.config import check_settings
from recnas.jobs.search import search
from recnas.report.content import make_report
from recnas.report.draw import find_arch
from recnas.report.write import write_report
from recnas.tasks.settings import CtrSearchConfig
from tests.jobs.search_helpers import small_search


def test_a_search_and_its_report(criteo_data, tmp_path: Path):
    config = small_search(criteo_data.path, final={"candidates": 2, "rows": 2000, "retrain_seeds": 2})
    result = search(config, tmp_path / "run")
    report = make_report([tmp_path / "run"])
    assert f"test log loss {result.test['logloss']:.5f} (95 % interval" in report.verdict.sentence
    tables = {table.name: table for table in report.tables()}
    assert tables["leaderboard"].rows[0]["test_logloss"] == result.test["logloss"]
    assert [row["valid_logloss"] for row in tables["trained"].rows] == sorted(
        finalist.valid["logloss"] for finalist in result.finalists
    )
    assert [row["state"] for row in tables["phases"].rows] == ["done"] * 4
    assert tables["family_run"].rows[-1]["key"] == result.winner.key
    assert len(tables["data_columns"].rows) == 26
    stems = {figure.stem for figure in report.figures()}
    assert {
        "winner_run",
        "trajectory_evaluations",
        "trajectory_seconds",
        "candidates_run",
        "terms_run_sigeo_zico",
        "truth_1",
        "pareto",
    } <= stems
    assert find_arch(f"{tmp_path}/run:best").arch.key == result.winner.key

    write_report([tmp_path / "run"], tmp_path / "report.html")
    again = yaml.safe_load((tmp_path / "report_files" / "config_run.yaml").read_text())
    assert check_settings(CtrSearchConfig, again, "the report") == config
    assert (
        json.loads((tmp_path / "run" / "manifest.json").read_text())["data"]["fingerprint"]
        in (tmp_path / "report.html").read_text()
    )
