"""Kill a search with a race and its workers at random moments; winner, ledger and final weights must not change.

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

import torch

from recnas.train.checkpoint import load_latest
from tests.jobs.race_helpers import small_race
from tests.jobs.search_helpers import as_yaml, what_counts


def test_kills_do_not_change_the_winner(short_data, tmp_path: Path):
    config = as_yaml(small_race(short_data.path, {"brackets": 2, "budget": 16}), tmp_path / "race.yaml")

    def command(out: str, workers: int = 2) -> list[str]:
        program = [sys.executable, "-m", "recnas.cli.main", "search", str(config), "--out", str(tmp_path / out)]
        return [*program, "--workers", str(workers), "--quiet"]

    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command("whole", workers=1), check=True, **quiet)
    wanted, killed, rng = int(os.environ.get("RECNAS_KILLS", "2")), 0, random.Random(3)
    for _ in range(50 * wanted):
        if killed == wanted:
            break
        started = time.monotonic()
        child = subprocess.Popen(command("cut"), **quiet)
        # Most of the time passes before the race: kill within it as often as not.
        lines, patience = tmp_path / "cut" / "ledger.jsonl", rng.randrange(0, 40)
        late = rng.random() < 0.7
        while child.poll() is None:
            rungs = lines.read_text().count('"rung"') if late and lines.exists() else patience
            if rungs >= patience and time.monotonic() - started > rng.uniform(0, 8 if not late else 1):
                break
            time.sleep(0.02)
        if child.poll() is not None:
            assert same(tmp_path)
            shutil.rmtree(tmp_path / "cut")
            continue
        child.send_signal(signal.SIGKILL)
        child.wait()
        killed += 1
    assert killed == wanted
    subprocess.run(command("cut"), check=True, **quiet)
    assert same(tmp_path)


def same(folder: Path) -> bool:
    assert what_counts(folder / "cut") == what_counts(folder / "whole")
    one, two = (load_latest(folder / run / "winner" / "seed-0") for run in ("whole", "cut"))
    assert one is not None
    assert two is not None
    return one.step == two.step and all(torch.equal(one.tensors[name], two.tensors[name]) for name in one.tensors)
