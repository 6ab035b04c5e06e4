"""Kill `recnas prepare` at random moments; the same command must end with the same fingerprint.

RECNAS_KILLS sets how many kills (default 4).
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from recnas.data.prepare import PrepareOptions, prepare
from recnas.data.synthetic import generate


def test_kills_do_not_change_the_result(tmp_path: Path):
    raw = tmp_path / "a.tsv"
    generate("criteo", 60_000, 5, raw)
    started = time.monotonic()
    undisturbed = prepare("criteo", [raw], tmp_path / "whole", PrepareOptions(min_count=3), memory=256 << 20)
    took = time.monotonic() - started
    command = [sys.executable, "-m", "recnas.cli.main", "prepare", "criteo", "--raw", str(raw), "--out", str(tmp_path / "d"),
               "--min-count", "3", "--memory", "256MB", "--json", "--quiet"]  # fmt: skip
    rng = random.Random(0)
    killed = 0
    wanted = int(os.environ.get("RECNAS_KILLS", "4"))
    for _ in range(wanted):
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            # Start-up (imports) takes about a second; aim into the work, and sometimes past its end.
            child.wait(timeout=0.5 + rng.random() * (took + 1.0))
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
            killed += 1
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["fingerprint"] == undisturbed.fingerprint
    assert killed > 0 or wanted == 0
    assert subprocess.run([sys.executable, "-m", "recnas.cli.main", "inspect", str(tmp_path / "d"), "--verify"], capture_output=True, check=False).returncode == 0
