"""Kill `recnas search` and its workers at random moments of all phases; ledger and winner must not change.

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

from tests.jobs.search_helpers import as_yaml, small_search, what_counts


def test_kills_do_not_change_the_outcome(criteo_data, tmp_path: Path):
    config = as_yaml(small_search(criteo_data.path, supernet={"checkpoint_seconds": 0.2}), tmp_path / "small.yaml")

    def command(out: str) -> list[str]:
        return [
            sys.executable,
            "-m",
            "recnas.cli.main",
            "search",
            str(config),
            "--out",
            str(tmp_path / out),
            "--workers",
            "2",
            "--quiet",
        ]

    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = time.monotonic()
    subprocess.run(command("whole"), check=True, **quiet)
    took = time.monotonic() - started
    rng = random.Random(2)
    wanted, killed = int(os.environ.get("RECNAS_KILLS", "2")), 0
    for _ in range(50 * wanted):
        if killed == wanted:
            break
        child = subprocess.Popen(command("cut"), **quiet)
        try:
            child.wait(timeout=took * rng.uniform(0.3, 0.9))
            assert what_counts(tmp_path / "cut") == what_counts(tmp_path / "whole")
            shutil.rmtree(tmp_path / "cut")
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
            killed += 1
    assert killed == wanted
    subprocess.run(command("cut"), check=True, **quiet)
    assert what_counts(tmp_path / "cut") == what_counts(tmp_path / "whole")
