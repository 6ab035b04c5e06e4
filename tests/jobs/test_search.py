"""The main job on generated data: what it leaves behind, resuming, limits, objectives, bad input."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest

import recnas
from recnas.cli.main import main
from recnas.engines.execution import Execution
from recnas.errors import ConfigError, RunError, SpaceError
from recnas.jobs.search import search
from recnas.progress import Progress
from recnas.proxies.engine import passes_of
from recnas.proxies.registry import get_proxies
from recnas.runs.checks import with_check
from recnas.runs.ledger import Ledger
from recnas.space.nasrec.json import load_arch
from recnas.tasks.forecast import Forecast, Phase, check_fits, forecast
from tests.jobs.search_helpers import as_yaml, small_search, what_counts


@pytest.fixture(scope="module")
def finished(criteo_data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("search") / "run"
    search(small_search(criteo_data.path), out)
    return out


def test_a_search_leaves_everything_behind(finished: Path, criteo_data):
    result = json.loads((finished / "result.json").read_text())
    lines = Ledger(finished / "ledger.jsonl").read()
    candidates = [line for line in lines if line["event"] == "candidate"]
    trained = [line for line in lines if line["event"] == "trained"]
    assert len(candidates) == 6 + 3 * 2 == result["budget"]["proposed"]
    assert len(trained) == 2
    assert [line["name"] for line in lines if line["event"] == "phase"] == ["warmup", "search", "finalists", "winner"]
    # the trained ones are the best by score, and validation chose among them
    best = sorted(
        {line["key"]: line for line in candidates if line.get("values")}.values(),
        key=lambda line: -line["values"]["sigeo"],
    )
    assert {line["key"] for line in trained} == {line["key"] for line in best[:2]}
    winner = min(trained, key=lambda line: line["valid"]["logloss"])
    assert result["winner"]["key"] == winner["key"] == load_arch(finished / "winner.json").key
    assert all("test" not in line for line in trained), "test was read before the choice was made"
    assert 0 < result["test"]["logloss"] < 2
    assert 0 < result["test"]["auc"] < 1
    for line in candidates:
        if "scores" in line:
            terms = line["scores"]["sigeo"]["terms"]
            assert line["values"]["sigeo"] == pytest.approx(terms["zico"] + terms["fr"] - terms["loss"])
            assert line["cost"]["params"] > 0


@pytest.mark.parametrize("keep", [0, 4, 11, 16, 18])
def test_a_ledger_cut_anywhere_gives_the_same_end(finished: Path, criteo_data, tmp_path: Path, keep: int):
    """What a crash leaves is a beginning of the ledger and of the folders; here the ledger is cut after `keep` lines."""
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    lines = (out / "ledger.jsonl").read_text().splitlines(keepends=True)
    (out / "ledger.jsonl").write_text("".join(lines[:keep]) + '{"event": "cand')
    (out / "result.json").unlink()
    (out / "winner.json").unlink()
    shutil.rmtree(out / "winner")
    if keep == 0:
        shutil.rmtree(out / "warmup")
    search(small_search(criteo_data.path), out)
    assert what_counts(out) == what_counts(finished)


def test_two_workers_give_the_same_ledger(finished: Path, criteo_data, tmp_path: Path):
    search(small_search(criteo_data.path), tmp_path / "two", Execution(workers=2))
    assert what_counts(tmp_path / "two") == what_counts(finished)


def test_the_python_api_mirrors_the_command(finished: Path):
    run = recnas.open_run(finished)
    table = run.table()
    assert len(table) == 12
    assert {"index", "key", "sigeo", "params", "finalist_logloss"} <= set(table.columns)
    assert table.finalist_logloss.notna().sum() >= 2
    network = run.best.build()
    assert sum(p.numel() for p in network.parameters()) == run.result.winner.cost["params"]


def test_several_objectives_give_a_front(criteo_data, tmp_path: Path):
    config = small_search(criteo_data.path, objectives={"sigeo": "max", "params": "min"}, limits={"params": 2e6})
    result = search(config, tmp_path / "front")
    lines = Ledger(tmp_path / "front" / "ledger.jsonl").read()
    by_key = {line["key"]: line["values"] for line in lines if line["event"] == "candidate" and line.get("values")}
    for key in result.front:
        mine = by_key[key]
        assert not any(
            v["sigeo"] >= mine["sigeo"] and v["params"] <= mine["params"] and v != mine for v in by_key.values()
        )
    assert all(values["params"] <= 2e6 for values in by_key.values())


def test_one_shot_evaluator_and_random_search(criteo_data, tmp_path: Path):
    config = small_search(
        criteo_data.path,
        evaluator="shared-weights",
        shared_weights={"steps": 5, "batch_size": 64, "valid_rows": 500},
        search={"method": "random", "candidates": 4},
        final={
            "candidates": 1,
            "rows": 1000,
            "retrain_on": "train+valid",
            "retrain_settings": {"epochs": 0.2, "schedule": "cosine", "stop": {"patience": None}},
        },
    )
    result = search(config, tmp_path / "one")
    assert result.objectives == {"valid_logloss": "min"}
    assert "valid_logloss" in result.winner.values
    assert result.test["logloss"] > 0


def test_zero_shot_needs_no_training(criteo_data, tmp_path: Path):
    config = small_search(
        criteo_data.path, warmup={"data_share": 0}, search={"method": "local", "candidates": 4, "starts": 2, "block": 2}
    )
    result = search(config, tmp_path / "zero")
    assert json.loads((tmp_path / "zero" / "warmup" / "result.json").read_text())["steps"] == 0
    assert result.budget.proposed == 4


def test_limits_no_architecture_meets_are_explained(criteo_data, tmp_path: Path):
    config = small_search(criteo_data.path, limits={"params": 10, "tries": 50})
    with pytest.raises(SpaceError, match=r"of 50 draws params <= 10 rejected 100\.0 %") as caught:
        search(config, tmp_path / "run")
    assert "raise limits.params above it" in str(caught.value.fix)


def test_three_mistakes_come_in_one_message(criteo_data, tmp_path: Path, capsys):
    path = tmp_path / "bad.yaml"
    path.write_text(
        f"data: {criteo_data.path}\nwarmup: {{data_shar: 0.1}}\nscore: {{proxies: [sigio]}}\nsearch: {{method: evolutoin}}\n"
    )
    assert main(["search", str(path), "--out", str(tmp_path / "run")]) == 2
    message = capsys.readouterr().err
    assert "3 faults" in message
    for part in ("did you mean 'data_share'?", "did you mean 'sigeo'?", "evolution"):
        assert part in message
    assert not (tmp_path / "run").exists()


def test_a_run_of_other_settings_or_data_is_refused(finished: Path, criteo_data, tmp_path: Path):
    with pytest.raises(RunError, match="holds another run: seed was 0, now 5"):
        search(small_search(criteo_data.path, seed=5), finished)
    other = tmp_path / "old"
    shutil.copytree(finished, other)
    manifest = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(RunError, match="another version of recnas"):
        search(small_search(criteo_data.path), other)
    (other / "manifest.json").write_text(
        json.dumps(with_check({**manifest, "data": {"path": "x", "fingerprint": "y"}}))
    )
    with pytest.raises(RunError, match="the data were x"):
        search(small_search(criteo_data.path), other)


def test_commands(finished: Path, criteo_data, tmp_path: Path, capsys):
    config = as_yaml(small_search(criteo_data.path), tmp_path / "small.yaml")
    assert main(["forecast", str(config), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [phase["name"] for phase in found["phases"]] == ["warm up", "search", "finalists", "winner"]
    assert found["minutes"] > 0
    assert main(["search", "--resume", str(finished), "--workers", "1", "--quiet"]) == 0
    assert "test log loss" in capsys.readouterr().out
    assert main(["watch", str(finished), "--once"]) == 0
    shown = capsys.readouterr().out
    assert "finished" in shown
    assert "candidates" in shown
    assert main(["search", "--resume", str(finished), str(config)]) == 2
    assert "--resume takes the settings from the run" in capsys.readouterr().err


def test_a_forecast_counts_what_the_proxies_read():
    def cost(*proxies: str) -> float:
        return passes_of(get_proxies(proxies), 4, 256)

    assert cost("sigeo") == cost("sigeo", "zico") == 4  # statistics are shared
    assert cost("sigeo", "jacob_cov", "naswot") == 5
    assert cost("sigeo", "jacob_cov", "ntk_cond", "ntk_trace") == 7
    assert cost("exact_ntk_cond") > 250


def test_a_forecast_counts_steps_rounds_and_what_is_not_known(
    criteo_data, monkeypatch: pytest.MonkeyPatch, capsys, tmp_path: Path
):
    monkeypatch.setattr("recnas.tasks.forecast.probe", lambda: 100.0)
    monkeypatch.setattr("recnas.tasks.forecast.available_cores", lambda: 4)

    def minutes(workers: int = 2, **changes: object) -> dict[str, float]:
        found = forecast(small_search(criteo_data.path, **changes), workers, criteo_data)
        return {phase.name: phase.minutes for phase in found.phases}

    # The same rows in more batches: every step updates every parameter.
    few, many = ({"data_share": 0.5, "least_steps": steps} for steps in (10, 400))
    assert minutes(warmup=many)["warm up"] > 2 * minutes(warmup=few)["warm up"]
    # Three trainings on two cores take as long as four; without workers nothing has to be started.
    three, four, five = (minutes(final={"candidates": number})["finalists"] for number in (3, 4, 5))
    assert three == four < five
    assert minutes(1, final={"candidates": 1})["finalists"] < minutes(final={"candidates": 1})["finalists"]
    # More threads help in this process, workers do not.
    two, one = ({"supernet": {"threads": threads}} for threads in (2, 1))
    assert minutes(**two)["winner"] < minutes(**one)["winner"] == minutes(4, **one)["winner"]
    assert main(["forecast", str(as_yaml(small_search(criteo_data.path), tmp_path / "small.yaml"))]) == 0
    said = capsys.readouterr().out
    assert "Times are for an otherwise idle machine; load now is" in said
    assert "as large as the mean of the space" in said


def test_a_search_that_does_not_fit_is_refused(criteo_data):
    found = forecast(small_search(criteo_data.path), 2, criteo_data)
    check_fits(found)
    with pytest.raises(ConfigError, match=r"'warm up' needs about 9\.3 GB of memory; 7\.5 GB are available"):
        check_fits(Forecast((Phase("warm up", 1.0, 1e10, ""),), 8e9, 2, 80.0))


def test_the_best_that_progress_shows_never_falls(criteo_data, tmp_path: Path):
    """Of a front the first place may go to a candidate with a lower score; the best score so far stays."""
    said = io.StringIO()
    config = small_search(criteo_data.path, objectives={"sigeo": "max", "params": "min"})
    search(config, tmp_path / "run", Execution(progress=Progress(said, plain_seconds=0)))
    shown = [float(line.rsplit("best sigeo ", 1)[1]) for line in said.getvalue().splitlines() if "best sigeo " in line]
    lines = Ledger(tmp_path / "run" / "ledger.jsonl").read()
    scores = [line["values"]["sigeo"] for line in lines if line.get("event") == "candidate" and line.get("values")]
    assert len(shown) >= len(scores)
    assert shown == sorted(shown)
    assert shown[-1] == pytest.approx(max(scores), rel=1e-4)
