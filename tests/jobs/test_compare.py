from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss, roc_auc_score

from recnas.cli.main import main
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.synthetic import generate
from recnas.engines.execution import Execution
from recnas.errors import RunError
from recnas.files import write_json
from recnas.jobs.compare import compare
from recnas.runs.folder import RunDir
from recnas.runs.ledger import Ledger
from recnas.runs.search_result import Budget, SearchResult, Winner
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.json import dump_arch
from recnas.train.settings import TrainSettings

QUICK = TrainSettings(epochs=0.15, batch_size=256, lr=0.03, embeddings={"width": 4})
MODELS = ["dlrm", "lr", "deepfm", "sklearn-lr"]
TIMES = ("seconds", "rows_per_second", "latency", "p50_ms_1", "p99_ms_1", "p50_ms_512", "p99_ms_512")


@pytest.fixture
def arch_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.json"
    path.write_text(dump_arch(NasrecSpace("nasrec-small", blocks=2).sample(np.random.default_rng(1))))
    return path


def without_times(value):
    """The same without what a clock decided."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def events(run: Path) -> list[dict]:
    return Ledger(run / "ledger.jsonl").read()


def test_board_from_end_to_end(criteo_data, arch_file: Path, tmp_path: Path, capsys):
    run = tmp_path / "run"
    command = ["compare", "--data", str(criteo_data.path), "--out", str(run), "--seeds", "2", "--workers", "1", "--quiet",
               "--models", *MODELS, str(arch_file), "--reference", "DLRM",
               "epochs=0.15", "batch_size=256", "lr=0.03", "embeddings.width=4"]  # fmt: skip
    assert main(command) == 0
    screen = capsys.readouterr().out
    assert "vs dlrm" in screen
    board = json.loads((run / "leaderboard.json").read_text())
    rows = {row["model"]: row for row in board["models"]}
    assert set(rows) == {*MODELS, "mine"}
    assert board["reference"] == "dlrm"
    assert [row["rank"] for row in board["models"]] == [1, 2, 3, 4, 5]
    losses = [row["test"]["logloss"]["mean"] for row in board["models"]]
    assert losses == sorted(losses)
    assert rows["dlrm"]["difference"] is None
    assert rows["dlrm"]["seeds"] == [0, 1]
    assert rows["sklearn-lr"]["seeds"] == [0]
    assert rows["lr"]["embedding_params"] * 5 == rows["deepfm"]["embedding_params"]
    assert rows["dlrm"]["embedding_params"] == rows["lr"]["embedding_params"] * 4
    assert rows["deepfm"]["latency"]["p50_ms_1"] <= rows["deepfm"]["latency"]["p99_ms_1"]
    assert rows["sklearn-lr"]["latency"] is None

    # Metrics from the kept predictions, by scikit-learn.
    label = np.asarray(criteo_data.array("test", "label"))
    for event in (event for event in events(run) if event["event"] == "seed" and event["id"] == "deepfm"):
        logits = np.load(run / "predictions" / f"deepfm-seed-{event['seed']}.npy")
        assert logits.dtype == np.float32
        assert event["test"]["logloss"] == pytest.approx(log_loss(label, 1 / (1 + np.exp(-logits.astype(float)))))
        assert event["test"]["auc"] == pytest.approx(roc_auc_score(label, logits))
    difference = rows["deepfm"]["difference"]
    means = [rows[name]["test"]["logloss"]["mean"] for name in ("deepfm", "dlrm")]
    assert difference["logloss"] == pytest.approx(means[0] - means[1])
    assert difference["logloss_interval"][0] <= difference["logloss"] <= difference["logloss_interval"][1]

    # The floor: always predicting the click rate of the training rows.
    rate = float(np.asarray(criteo_data.array("train", "label")).mean())
    guess = log_loss(label, np.full(len(label), rate))
    assert board["guess"]["logloss"] == pytest.approx(guess)
    for row in board["models"]:
        assert row["to_guess"]["logloss"] == pytest.approx(row["test"]["logloss"]["mean"] - guess)
        guesses = row["test"]["normalized_entropy"]["mean"] >= 1 or row["to_guess"]["logloss_interval"][1] >= 0
        assert (row["verdict"] == "no better than guessing") == guesses
        assert (f"{row['model']}:" in screen or f"{row['model']}," in screen) or not guesses

    # The headline: the searched model against the best of the others, whatever the reference.
    best = next(row for row in board["models"] if row["model"] != "mine")
    assert (board["headline"]["model"], board["headline"]["other"]) == ("mine", best["model"])
    assert board["headline"]["difference"]["logloss"] == pytest.approx(
        rows["mine"]["test"]["logloss"]["mean"] - best["test"]["logloss"]["mean"]
    )
    assert f"{best['model']}, the best of the 4 other models" in screen

    with open(run / "leaderboard.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["model"] for line in lines] == [row["model"] for row in board["models"]]
    assert float(lines[0]["test_logloss"]) == losses[0]
    assert not (run / "work").exists() or not any((run / "work").iterdir())
    assert not (run / "models").exists()

    # The same command again trains nothing; more seeds and models join.
    before = (run / "ledger.jsonl").read_bytes()
    assert main(command) == 0
    assert (run / "ledger.jsonl").read_bytes() == before
    assert json.loads((run / "leaderboard.json").read_text()) == board
    more = [
        *command[: command.index("--models")],
        "--models",
        "dlrm",
        "fm",
        *command[command.index("--reference") :],
    ]
    assert main(more) == 0
    assert (run / "ledger.jsonl").read_bytes().startswith(before)
    assert {event["id"] for event in events(run)[-3:]} == {"fm"}


def test_trials_are_chosen_on_validation_and_equal_in_number(criteo_data, tmp_path: Path):
    board = compare(criteo_data, tmp_path / "run", MODELS, settings=QUICK, seeds=1, tune=3)
    found = events(tmp_path / "run")
    for model in MODELS:
        trials = [event for event in found if event["event"] == "trial" and event["id"] == model]
        assert [event["trial"] for event in trials] == [0, 1, 2]
        assert len({json.dumps(event["choice"]) for event in trials}) == 3
        assert all("test" not in event for event in trials)
        best = min(trials, key=lambda event: event["valid"]["logloss"])
        (row,) = (row for row in board.models if row.id == model)
        assert row.choice == best["choice"]
        assert row.trials == 3


def test_a_killed_run_ends_with_the_same_numbers_and_workers_do_not_matter(criteo_data, tmp_path: Path, monkeypatch):
    models = ["deepfm", "sklearn-lr"]
    whole = compare(criteo_data, tmp_path / "whole", models, settings=QUICK, seeds=2, tune=2, how=Execution(workers=2))
    one = compare(criteo_data, tmp_path / "one", models, settings=QUICK, seeds=2, tune=2)
    assert without_times(one.to_json()) == without_times(whole.to_json())
    assert without_times(events(tmp_path / "one")) == without_times(events(tmp_path / "whole"))

    # Stop in the middle of trainings (a checkpoint is written after each step), again and again.
    from recnas.train.loop import Trainer

    class Killed(BaseException):
        pass

    original, left = Trainer._train, [0]

    def dying(self, batch):
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return original(self, batch)

    monkeypatch.setattr(Trainer, "_train", dying)
    kills, saving = 0, QUICK.model_copy(update={"checkpoint_seconds": 0.0})
    for _ in range(60):
        left[0] = 8
        try:
            cut = compare(criteo_data, tmp_path / "cut", models, settings=saving, seeds=2, tune=2)
            break
        except Killed:
            kills += 1
    assert kills > 3
    assert without_times(cut.to_json()) == without_times(whole.to_json())
    for kept in sorted((tmp_path / "whole" / "predictions").iterdir()):
        assert kept.read_bytes() == (tmp_path / "cut" / "predictions" / kept.name).read_bytes()

    # A lost predictions file is made again.
    monkeypatch.setattr(Trainer, "_train", original)
    lost = tmp_path / "cut" / "predictions" / "deepfm-seed-1.npy"
    bytes_before = lost.read_bytes()
    lost.unlink()
    again = compare(criteo_data, tmp_path / "cut", models, settings=QUICK, seeds=2, tune=2)
    assert without_times(again.to_json()) == without_times(whole.to_json())
    assert lost.read_bytes() == bytes_before


def test_kept_weights_give_the_kept_predictions(criteo_data, tmp_path: Path):
    from recnas.bench.entrants import HandCrafted
    from recnas.data.loader import BatchLoader
    from recnas.train.checkpoint import load_latest

    compare(criteo_data, tmp_path / "run", ["wide-deep"], settings=QUICK, seeds=1, keep=True)
    folder = tmp_path / "run" / "models" / "wide-deep-seed-0"
    saved = load_latest(folder)
    facts = json.loads((folder / "model.json").read_text())
    assert facts["model"] == {"kind": "hand-crafted", "model": "wide-deep"}
    entrant = HandCrafted("wide-deep", "wide-deep")
    built = entrant.build(facts["choice"], criteo_data.schema, QUICK, 5, torch.device("cpu"))
    with torch.no_grad():
        for name, parameter in built.network.named_parameters():
            parameter.copy_(saved.tensors[f"network/{name}"])
    parts = built.embeddings.state_dict()
    built.embeddings.load_state_dict({p: {n: saved.tensors[f"embeddings/{p}/{n}"] for n in parts[p]} for p in parts})
    built.network.eval()
    with torch.no_grad():
        logits = torch.cat(
            [
                built.network(b.dense, built.embeddings.lookup(b.ids))
                for b in BatchLoader(criteo_data, "test", 4096).epoch()
            ]
        )
    np.testing.assert_array_equal(logits.numpy(), np.load(tmp_path / "run" / "predictions" / "wide-deep-seed-0.npy"))


def finished_search(path: Path, data, arch_file: Path) -> Path:
    """What `recnas search` leaves, as far as a comparison reads it."""
    settings = TrainSettings(layernorm=False).model_dump(mode="json")
    RunDir.create(path, "search", task="ctr", config={"final": {"train": settings, "retrain_settings": None}},
                  data={"path": str(data.path), "fingerprint": data.fingerprint})  # fmt: skip
    shutil.copy(arch_file, path / "winner.json")
    result = SearchResult(
        task="ctr", method="random", metric="logloss", winner=Winner(key="k", index=0, arch={}), valid={}, test={},
        objectives={"sigeo": "max"}, seeds={}, budget=Budget(proposed=1), seconds={}, data=data.fingerprint,
    )  # fmt: skip
    write_json(path / "result.json", result.to_json())
    return path


def test_the_winner_of_a_search_joins_with_its_own_layernorm(criteo_data, arch_file: Path, tmp_path: Path):
    from recnas.space.nasrec.cost import count
    from recnas.space.nasrec.json import load_arch

    search = finished_search(tmp_path / "search", criteo_data, arch_file)
    board = compare(criteo_data, tmp_path / "run", ["lr", f"{search}:best"], "lr", QUICK, seeds=1)
    (row,) = (row for row in board.models if row.model == f"{search}:best")
    assert row.params == count(load_arch(arch_file), criteo_data.schema, width=4, layernorm=False).params


def test_every_mistake_is_reported_at_once(criteo_data, arch_file: Path, tmp_path: Path, capsys):
    raw = tmp_path / "other.tsv"
    generate("criteo", 3000, 9, raw)
    other = prepare("criteo", [raw], tmp_path / "other", PrepareOptions(min_count=5))
    foreign = finished_search(tmp_path / "foreign", other, arch_file)
    unfinished = finished_search(tmp_path / "unfinished", criteo_data, arch_file)
    (unfinished / "result.json").unlink()
    command = ["compare", "--data", str(criteo_data.path), "--out", str(tmp_path / "run"), "--models", "depfm", "dlrm", "DLRM",
               f"{foreign}:best", f"{unfinished}:best", f"{tmp_path}/nowhere:best", "missing.json", "dcn"]  # fmt: skip
    assert main(command) == 2
    message = capsys.readouterr().err
    for part in ("did you mean 'deepfm'?", "DLRM is the same model, named twice", "was searched on other data", other.fingerprint[:12],
                 "is not finished; continue it: recnas search --resume", "There is no run directory", "missing.json", "sklearn-lr"):  # fmt: skip
        assert part in message, part
    assert not (tmp_path / "run").exists()

    base = [
        "compare",
        "--data",
        str(criteo_data.path),
        "--out",
        str(tmp_path / "run"),
        "--models",
        "lr",
        "fm",
    ]
    assert main([*base, "--reference", "dlrm"]) == 2
    assert "--reference dlrm is not among the models" in capsys.readouterr().err
    assert main([*base, "--tune", "50000"]) == 2
    assert "Every model gets the same" in capsys.readouterr().err
    assert main([*base, "--seeds", "0", "learning=3"]) == 2
    message = capsys.readouterr().err
    assert "--seeds must be at least 1" in message
    assert "unknown key 'learning'" in message
    assert main([*base, "--workers", "0"]) == 2
    assert "--workers must be at least 1" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_other_settings_or_data_are_refused_for_a_run_that_exists(criteo_data, tmp_path: Path):
    compare(criteo_data, tmp_path / "run", ["lr"], settings=QUICK, seeds=1)
    with pytest.raises(RunError, match="tune was 0, now 2"):
        compare(criteo_data, tmp_path / "run", ["lr"], settings=QUICK, seeds=1, tune=2)
    with pytest.raises(RunError, match=r"holds another run: lr was .*, now 0\.5"):
        compare(criteo_data, tmp_path / "run", ["lr"], settings=QUICK.model_copy(update={"lr": 0.5}), seeds=1)


def test_a_model_that_diverges_is_reported_and_the_others_go_on(criteo_data, tmp_path: Path, monkeypatch):
    from recnas.baselines.fm import FM

    original = FM.forward
    monkeypatch.setattr(FM, "forward", lambda self, dense, embedded: original(self, dense, embedded) * float("nan"))
    board = compare(criteo_data, tmp_path / "run", ["lr", "fm"], settings=QUICK, seeds=1)
    assert [row.model for row in board.models] == ["lr"]
    assert "training loss became nan" in board.failed["fm"]


def test_a_floor_that_is_not_installed_is_skipped_with_the_reason(criteo_data, tmp_path: Path, monkeypatch):
    from recnas.bench import other_models

    monkeypatch.setattr(other_models.importlib.util, "find_spec", lambda name: None)
    board = compare(criteo_data, tmp_path / "run", ["lr", "lightgbm"], settings=QUICK, seeds=1)
    assert "pip install lightgbm" in board.skipped["lightgbm"]
    assert len(board.models) == 1


def test_lightgbm_if_installed(criteo_data, tmp_path: Path):
    pytest.importorskip("lightgbm")
    board = compare(criteo_data, tmp_path / "run", ["lr", "lightgbm"], settings=QUICK, seeds=1, tune=2)
    (row,) = (row for row in board.models if row.model == "lightgbm")
    assert row.value("test", "auc").mean > 0.55
