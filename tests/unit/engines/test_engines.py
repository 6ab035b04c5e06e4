"""Every engine is the same ordered map; a pool also survives the death of its workers."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from recnas.engines.base import Engine
from recnas.engines.execution import Execution
from recnas.engines.pool import PoolEngine
from recnas.errors import DataError, RunError
from tests.unit.engines.works import DiesOnce, Faulty

pytestmark = pytest.mark.spawns


@dataclass(frozen=True)
class Squares:
    """Squares numbers; odd ones take longer, so that answers arrive out of order."""

    marks: str = ""

    def open(self):
        if self.marks:
            Path(self.marks, str(os.getpid())).touch()

        def call(item: int) -> tuple[int, str]:
            time.sleep(0.02 * (item % 2))
            return item * item, os.environ.get("OMP_NUM_THREADS", "")

        return call


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order(workers: int):
    with Execution(workers).open(Squares()) as engine:
        assert [value for value, _ in engine.map(range(9))] == [n * n for n in range(9)]
        assert [value for value, _ in engine.map([])] == []
        assert [value for value, _ in engine.map([5, 4])] == [25, 16]  # the workers stay for the next map


def test_work_is_opened_once_per_worker_and_workers_have_one_thread(tmp_path: Path):
    with Execution(2).open(Squares(str(tmp_path))) as engine:
        assert {threads for _, threads in engine.map(range(12))} == {"1"}
    assert 1 <= len(list(tmp_path.iterdir())) <= 2


def test_an_endless_source_is_read_only_a_little_ahead():
    drawn = itertools.count()
    with Execution(2).open(Squares()) as engine:
        first = list(itertools.islice(engine.map(drawn), 3))
    assert [value for value, _ in first] == [0, 1, 4]
    assert next(drawn) < 12


def test_a_map_given_up_half_way_leaves_no_late_answers():
    with PoolEngine(Squares(), 2) as engine:
        first = engine.map(itertools.count(100))
        assert next(first)[0] == 100**2
        first.close()
        assert [value for value, _ in engine.map(range(4))] == [0, 1, 4, 9]


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_arrive_in_their_place(workers: int):
    with Execution(workers).open(Faulty()) as engine:
        results = engine.map(range(8))
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(DataError, match="row 3 is bad") as caught:
            next(results)
        assert caught.value.fix == "Mend row 3."
    with (
        Execution(workers).open(Faulty()) as engine,
        pytest.raises((ValueError, RuntimeError), match="a fault of the code"),
    ):
        list(engine.map([4, 5]))


def test_a_dead_worker_is_replaced_and_nothing_is_lost(tmp_path: Path):
    with PoolEngine(DiesOnce(str(tmp_path)), 2) as engine:
        assert list(engine.map(range(10))) == list(range(10))
        assert engine.replaced == 3  # items 1, 5 and 9


def test_workers_killed_from_outside_are_replaced():
    with PoolEngine(Squares(), 2) as engine:
        results = engine.map(range(60))
        found = [next(results)]
        for pid in engine.pids():
            os.kill(pid, signal.SIGKILL)
        found += results
        assert [value for value, _ in found] == [n * n for n in range(60)]
        assert engine.replaced >= 1


def test_an_item_that_always_kills_is_named(tmp_path: Path):
    with (
        PoolEngine(DiesOnce(str(tmp_path), always=True), 2) as engine,
        pytest.raises(RunError, match="number 2; the last one by SIGKILL"),
    ):
        list(engine.map(range(4)))


def test_an_interrupt_does_not_reach_workers_that_are_starting():
    """The terminal sends Ctrl-C to every process; a worker that is still importing would print a traceback."""
    with PoolEngine(Squares(), 2) as engine:
        engine._idle()
        for pid in engine.pids():
            os.kill(pid, signal.SIGINT)
        assert [square for square, _ in engine.map(range(4))] == [0, 1, 4, 9]
        assert engine.replaced == 0
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])  # it still reaches this process


def test_closing_ends_the_workers():
    engine: Engine = Execution(2).open(Squares())
    results = engine.map(range(4))  # kept: a map that is dropped ends the workers that are busy with it
    next(results)
    assert isinstance(engine, PoolEngine)
    pids = engine.pids()
    engine.close()
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_workers_end_with_their_parent(tmp_path: Path):
    """A killed parent leaves no process behind that computes on for nobody."""
    import subprocess
    import sys

    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_engines import Squares\n"
        "from recnas.engines.pool import PoolEngine\n"
        "if __name__ == '__main__':\n"
        "    import itertools\n"
        "    engine = PoolEngine(Squares(), 2)\n"
        "    for _ in engine.map(itertools.count()):\n"
        "        print(*engine.pids(), flush=True)\n"
    )
    script = tmp_path / "parent.py"
    script.write_text(code)
    parent = subprocess.Popen([sys.executable, script, Path(__file__).parent], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    threading.Thread(target=parent.stdout.read, daemon=True).start()
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while any(_lives(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(pids) == 2
    assert not any(_lives(pid) for pid in pids)


def _lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
