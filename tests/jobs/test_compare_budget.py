"""`recnas compare --budget`: each model's rows are spent on a race of its own recipes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from recnas.baselines.base import InputShape
from recnas.baselines.encoded import encode
from recnas.bench.entrants import HandCrafted
from recnas.cli.main import main
from recnas.engines.execution import Execution
from recnas.errors import ConfigError, RunError
from recnas.jobs.compare import compare
from recnas.runs.ledger import Ledger
from recnas.runs.records import Entrant
from recnas.searchers.race import Lap
from recnas.searchers.settings import HalvingSettings
from recnas.space.nasrec.json import dump_arch
from recnas.tasks.comparison.halving import Budget
from recnas.tasks.comparison.work import CompareWork, Trial
from recnas.train.checkpoint import load_latest
from recnas.train.settings import TrainSettings

QUICK = TrainSettings(epochs=3, batch_size=128, stop={"patience": 1}, embeddings={"width": 4}, checkpoint_seconds=0.2)
HALVING = HalvingSettings(rungs=(0.4, 1), eta=2)
TIMES = ("seconds", "rows_per_second", "latency", "p50_ms_1", "p99_ms_1", "p50_ms_512", "p99_ms_512")
GIVEN: dict[str, Any] = {"settings": QUICK, "halving": HALVING, "seeds": 1, "budget": 7}


def lines_of(run: Path, event: str, model: str | None = None) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in line.items() if key not in TIMES}
        for line in Ledger(run / "ledger.jsonl").read()
        if line["event"] == event and model in (None, line["id"])
    ]


def board_of(run: Path) -> dict[str, Any]:
    board = json.loads((run / "leaderboard.json").read_text())
    for row in board["models"]:
        for name in TIMES:
            row.pop(name, None)
    return board


def rows_read(steps: int, batch: int, rows: int) -> int:
    """Batch after batch, as a loader reads."""
    read, left = 0, rows
    for _ in range(steps):
        read, left = read + min(batch, left), left - min(batch, left)
        left = left or rows
    return read


@pytest.fixture(scope="module")
def models(short_data, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    path = tmp_path_factory.mktemp("arch") / "mine.json"
    shape = InputShape.of(short_data.schema, QUICK.embeddings.width)
    path.write_text(dump_arch(encode("dnn", shape, {"hidden": (8,)})))
    return ["fm", "lr", str(path), "sklearn-lr"]


@pytest.fixture(scope="module")
def finished(short_data, models: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("halving") / "run"
    compare(short_data, out, models, **GIVEN)
    return out


def test_rows_are_counted_and_the_best_go_on(finished: Path, short_data):
    rows = short_data.rows("train")
    board = {row["model"]: row for row in board_of(finished)["models"]}
    assert len(board) == 4
    for row in board.values():
        if row["model"] == "sklearn-lr":
            assert [line["trial"] for line in lines_of(finished, "trial", row["id"])] == list(range(7))
            assert row["tuned_rows"] == 7 * rows
            continue
        trials = lines_of(finished, "trial", row["id"])
        by_rung: dict[int, dict[int, dict[str, Any]]] = {}
        furthest: dict[int, dict[str, Any]] = {}
        for line in trials:
            read = rows_read(line["steps"], line["choice"]["batch_size"], rows)
            assert line["trained_rows"] == read
            assert line.get("rung", 0) == (furthest[line["trial"]]["rung"] + 1 if line["trial"] in furthest else 0)
            by_rung.setdefault(line.setdefault("rung", 0), {})[line["trial"]] = line
            furthest[line["trial"]] = line
        spent = sum(line["trained_rows"] for line in furthest.values())
        assert 2 * rows < spent <= 7 * rows
        assert row["tuned_rows"] == spent
        assert row["trials"] == len(by_rung[0]) > 4
        assert row["trained_rows"] == spent + sum(
            line["trained_rows"] for line in lines_of(finished, "seed", row["id"])
        )
        for rung in (0, 1):
            here = by_rung[rung]
            best = sorted(here, key=lambda number: (here[number]["valid"]["logloss"], number))
            assert set(by_rung[rung + 1]) == set(best[: max(1, len(here) // 2)])
        ends = [furthest[number] for number in by_rung[2]]
        assert all(line["ended"] for line in ends)
        assert row["whole"] == sum(line.get("ended", False) for line in furthest.values())
        winner = min(ends, key=lambda line: (line["valid"]["logloss"], line["trial"]))
        assert row["choice"] == winner["choice"]
        assert not any("test" in line for line in trials)
        # Its default first; the others from the grid that all models share, with its own options on top.
        assert by_rung[0][0]["choice"]["batch_size"] == 128
        assert {line["choice"]["batch_size"] for line in trials} <= {128, 256, 512}
        assert len({json.dumps(line["choice"]) for line in by_rung[0].values()}) == len(by_rung[0])
    assert not any((finished / "work").iterdir())


def test_a_training_in_rungs_is_the_training_in_one_go(finished: Path, short_data, tmp_path: Path):
    """The recipe that won, once more: outside a race, and in one lap as far as it was taken."""
    for trial in lines_of(finished, "trial", "lr"):
        if trial.get("rung") != 2:
            continue
        work = CompareWork(str(short_data.path), QUICK, str(tmp_path))
        entrant = HandCrafted("lr", "lr")
        if not trial.get("cut"):
            once = work.open()(Trial(entrant, trial["choice"], trial["seed"], trial["trial"]))
            assert (once.valid, once.best_epoch) == (trial["valid"], trial["best_epoch"])
            assert once.trained_rows == trial["trained_rows"]
        one = Entrant(number=0, index=0, key="", arch={}, recipe=trial["choice"], why="")
        checkpoints = []
        earlier = [line["steps"] for line in lines_of(finished, "trial", "lr") if line["trial"] == trial["trial"]]
        for name, ends in (("parts", earlier), ("whole", [trial["steps"]])):
            work = CompareWork(str(short_data.path), QUICK, str(tmp_path / name))
            for rung, until in enumerate(ends):
                lap = Lap(one, rung, trial["seed"], until, end=until == trial["steps"])
                done = work.open()(Trial(entrant, trial["choice"], trial["seed"], trial["trial"], lap))
            assert done.valid == trial["valid"]
            saved = load_latest(tmp_path / name / "work" / f"lr-trial-{trial['trial']}")
            assert saved is not None
            checkpoints.append(saved.tensors)
        assert checkpoints[0].keys() == checkpoints[1].keys()
        assert all(torch.equal(checkpoints[0][key], checkpoints[1][key]) for key in checkpoints[0])
        break
    else:
        pytest.fail("no recipe came to its end")


def test_two_workers_and_kills_change_nothing(
    finished: Path, models: list[str], short_data, tmp_path: Path, monkeypatch
):
    compare(short_data, tmp_path / "two", models[:2], **GIVEN, how=Execution(workers=2))
    for model in ("fm", "lr"):
        for event in ("trial", "seed"):
            assert lines_of(tmp_path / "two", event, model) == lines_of(finished, event, model)

    from recnas.train.loop import Trainer

    class Killed(BaseException):
        pass

    original, left, kills = Trainer._train, [0], 0

    def dying(self, batch):
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return original(self, batch)

    monkeypatch.setattr(Trainer, "_train", dying)
    saving = QUICK.model_copy(update={"checkpoint_seconds": 0.02})
    for _ in range(60):
        left[0] = 60
        try:
            compare(short_data, tmp_path / "cut", models[:2], **{**GIVEN, "settings": saving})
            break
        except Killed:
            kills += 1
    assert kills > 3
    for model in ("fm", "lr"):
        for event in ("trial", "seed"):
            assert lines_of(tmp_path / "cut", event, model) == lines_of(finished, event, model)
    for file in (tmp_path / "cut" / "predictions").iterdir():
        assert file.read_bytes() == (finished / "predictions" / file.name).read_bytes()
    assert not any((tmp_path / "cut" / "work").iterdir())

    # More models join; what is there is not run again.
    before = (tmp_path / "cut" / "ledger.jsonl").read_bytes()
    monkeypatch.setattr(Trainer, "_train", original)
    compare(short_data, tmp_path / "cut", models, **GIVEN)
    assert (tmp_path / "cut" / "ledger.jsonl").read_bytes().startswith(before)
    assert board_of(tmp_path / "cut") == board_of(finished)
    with pytest.raises(RunError, match=r"halving\.eta was 2, now 3"):
        compare(short_data, tmp_path / "cut", models, **{**GIVEN, "halving": HalvingSettings(rungs=(0.4, 1), eta=3)})


def test_a_model_whose_recipes_all_fail_keeps_its_default(short_data, tmp_path: Path, monkeypatch):
    from recnas.baselines.fm import FM

    original = FM.forward
    monkeypatch.setattr(FM, "forward", lambda self, dense, embedded: original(self, dense, embedded) * float("nan"))
    board = compare(short_data, tmp_path / "run", ["lr", "fm"], **{**GIVEN, "budget": 4.5})
    assert [row.model for row in board.models] == ["lr"]
    assert "training loss became nan" in board.failed["fm"]
    trials = lines_of(tmp_path / "run", "trial", "fm")
    assert len(trials) > 1
    assert all("failed" in line and line.get("rung", 0) == 0 for line in trials)
    (final,) = lines_of(tmp_path / "run", "seed", "fm")
    assert final["choice"] == trials[0]["choice"]


@pytest.mark.parametrize("batch", [128, 700])
@pytest.mark.parametrize("epochs", [3, 2.003])
def test_the_least_that_works_works_and_less_is_refused(short_data, batch: int, epochs: float):
    settings = QUICK.model_copy(update={"batch_size": batch, "epochs": epochs})
    entrants, rows = [HandCrafted("fm", "fm")], short_data.rows("train")
    with pytest.raises(ConfigError, match=r"The least that works: --budget [\d.]+x") as refused:
        Budget(settings, HALVING, 1, rows).check(entrants)
    least = float(str(refused.value).split("--budget ")[2].split("x")[0])
    Budget(settings, HALVING, least, rows).check(entrants)
    with pytest.raises(ConfigError, match="too small"):
        Budget(settings, HALVING, least - 0.011, rows).check(entrants)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["schedule=cosine"], "Use schedule=plateau or schedule=constant"),
        (["epochs=8"], "The least that works: --budget 8x"),
        (["epochs=1"], "'halving.rungs=[0.111,0.333]'"),
        (["halving.rungs=[1,0.5]"], "rungs must be passes over the training rows, rising"),
        (["halving.eta=1"], "eta"),
    ],
)
def test_mistakes_are_explained(short_data, tmp_path: Path, capsys, words: list[str], said: str):
    command = ["compare", "--data", str(short_data.path), "--out", str(tmp_path / "run"), "--models", "dnn", "--quiet"]
    assert main([*command, "--budget", "7x", *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_command_says_what_was_spent_and_chosen(short_data, tmp_path: Path, capsys):
    command = ["compare", "--data", str(short_data.path), "--out", str(tmp_path / "run"), "--models", "lr", "--quiet",
               "--budget", "3x", "--seeds", "1", "--workers", "1", "epochs=2", "batch_size=256", "embeddings.width=4",
               "halving.rungs=[0.5,1]", "halving.eta=2"]  # fmt: skip
    assert main(command) == 0
    out = capsys.readouterr().out
    (row,) = board_of(tmp_path / "run")["models"]
    spent = row["tuned_rows"] / short_data.rows("train")
    assert (
        f"lr: best of {row['trials']} recipe(s), {row['whole']} of them trained to the end, {spent:.1f} of 3x spent"
        in out
    )
    assert row["trials"] > 1
    assert main(["watch", str(tmp_path / "run"), "--once"]) == 0
    assert f"tuning trials: {row['trials']}, {row['tuned_rows']:,} training rows" in capsys.readouterr().out
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["halving"] == {
        "rungs": [0.5, 1.0],
        "eta": 2,
        "usual_passes": 5.0,
    }
