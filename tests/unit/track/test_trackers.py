"""What trackers were told is read back by their own readers; and a run is the same whoever looks on."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import struct
import sys
from pathlib import Path
from typing import ClassVar

import pytest

import recnas
from recnas.cli.main import main
from recnas.config import check_settings
from recnas.errors import ConfigError
from recnas.jobs.search import search
from recnas.runs.folder import RunDir
from recnas.runs.ledger import Ledger
from recnas.runs.records import SeedTraining, Trained, read_lines
from recnas.tasks.settings import CtrSearchConfig
from recnas.track import follow
from recnas.track.base import Point
from recnas.track.follow import TRACKERS, send_run, tracking
from recnas.track.points import Points
from tests.jobs.search_helpers import what_counts


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed")


def small(data: Path, **changes) -> CtrSearchConfig:
    settings = {
        "data": str(data), "space": {"name": "nasrec-small", "blocks": 2}, "evaluator": "none",
        "search": {"method": "random", "candidates": 3},
        "final": {"candidates": 1, "rows": 1000, "train": {"epochs": 0.2, "schedule": "constant", "stop": {"patience": None}}},
    }  # fmt: skip
    return check_settings(CtrSearchConfig, {**settings, **changes}, "the test")


@pytest.fixture(scope="module")
def runs(criteo_data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One search that nobody looks at, and the same one with every tracker that is installed."""
    folder = tmp_path_factory.mktemp("runs")
    search(small(criteo_data.path), folder / "alone")
    there = [
        name for name, (_, package, _) in TRACKERS.items() if importlib.util.find_spec(package) and name != "wandb"
    ]
    search(small(criteo_data.path, track=there), folder / "watched")
    return folder


def expected(run: Path) -> dict[str, list[tuple[int, float]]]:
    """By curve, from the ledgers of a run and of those in it; not by the code that follows runs."""
    found: dict[str, list[tuple[int, float]]] = {}
    for file in sorted(run.rglob("ledger.jsonl")):
        inside = file.parent.relative_to(run).as_posix()
        points = Points("" if inside == "." else f"{inside}/")
        kind = json.loads((file.parent / "manifest.json").read_text())["kind"]
        for record in read_lines(kind, Ledger(file).read(), "test"):
            for series, step, value in points.of(record):
                found.setdefault(series, []).append((step, value))
    return found


def test_a_run_is_the_same_whoever_looks_on(runs: Path):
    (ours, result), (theirs, other) = what_counts(runs / "alone"), what_counts(runs / "watched")
    assert ours == theirs
    assert result == other
    weights = [sorted((runs / name / "winner").rglob("*.safetensors")) for name in ("alone", "watched")]
    assert [file.name for file in weights[0]] == [file.name for file in weights[1]]
    assert all(one.read_bytes() == two.read_bytes() for one, two in zip(*weights))
    assert weights[0]
    assert not list((runs / "watched").rglob("*tfevents*"))  # nothing of others in what is sealed
    assert main(["verify", str(runs / "watched")]) == 0


def by_tensorboard(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def assert_same(found: dict[str, list[tuple[int, float]]], wanted: dict[str, list[tuple[int, float]]]) -> None:
    assert sorted(found) == sorted(wanted)
    for series, points in wanted.items():
        assert [step for step, _ in found[series]] == [step for step, _ in points], series
        assert all(math.isclose(a, b, rel_tol=1e-6) for (_, a), (_, b) in zip(found[series], points)), (
            series
        )  # TensorBoard keeps 32 bits


@needs("tensorboard")
def test_tensorboard_has_the_curves(runs: Path, tmp_path: Path):
    wanted = expected(runs / "watched")
    assert {"candidates/params", "finalists/valid/logloss", "winner/final/test/logloss"} <= set(wanted)
    assert_same(by_tensorboard(runs / "track/tensorboard/watched"), wanted)
    # A run that has ended is sent later, once.
    for _ in range(2):
        assert main(["track", str(runs / "alone"), "--to", "tensorboard", "--out", str(tmp_path)]) == 0
    assert_same(by_tensorboard(tmp_path / "tensorboard/alone"), expected(runs / "alone"))


@needs("mlflow")
def test_mlflow_has_the_curves(runs: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=(runs / "track/mlflow").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("recnas").experiment_id])
    assert run.info.run_name == "watched"
    assert run.info.status == "FINISHED"
    assert run.data.params["config.search.candidates"] == "3"
    found = {
        name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)] for name in run.data.metrics
    }
    assert_same(
        {name: sorted(points) for name, points in found.items()},
        {name: sorted(points) for name, points in expected(runs / "watched").items()},
    )


@pytest.mark.spawns
@needs("wandb")
def test_wandb_has_the_curves_offline(runs: Path, tmp_path: Path):
    assert send_run("wandb", runs / "alone", tmp_path)
    (file,) = (tmp_path / "wandb").glob("wandb/offline-run-*/*.wandb")
    found: dict[str, list[tuple[int, float]]] = {}
    for record in wandb_records(file.read_bytes()):
        row = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        for name, value in row.items():
            if f"step/{name}" in row:
                found.setdefault(name, []).append((row[f"step/{name}"], value))
    assert_same(found, expected(runs / "alone"))


