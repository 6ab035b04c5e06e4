"""Searches that begin with seeds and end with a race: what is left behind, resuming, mistakes."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recnas.bench.bootstrap import paired_bootstrap, row_sums
from recnas.cli.main import main
from recnas.engines.execution import Execution
from recnas.errors import ConfigError, RunError
from recnas.evaluators.race import RungDone, RungRequest, RungWork
from recnas.jobs.search import search
from recnas.runs.ledger import Ledger
from recnas.runs.read import read_run
from recnas.runs.records import Entrant, RungTraining, Trained, Versus
from recnas.serve.load import load_trained
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.json import dump_arch
from recnas.space.plus import PlusSpace
from recnas.space.plus.convert import from_nasrec
from recnas.tasks.archs import named_arch, published
from recnas.tasks.ctr import CtrTask
from recnas.tasks.forecast import forecast
from recnas.train.recipe import recipe_of, with_recipe
from recnas.train.settings import TrainSettings
from recnas.train.standalone import train
from tests.jobs.race_helpers import PLUS, small_race
from tests.jobs.search_helpers import as_yaml, what_counts

TWO = {"brackets": 2, "budget": 24, "seeds": 2}
WEAK: dict[str, Any] = {"search": {"method": "random", "candidates": 9, "seeds": ["lr"]}}


@pytest.fixture(scope="module")
def finished(short_data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("race") / "run"
    search(small_race(short_data.path, TWO), out)
    return out


@pytest.fixture(scope="module")
def beaten(short_data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A race whose only hand-crafted model is a weak one."""
    out = tmp_path_factory.mktemp("beaten") / "run"
    search(small_race(short_data.path, TWO, **WEAK), out)
    return out


def lines_of(run: Path) -> list[dict[str, Any]]:
    return Ledger(run / "ledger.jsonl").read()


def test_seeds_are_proposed_first_and_enter_the_race(finished: Path):
    run = read_run(finished)
    assert [one.origin for one in run.candidates] == ["seed"] * 3 + ["random"] * 6
    entrants = run.of(Entrant)
    first = [one for one in entrants if one.bracket == 0]
    assert {one.why for one in first} == {"seed", "search"}
    assert next(one.name for one in first if one.why == "seed") == "lr"
    assert {one.why for one in entrants if one.bracket == 1} <= {"ranker", "mutation", "recipe"}
    assert [one.number for one in entrants] == list(range(len(entrants)))


