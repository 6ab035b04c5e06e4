"""Kill `recnas train` at random moments; the final weights, and with early stopping the best
epoch, must be those of the undisturbed run, bit for bit.

RECNAS_KILLS sets how many kills (default 2).
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from recnas.runs.ledger import Ledger
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.json import dump_arch
from recnas.train.checkpoint import load_latest

WATCHED = ("epochs=2", "schedule=plateau", "stop.patience=2", "stop.checks=2", "embeddings.optimizer=adam",
           "embeddings.l2=0.001", "dropout=0.1", "average=0.99", "lr=0.01")  # fmt: skip


@pytest.mark.timeout(3000)  # RECNAS_KILLS may be twenty, on a busy machine
@pytest.mark.parametrize("recipe", [("epochs=1",), WATCHED], ids=["plain", "early stopping"])
def test_kills_do_not_change_the_weights(criteo_data, recipe: tuple[str, ...], tmp_path: Path):
    arch = tmp_path / "arch.json"
    arch.write_text(dump_arch(NasrecSpace("nasrec-full", blocks=2).sample(np.random.default_rng(5))))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def command(out: str) -> list[str]:
        return [sys.executable, "-m", "recnas.cli.main", "train", str(arch), "--data", str(criteo_data.path), "--out", str(tmp_path / out),
                "--quiet", *recipe, "batch_size=256", "checkpoint_seconds=0.3", "threads=1"]  # fmt: skip

    started = time.monotonic()
    subprocess.run(command("whole"), check=True, env=environment, stdout=subprocess.DEVNULL)
    took = time.monotonic() - started
    rng = random.Random(1)
    wanted, killed = int(os.environ.get("RECNAS_KILLS", "2")), 0
    for _ in range(50 * wanted):
        if killed == wanted:
            break
        child = subprocess.Popen(command("cut"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        try:
            child.wait(timeout=took * rng.uniform(0.3, 1.0))
            # It came through, perhaps after several kills: it must be right. Then start over.
            assert_same_weights(tmp_path / "whole", tmp_path / "cut")
            shutil.rmtree(tmp_path / "cut")
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
            killed += 1
    assert killed == wanted
    subprocess.run(command("cut"), check=True, env=environment, stdout=subprocess.DEVNULL)
    assert_same_weights(tmp_path / "whole", tmp_path / "cut")


def assert_same_weights(first: Path, second: Path) -> None:
    one, two = (load_latest(run / "seed-0") for run in (first, second))
    assert one is not None
    assert two is not None
    assert one.step == two.step
    lines = [Ledger(run / "ledger.jsonl").read()[0] for run in (first, second)]
    for fact in ("best_epoch", "checks", "steps", "valid", "test"):
        assert lines[0].get(fact) == lines[1].get(fact), fact
    assert one.tensors.keys() == two.tensors.keys()
    for name, tensor in one.tensors.items():
        assert torch.equal(tensor, two.tensors[name]), name
