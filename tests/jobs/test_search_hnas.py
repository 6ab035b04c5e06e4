"""HNAS on NASRec: a pool scored on the supernet, short trainings as queries, then the ordinary end of a search."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from recnas.config import check_settings
from recnas.errors import ConfigError
from recnas.jobs.search import search
from recnas.runs.ledger import Ledger
from recnas.searchers.hnas import guarantee
from recnas.tasks.forecast import forecast
from recnas.tasks.settings import CtrSearchConfig
from tests.jobs.search_helpers import small_search, what_counts

HNAS = {
    "warmup": {"data_share": 0.0},
    "score": {"batches": 1, "batch_size": 16},
    "evaluator": "training",
    "query_training": {"rows": 1000, "valid_rows": 1000},
    "search": {"method": "hnas", "candidates": 5, "pool": 8, "grow": False, "metric": "ntk_trace"},
}


@pytest.fixture(scope="module")
def finished(criteo_data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("hnas") / "run"
    search(small_search(criteo_data.path, **HNAS), out)
    return out


def test_queries_are_the_best_of_a_scored_pool_and_are_trained(finished: Path):
    lines, result = what_counts(finished)
    candidates = [line for line in lines if line["event"] == "candidate"]
    pool = {line["key"]: line for line in Ledger(finished / "pool.jsonl").read()}
    assert len(candidates) == 5
    assert {line["key"] for line in candidates} <= set(pool)
    first = candidates[0]["facts"]
    alive = [line for line in pool.values() if not any("reason" in score for score in line["scores"].values())]
    m, kappa = (np.array([line["scores"][name]["value"] for line in alive]) for name in ("ntk_trace", "ntk_cond"))
    value = guarantee(m / np.median(m), kappa / np.median(kappa), 10 ** first["log_mu"], first["nu_root"] ** 2)
    assert candidates[0]["key"] == alive[int(np.argmin(value))]["key"]
    assert all(line["values"] == {"valid_logloss": line["scores"]["valid_logloss"]["value"]} for line in candidates)
    best = sorted(candidates, key=lambda line: line["values"]["valid_logloss"])[:2]
    assert {line["key"] for line in lines if line["event"] == "trained"} == {line["key"] for line in best}
    assert result["objectives"] == {"valid_logloss": "min"}
    assert 0 < result["test"]["logloss"] < 2


@pytest.mark.parametrize("keep", [3, 5])
def test_a_ledger_and_a_pool_cut_anywhere_give_the_same_end(finished: Path, criteo_data, tmp_path: Path, keep: int):
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    for name, lines in (("ledger.jsonl", keep), ("pool.jsonl", 8 if keep > 3 else 3)):
        text = (out / name).read_text().splitlines(keepends=True)
        (out / name).write_text("".join(text[:lines]))
    (out / "result.json").unlink()
    shutil.rmtree(out / "winner")
    search(small_search(criteo_data.path, **HNAS), out)
    assert what_counts(out) == what_counts(finished)


def test_a_ranker_of_the_pool_works_too(criteo_data, tmp_path: Path):
    top = HNAS | {
        "search": {"method": "rank-pool", "candidates": 2, "pool": 4, "by": {"naswot": "max"}},
        "final": {"candidates": 1, "rows": 1000},
    }
    search(small_search(criteo_data.path, **top), tmp_path / "run")
    pool = Ledger(tmp_path / "run" / "pool.jsonl").read()
    best = max(
        pool,
        key=lambda line: line["scores"]["naswot"]["value"] if "reason" not in line["scores"]["naswot"] else -np.inf,
    )
    lines, _ = what_counts(tmp_path / "run")
    assert next(line for line in lines if line["event"] == "candidate")["key"] == best["key"]


def test_it_is_forecast_without_building_a_pool(criteo_data):
    config = small_search(criteo_data.path, **HNAS)
    found = forecast(config, 1, criteo_data)
    assert found.phases[1].what == "5 candidates"
    more = small_search(criteo_data.path, **HNAS | {"query_training": {"rows": 10_000}})
    assert forecast(more, 1, criteo_data).phases[1].bytes == pytest.approx(found.phases[1].bytes)


def test_methods_with_a_pool_need_an_evaluator_that_trains(criteo_data):
    with pytest.raises(ConfigError, match="evaluator: training"):
        small_search(criteo_data.path, search={"method": "hnas"})


def test_spaces_without_decisions_are_refused_before_anything_is_trained(criteo_data, tmp_path: Path):
    config = small_search(criteo_data.path, search={"method": "reinforce"})
    with pytest.raises(ConfigError, match="independent choices"):
        search(config, tmp_path / "run")


def test_a_manifest_says_what_is_needed_to_go_on(criteo_data):
    """Only the chosen method has settings; reading them back gives the same search."""
    config = small_search(criteo_data.path)
    identity = config.identity()
    assert set(identity["search"]) == {
        "method",
        "redraws",
        "seeds",
        "population",
        "generations",
        "children",
        "tournament",
        "mutations",
    }
    assert check_settings(CtrSearchConfig, identity, "the manifest").identity() == identity