def test_the_best_of_each_rung_go_on_and_the_budget_holds(finished: Path, short_data):
    run = read_run(finished)
    result, rungs = run.result, run.of(RungTraining)
    assert result is not None
    assert result.race is not None
    by = {(line.entrant, line.seed, line.rung): line for line in rungs}
    entrants = {one.number: one for one in run.of(Entrant)}
    for bracket in (0, 1):
        for rung in (0, 1):
            here = [
                line
                for (number, seed, at), line in by.items()
                if entrants[number].bracket == bracket and at == rung and seed == 0
            ]
            best = sorted(here, key=lambda line: (line.valid["logloss"], line.entrant))[: max(1, len(here) // 2)]
            assert {line.entrant for line in best} == {
                number
                for number, seed, at in by
                if entrants[number].bracket == bracket and at == rung + 1 and seed == 0
            }
    spent = sum(max(line.trained_rows for line in rungs if (line.entrant, line.seed) == one) for one in {
        (line.entrant, line.seed) for line in rungs
    })  # fmt: skip
    assert spent == result.race.trained_rows <= result.race.budget_rows == 24 * short_data.rows("train")
    finals = {number for number, _, at in by if at == 2}
    means = {
        number: sum(max((line for line in rungs if (line.entrant, line.seed) == (number, seed)), key=lambda line: line.rung).valid["logloss"] for seed in (0, 1)) / 2
        for number in finals
    }  # fmt: skip
    winner = min(means, key=lambda number: (means[number], number))
    assert entrants[winner].key == result.winner.key
    assert entrants[winner].recipe == result.race.recipe
    assert result.valid["logloss"] == pytest.approx(means[winner])
    assert {line.key for line in run.of(Trained)} == {entrants[number].key for number in finals}


def test_the_last_state_of_the_winner_is_the_model(finished: Path, short_data):
    run = read_run(finished)
    assert run.result is not None
    assert not (finished / "race").exists(), "checkpoints of the race are removed at its end"
    assert [line.seed for line in run.winner_trainings] == [0, 1]
    valid = [line.valid["logloss"] for line in run.winner_trainings if line.valid]
    assert valid == pytest.approx(
        [line.valid["logloss"] for line in run.of(Trained) if line.key == run.result.winner.key]
    )
    model = load_trained(f"{finished}:best")
    assert model.key == run.result.winner.key
    assert recipe_of(model.settings) == pytest.approx(run.result.race.recipe)
    lines = lines_of(finished)
    assert not [line for line in lines if "test" in line], "test was read before the choice was made"
    assert run.result.test["logloss"] > 0


@pytest.mark.parametrize("ended", ["finished", "beaten"])
def test_the_winner_is_judged_against_the_best_hand_crafted_model(
    ended: str, request: pytest.FixtureRequest, short_data, tmp_path: Path
):
    """The interval is that of trainings made anew, outside any race."""
    path = request.getfixturevalue(ended)
    run = read_run(path)
    assert run.result is not None
    race = run.result.race
    assert race is not None
    known = race.hand_crafted
    assert known is not None
    entrants, lines = run.of(Entrant), run.of(RungTraining)
    last = {(line.entrant, line.seed): line for line in lines}
    means = {
        one.number: np.mean([last[one.number, seed].valid["logloss"] for seed in (0, 1)])
        for one in entrants
        if (one.number, 1) in last  # trained to its end
    }
    named = {one.number: one for one in entrants if one.name is not None}
    best = named[min(means.keys() & named.keys(), key=lambda number: means[number])]
    assert (known.name, known.key) == (best.name, best.key)
    assert known.valid == pytest.approx(means[best.number])
    assert known.name in str(race.verdict)
    assert known.latency["latency_ms_512"] > 0
    assert (known.difference is None) == (ended == "finished")
    if known.difference is None:
        assert race.name == known.name
        assert (
            race.verdict
            == f"keep {known.name}: the best searched network is behind it by {race.searched_valid - known.valid:.5f} on validation"
        )
        return
    settings, _ = with_recipe(small_race(short_data.path, TWO).final.train, best.recipe)
    train(PlusSpace().from_dict(known.arch), short_data, tmp_path / "known", settings, seeds=2)
    label = np.asarray(short_data.array("valid", "label"))
    mine, theirs = (
        [row_sums(np.load(folder / "predictions" / f"valid-seed-{seed}.npy"), label) for seed in (0, 1)]
        for folder in (path / "winner", tmp_path / "known")
    )
    assert known.difference == paired_bootstrap(mine, theirs)
    (versus,) = run.of(Versus)
    assert (versus.other, versus.difference) == (best.number, known.difference)


def test_scores_that_a_crash_lost_are_made_again(beaten: Path, short_data, tmp_path: Path):
    out = tmp_path / "run"
    shutil.copytree(beaten, out)
    lines = (out / "ledger.jsonl").read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if '"versus"' in line)
    (out / "ledger.jsonl").write_text("".join(lines[:at]))
    for name in ("result.json", "winner.json"):
        (out / name).unlink()
    shutil.rmtree(out / "winner")
    search(small_race(short_data.path, TWO, **WEAK), out)
    assert what_counts(out) == what_counts(beaten)


def test_a_report_draws_the_winner_beside_the_hand_crafted_model(beaten: Path, tmp_path: Path, capsys):
    result = read_run(beaten).result
    assert result is not None
    assert result.race is not None
    said = str(result.race.verdict)
    assert main(["report", str(beaten), "-o", str(tmp_path / "report.html")]) == 0
    page = html.unescape((tmp_path / "report.html").read_text())
    assert said[1:40] in page
    assert "lr and the winner" in page
    assert "test rows a difference in log loss under" in page
    assert "No hand-crafted model was trained" not in page
    assert (tmp_path / "report_files" / "both_run.svg").exists()
    assert "From lr to the winner: block 1 added" in page
    capsys.readouterr()
    assert main(["watch", str(beaten), "--once"]) == 0
    assert f"verdict: {said}" in capsys.readouterr().out


@pytest.mark.parametrize("keep", [0.5, 0.7, 0.8, 0.95])
def test_a_ledger_cut_anywhere_gives_the_same_end(finished: Path, short_data, tmp_path: Path, keep: float):
    """Without any checkpoint left, trainings begin again and arrive at the same."""
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    lines = (out / "ledger.jsonl").read_text().splitlines(keepends=True)
    (out / "ledger.jsonl").write_text("".join(lines[: int(keep * len(lines))]))
    for name in ("result.json", "winner.json"):
        (out / name).unlink()
    shutil.rmtree(out / "winner")
    search(small_race(short_data.path, TWO), out, Execution(workers=2))
    assert what_counts(out) == what_counts(finished)


def test_another_race_is_not_continued(finished: Path, short_data, tmp_path: Path):
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    with pytest.raises(RunError, match="budget"):
        search(small_race(short_data.path, {**TWO, "budget": 25}), out)


def test_report_watch_compare_and_predict_know_the_race(finished: Path, short_data, short_file: Path, tmp_path: Path, capsys):  # fmt: skip
    assert main(["watch", str(finished), "--once"]) == 0
    said = capsys.readouterr().out
    assert "race" in said
    assert main(["report", str(finished), "-o", str(tmp_path / "report.html")]) == 0
    assert "race" in (tmp_path / "report.html").read_text()
    args = ["compare", "--data", str(short_data.path), "--models", "lr", f"{finished}:best"]
    assert main([*args, "--seeds", "1", "--workers", "1", "--quiet", "--out", str(tmp_path / "c"), "epochs=1"]) == 0
    result = read_run(finished).result
    trained = [line for line in lines_of(tmp_path / "c") if line.get("model", "").endswith(":best")]
    assert result is not None
    assert {name: trained[-1]["choice"][name] for name in result.race.changed} == result.race.changed
    (tmp_path / "rows.tsv").write_text("\n".join(short_file.read_text().splitlines()[:50]) + "\n")
    assert main(["predict", f"{finished}:best", "--raw", str(tmp_path / "rows.tsv"), "--quiet"]) == 0


def test_a_seed_without_scores_races_all_the_same(short_data, tmp_path: Path):
    """Final MLP has more blocks than the supernet."""
    config = small_race(
        short_data.path,
        {"recipes": 1},
        search={"method": "evolution", "population": 4, "generations": 0, "children": 2, "tournament": 2, "seeds": ["finalmlp"]},
    )  # fmt: skip
    search(config, tmp_path / "run")
    run = read_run(tmp_path / "run")
    assert run.candidates[0].failed is not None
    assert "finalmlp" in [one.name for one in run.of(Entrant)]
    assert run.result is not None
    assert run.result.race.whole >= 1


def test_diverging_entrants_drop_out_and_a_race_without_any_left_says_so(short_data, tmp_path: Path, monkeypatch):
    train, diverging = RungWork._train, {"0", "2"}

    def some_diverge(work: RungWork, data: Any, space: Any, request: RungRequest) -> RungDone:
        if request.name.split("-")[0] in diverging:
            return RungDone(0.0, 1, failed="the loss became nan")
        return train(work, data, space, request)

    monkeypatch.setattr(RungWork, "_train", some_diverge)
    config = small_race(short_data.path, {"recipes": 1})
    result = search(config, tmp_path / "some")
    lines = read_run(tmp_path / "some").of(RungTraining)
    assert result.race is not None
    assert result.race.failed == 2
    assert {line.entrant for line in lines if line.rung > 0} == {1}
    diverging |= {str(number) for number in range(20)}
    with pytest.raises(RunError, match="every training of the race failed: the loss became nan"):
        search(config, tmp_path / "all")


def test_a_race_on_fewer_rows_ends_with_a_training_on_all_of_them(short_data, tmp_path: Path):
    race = {"budget": 8, "rungs": [0.5], "eta": 2, "brackets": 2, "recipes": 2}
    train = {"epochs": 2, "batch_size": 128}
    config = small_race(short_data.path, final={"rows": 800, "train": train, "race": race})
    result = search(config, tmp_path / "run")
    run = read_run(tmp_path / "run")
    assert result.race is not None
    assert result.race.trained_rows <= result.race.budget_rows == 8 * 800
    assert run.winner_manifest is not None
    settings = TrainSettings.model_validate(run.winner_manifest.settings)
    assert recipe_of(settings) == pytest.approx(result.race.recipe)
    (winner,) = run.winner_trainings
    assert winner.steps == 2 * -(-short_data.rows("train") // settings.batch_size)


def test_the_forecast_of_a_race_goes_by_its_budget(short_data):
    found = [forecast(small_race(short_data.path, {"budget": budget}), 1) for budget in (10, 1000)]
    raced = [next(phase for phase in one.phases if phase.name == "finalists") for one in found]
    assert f"{1000 * short_data.rows('train'):,} rows" in raced[1].what
    assert raced[1].minutes / raced[0].minutes == pytest.approx(100, rel=0.5)
    assert all("reads test" in one.phases[-1].what for one in found)


def test_the_forecast_says_what_the_rows_can_decide(short_data, tmp_path: Path, capsys):
    path = as_yaml(small_race(short_data.path), tmp_path / "c.yaml")
    assert main(["forecast", str(path)]) == 0
    said = f"with {short_data.rows('test'):,} test rows a difference in log loss under "
    assert said in capsys.readouterr().out
    assert main(["forecast", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["decidable"]
    assert found["valid"]["rows"] == short_data.rows("valid")
    assert 0 < found["test"]["least"] < found["test"]["usual"] < found["test"]["most"]


def test_limits_that_exclude_every_seed_are_said(short_data, tmp_path: Path, capsys):
    config = small_race(short_data.path, limits={"params": 20_000}, search={"method": "random", "candidates": 2, "seeds": ["dnn"]})  # fmt: skip
    path = as_yaml(
        config.model_copy(update={"final": config.final.model_copy(update={"race": None})}), tmp_path / "c.yaml"
    )
    assert main(["search", str(path), "--out", str(tmp_path / "run"), "--workers", "1"]) == 0
    assert "all seeds are outside the limits (dnn)" in capsys.readouterr().err
    assert all(one.origin == "random" for one in read_run(tmp_path / "run").candidates)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"search": {"method": "random", "candidates": 2, "seeds": ["zoo"]}}, "begins with 2 at most"),
        ({"search": {"method": "random", "candidates": 2, "seeds": ["deepfn"]}}, "did you mean 'deepfm'"),
        (
            {"search": {"method": "random", "candidates": 9, "seeds": ["nasrec-full-crit"]}},
            "did you mean 'nasrec-full-criteo'",
        ),
        (
            {
                "space": {"name": "nasrec-small", "blocks": 3},
                "search": {"method": "random", "candidates": 9, "seeds": ["published"]},
            },
            "none of them fits",
        ),
        ({"space": {"name": "nasrec-small"}}, "space.name=nasrec-plus"),
        ({"race": {"budget": 2.5}}, r"final\.race\.budget=3"),
        ({"race": {"rungs": [1, 3]}}, r"final\.race\.rungs"),
    ],
)
def test_mistakes_are_refused_before_anything_is_spent(short_data, changes: dict[str, Any], said: str):
    with pytest.raises(ConfigError) as caught:
        CtrTask(small_race(short_data.path, **changes))
    assert re.search(said, str(caught.value))


