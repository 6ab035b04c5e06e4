"""Kill `recnas prepare` at random moments; the same command must end with the same fingerprint.

RECNAS_KILLS sets how many kills (default 2).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepared import PreparedData
from recnas.data.synthetic import generate


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights of rows"])
def test_kills_do_not_change_the_result(weighted: bool, weighted_rows, weighted_recipe: Path, tmp_path: Path):
    raw, recipe = tmp_path / "a.tsv", "criteo"
    if weighted:
        recipe = str(weighted_recipe)
        weighted_rows(200_000).to_csv(raw, index=False)
    else:
        generate("criteo", 60_000, 5, raw)
    undisturbed = prepare(recipe, [raw], tmp_path / "whole", PrepareOptions(min_count=3), memory=256 << 20)

    def command(out: str) -> list[str]:
        return [sys.executable, "-m", "recnas.cli.main", "prepare", recipe, "--raw", str(raw), "--out", str(tmp_path / out),
                "--min-count", "3", "--memory", "256MB", "--json", "--quiet"]  # fmt: skip

    started = time.monotonic()
    subprocess.run(command("timed"), check=True, stdout=subprocess.DEVNULL)
    took = time.monotonic() - started
    rng = random.Random(0)
    wanted, killed, finished = int(os.environ.get("RECNAS_KILLS", "2")), 0, 0
    for _ in range(50 * wanted):
        if killed == wanted:
            break
        child = subprocess.Popen(command("d"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            child.wait(timeout=rng.uniform(0.1, 1.0) * took)
            # It came through, perhaps after several kills: it must be right. Then start over.
            assert PreparedData.open(tmp_path / "d").fingerprint == undisturbed.fingerprint
            shutil.rmtree(tmp_path / "d")
            finished += 1
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
            killed += 1
    done = subprocess.run(command("d"), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["fingerprint"] == undisturbed.fingerprint
    assert killed == wanted
    last = PreparedData.open(tmp_path / "d")
    assert last.verify() == []
    assert last.manifest.get("weight") == undisturbed.manifest.get("weight")
