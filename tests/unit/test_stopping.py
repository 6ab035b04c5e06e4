"""SIGTERM and SIGHUP mean what Ctrl-C means: a message, a checkpoint, 128 + their number."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from recnas.cli import main as cli
from recnas.engines.pool import PoolEngine
from recnas.progress import Progress
from recnas.runs.folder import RunDir
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.json import dump_arch
from recnas.stopping import Stopped, asked, listening, stop, waiting_for_checks
from recnas.train.checkpoint import load_latest
from recnas.train.settings import StopSettings, TrainSettings
from recnas.train.standalone import train
from tests.unit.engines.works import Steps


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_says_how_it_goes_on(number: int, monkeypatch: pytest.MonkeyPatch, capsys):
    before = signal.getsignal(number)
    monkeypatch.setattr(cli, "_run", lambda argv: signal.raise_signal(number))
    assert cli.main(["search", "--resume", "my run"]) == 128 + number
    assert "Continue with:\n  recnas search --resume 'my run'" in capsys.readouterr().err
    assert signal.getsignal(number) == before


def test_a_hangup_that_nohup_ignores_stays_ignored(monkeypatch: pytest.MonkeyPatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with listening():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_first_signal_waits_for_the_end_of_a_step_and_the_second_does_not():
    with listening():
        with pytest.raises(Stopped), waiting_for_checks():  # noqa: PT012
            signal.raise_signal(signal.SIGTERM)
            assert asked() == signal.SIGTERM
            stop()
        with pytest.raises(Stopped), waiting_for_checks():  # nobody looked
            signal.raise_signal(signal.SIGTERM)
        with waiting_for_checks():
            signal.raise_signal(signal.SIGTERM)
            with pytest.raises(Stopped):
                signal.raise_signal(signal.SIGTERM)
            with pytest.raises(Stopped):
                stop()
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGTERM)
        assert asked() is None


def wait_for(there, seconds: float = 100.0) -> None:
    until = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.02)


@pytest.mark.spawns
def test_a_training_that_is_terminated_leaves_a_checkpoint_of_its_last_step(criteo_data, tmp_path: Path):
    arch = tmp_path / "arch.json"
    arch.write_text(dump_arch(NasrecSpace("nasrec-small", blocks=2).sample(np.random.default_rng(5))))
    command = [sys.executable, "-m", "recnas", "train", str(arch), "--data", str(criteo_data.path), "--out", str(tmp_path / "run"),
               "epochs=5000", "schedule=cosine", "stop.patience=null", "batch_size=64", "checkpoint_seconds=0.5"]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment)
    wait_for(lambda: list(tmp_path.glob("run/seed-0/step-*")))
    first = load_latest(tmp_path / "run" / "seed-0")
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 143
    assert "stopped by SIGTERM; what was finished is kept. Continue with:" in said
    saved = load_latest(tmp_path / "run" / "seed-0")
    assert saved is not None
    assert first is not None
    assert saved.step >= first.step


def test_a_resumed_training_keeps_the_points_of_its_curve(criteo_data, tmp_path: Path):
    class Cut(Progress):
        steps = 0

        def advance(self, amount: float, note: str = "") -> None:
            self.steps += note.startswith("loss")
            if self.steps == 130:
                raise KeyboardInterrupt

    arch = NasrecSpace("nasrec-small", blocks=2).sample(np.random.default_rng(5))
    settings = TrainSettings(
        batch_size=64, epochs=1, schedule="cosine", stop=StopSettings(patience=None), checkpoint_seconds=0.05
    )
    train(arch, criteo_data, tmp_path / "whole", settings)
    with pytest.raises(KeyboardInterrupt):
        train(arch, criteo_data, tmp_path / "cut", settings, progress=Cut(quiet=True))
    train(arch, criteo_data, tmp_path / "cut", settings)
    lines = [RunDir.open(tmp_path / run).ledger.read()[0] for run in ("whole", "cut")]
    assert lines[0]["train_curve"] == lines[1]["train_curve"]
    assert [step for step, _ in lines[1]["train_curve"]] == [100, 200]
    assert lines[0]["test"] == lines[1]["test"]


@pytest.mark.spawns
def test_workers_in_a_training_are_given_time_for_a_checkpoint(tmp_path: Path):
    def interrupt() -> None:
        wait_for((tmp_path / "begun").exists)
        os.kill(os.getpid(), signal.SIGTERM)

    with listening(), PoolEngine(Steps(str(tmp_path)), 1) as engine:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(Stopped):
            list(engine.map([1]))
    assert (tmp_path / "saved").exists()