def test_the_winner_of_a_run_and_a_published_architecture_are_seeds(finished: Path, short_data, tmp_path: Path):
    arch = NasrecSpace("nasrec-full", blocks=3).sample(np.random.default_rng(1))
    (tmp_path / "arch.json").write_text(dump_arch(arch))
    names = [f"{finished}:best", str(tmp_path / "arch.json"), "zoo"]
    task = CtrTask(small_race(short_data.path, search={"method": "random", "candidates": 30, "seeds": names}))
    assert len(task.seeds) == 2 + 18 - (read_run(finished).result.race.name is not None)
    assert task.seeds[1].arch == from_nasrec(arch)
    assert PLUS["name"] == {seed.arch.space for seed in task.seeds}.pop()


@pytest.mark.parametrize(("space", "names"), [("nasrec-plus", 4), ("nasrec-small", 2)])
def test_published_architectures_are_seeds_as_far_as_they_fit(short_data, space: str, names: int):
    settings = {"space": {"name": space}, "search": {"method": "random", "candidates": 9, "seeds": ["published"]}}
    seeds = CtrTask(small_race(short_data.path, **settings)).seeds
    assert [seed.name for seed in seeds] == [name for name in published() if space == "nasrec-plus" or "small" in name]
    assert len(seeds) == names
    assert all(seed.arch.key == named_arch(seed.name).key for seed in seeds)


def test_candidates_that_nobody_judges_stay_in_their_order_and_need_no_supernet(short_data, tmp_path: Path):
    search(small_race(short_data.path, {"recipes": 1}, evaluator="none"), tmp_path / "run")
    run = read_run(tmp_path / "run")
    assert not (tmp_path / "run" / "warmup").exists()
    drawn = [one.index for one in run.candidates if one.origin == "random"]
    assert [one.index for one in run.of(Entrant) if one.why == "search"] == drawn[
        : sum(one.why == "search" for one in run.of(Entrant))
    ]
    assert main(["report", str(tmp_path / "run"), "-o", str(tmp_path / "report.html")]) == 0
