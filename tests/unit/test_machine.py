"""What the machine gives, read from files a container would have, and how its threads wait."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recnas.machine import available_cores, available_memory, default_threads


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000", 8),
        ("400000 100000", 4),
        ("150000 100000", 2),
        ("5000 100000", 1),
        ("9900000 100000", 8),
        ("rubbish", 8),
    ],
)
def test_a_containers_quota_counts_rounded_up(tmp_path: Path, quota: str, cores: int):
    assert available_cores(written(tmp_path, **{"cpu.max": quota})) == cores


@pytest.mark.usefixtures("eight_cores")
def test_the_older_kind_of_container_counts_too(tmp_path: Path):
    assert available_cores(tmp_path) == 8  # no such files: no limit
    written(tmp_path / "cpu", **{"cpu.cfs_period_us": "100000\n", "cpu.cfs_quota_us": "250000\n"})
    assert available_cores(tmp_path) == 3
    written(tmp_path / "cpu", **{"cpu.cfs_quota_us": "-1\n"})
    assert available_cores(tmp_path) == 8


@pytest.mark.spawns
def test_the_cores_a_process_is_bound_to_are_all_it_has():
    one = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, {{{one}}}); from recnas.machine import available_cores; print(available_cores())"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "1\n"


def test_memory_is_what_the_container_leaves(tmp_path: Path):
    free = available_memory(tmp_path)
    assert free > 0
    assert available_memory(written(tmp_path, **{"memory.max": "max", "memory.current": "5"})) == pytest.approx(
        free, rel=0.2
    )
    assert available_memory(written(tmp_path, **{"memory.max": "1000", "memory.current": "400"})) == 600
    written(tmp_path / "old" / "memory", **{"memory.limit_in_bytes": "900", "memory.usage_in_bytes": "1000"})
    assert available_memory(tmp_path / "old") == 0


def test_new_runs_use_the_threads_the_environment_names(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert default_threads() == 3
    for nothing in ("", "0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", nothing)
        assert default_threads() == available_cores()


def policy(code: str, **environment: str) -> str:
    base = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=base | environment
    )
    return found.stdout.strip()


@pytest.mark.spawns
def test_threads_wait_asleep_unless_the_user_says_otherwise():
    code = "import recnas, os; print(os.environ['OMP_WAIT_POLICY'])"
    assert policy(code) == "PASSIVE"
    assert policy(code, OMP_WAIT_POLICY="ACTIVE") == "ACTIVE"


# Says, when torch is loaded, what the policy was at that moment.
NOTICED = """
import importlib.abc, os, sys
class Noticing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "torch" and path is None:
            print("torch with", os.environ.get("OMP_WAIT_POLICY"))
sys.meta_path.insert(0, Noticing())
"""


@pytest.mark.spawns
def test_it_is_set_before_a_command_loads_torch():
    code = NOTICED + "from recnas.cli.main import main\nmain(['score', '--list'])"
    assert policy(code).splitlines()[0] == "torch with PASSIVE"


@pytest.mark.spawns
def test_workers_wait_asleep_too():
    code = (
        "from recnas.engines.pool import PoolEngine\nfrom tests.unit.engines.works import Environment\n"
        "if __name__ == '__main__':\n    with PoolEngine(Environment(), 1) as pool: print(*pool.map(['OMP_WAIT_POLICY', 'OMP_NUM_THREADS']))"
    )
    assert policy(code) == "PASSIVE 1"