def wandb_records(data: bytes):
    """The records of a .wandb file: a log in blocks of 32 kB, as LevelDB writes it, of messages of its own kind."""
    from wandb.proto import wandb_internal_pb2

    place, whole = 7, b""
    while place < len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, size, kind = struct.unpack("<IHB", data[place : place + 7])
        whole += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or its last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            whole = b""
            yield record


class Telling:
    """A tracker of the test; what it is told outlives it, as with real ones."""

    told: ClassVar[list] = []
    fault: Exception | None = None

    def begin(self, run):
        self.told.append((run.name, run.known))
        return "its name"

    def send(self, points):
        if self.fault is not None:
            raise self.fault
        self.told += points

    def end(self):
        self.told.append("end")


@pytest.fixture
def telling(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(TRACKERS, "tensorboard", (f"{__name__}:Telling", "tensorboard", "tensorboard"))
    monkeypatch.setattr(Telling, "told", [])
    monkeypatch.setattr(Telling, "fault", None)
    monkeypatch.setattr(follow, "import_module", lambda _: sys.modules[__name__])
    return Telling


def write(out: Path, seeds: list[int], said: list[str]) -> None:
    run = RunDir.create(out, "train", settings={"lr": 1})
    with tracking(["tensorboard"], out, said.append), run.locked():
        for seed in seeds:
            run.ledger.append(SeedTraining(seed=seed, train_curve=[(1, 0.5)], valid={"logloss": 0.1}).to_json())


def test_a_run_that_goes_on_sends_what_is_new(telling, tmp_path: Path):
    said: list[str] = []
    write(tmp_path / "run", [0, 1], said)
    write(tmp_path / "run", [2], said)
    write(tmp_path / "run", [], said)
    assert [point[1] for point in telling.told if point[0] == "final/valid/logloss"] == [0, 1, 2]
    assert [one for one in telling.told if one[0] == "run"] == [("run", None), ("run", "its name"), ("run", "its name")]
    assert telling.told.count("end") == 3
    assert said == []


def test_places_are_counted_from_the_beginning_of_a_ledger(telling, tmp_path: Path):
    """A run that is opened twice while it is followed, and one whose last lines were repaired away."""
    run = RunDir.create(tmp_path / "run", "search")
    lines = [Trained(index=i, key="k", arch={}, seed=0, valid={"logloss": float(i)}).to_json() for i in range(4)]
    with tracking(["tensorboard"], run.path, print):
        for some in (lines[:2], lines[2:]):
            with run.locked():
                for line in some:
                    run.ledger.append(line)
    assert [point.step for point in telling.told if isinstance(point, Point)] == [0, 1, 2, 3]
    file = run.ledger.path
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:1]))
    with tracking(["tensorboard"], run.path, print), run.locked():
        run.ledger.append(lines[3])
    assert [point.step for point in telling.told if isinstance(point, Point)] == [0, 1, 2, 3, 1]


def test_one_that_fails_is_one_sentence_and_is_told_later(telling, tmp_path: Path):
    said: list[str] = []
    telling.fault = OSError("no room")
    write(tmp_path / "run", [0, 1, 2], said)
    assert len(said) == 1
    assert "OSError: no room" in said[0]
    assert "recnas track" in said[0]
    assert len(RunDir.open(tmp_path / "run").ledger.read()) == 3
    telling.fault = None
    assert send_run("tensorboard", tmp_path / "run")
    assert [point[1] for point in telling.told if point[0] == "final/valid/logloss"] == [0, 1, 2]


@pytest.mark.parametrize("name", TRACKERS)
def test_one_that_is_not_installed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    package = TRACKERS[name][1]
    for module in [one for one in sys.modules if one.split(".")[0] == package or one == "torch.utils.tensorboard"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    said: list[str] = []
    run = RunDir.create(tmp_path / "run", "train")
    with tracking([name], tmp_path / "run", said.append), run.locked():
        run.ledger.append(SeedTraining(seed=0, train_curve=[]).to_json())
    assert len(run.ledger.read()) == 1
    assert [f"pip install 'recnas[{name}]'" in one for one in said] == [True]
    assert main(["track", str(tmp_path / "run"), "--to", name]) == 2
    assert "is not installed" in capsys.readouterr().err


def test_names_are_checked_before_anything_is_done(criteo_data, tmp_path: Path, capsys):
    with pytest.raises(ConfigError, match="track"):
        small(criteo_data.path, track=["tensorbord"])
    with pytest.raises(ConfigError, match="did you mean 'tensorboard'"):
        recnas.train_model("nasrec-small-criteo", criteo_data, tmp_path / "run", track=["tensorbord"])
    assert os.listdir(tmp_path) == []
    arguments = ["--data", str(criteo_data.path), "--models", "lr", "--out", str(tmp_path / "c")]
    assert main(["compare", *arguments, "--track", "tensorbord"]) == 2
    assert "track" in capsys.readouterr().err
