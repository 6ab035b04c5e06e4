"""The Python functions from a plain script, without a `__main__` guard, with worker processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.jobs.search_helpers import as_yaml, small_search

ROOT = Path(__file__).parents[2]


def run_script(path: Path, text: str) -> subprocess.CompletedProcess[str]:
    path.write_text(text)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, path.name], cwd=path.parent, env=environment, capture_output=True, text=True, timeout=600
    )


def test_a_plain_script_runs_once_and_searches(criteo_data, tmp_path: Path):
    config = as_yaml(small_search(criteo_data.path, final={"candidates": 1, "rows": 500}), tmp_path / "small.yaml")
    done = run_script(
        tmp_path / "plain.py",
        f"import recnas\nprint('begins')\nrun = recnas.search({str(config)!r}, 'run', workers=2)\nprint(run.best.arch.key, __file__, __spec__)\n",
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "begins"
    assert len(lines) == 2
    assert lines[1].startswith("nasrec-")
    assert lines[1].endswith("plain.py None")  # the script's own names are as they were


def test_what_a_script_defines_itself_is_refused_with_the_way_out(tmp_path: Path):
    done = run_script(
        tmp_path / "own.py",
        "from recnas.engines.pool import PoolEngine\n"
        "class Mine:\n    def open(self):\n        return abs\n"
        "with PoolEngine(Mine(), 2) as pool:\n    print(*pool.map([-1, -2]))\n",
    )
    assert done.returncode == 1
    assert "Mine is defined in the script that is being run" in done.stderr
    assert "Put it into a module" in done.stderr
