"""Ray is the same ordered map as every engine, with actors that may die and weights that nobody writes."""

from __future__ import annotations

import builtins
import itertools
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from recnas.engines import ray_cluster
from recnas.engines.execution import Execution
from recnas.errors import BackendMissing, ConfigError, DataError, RunError
from tests.unit.engines import works
from tests.unit.engines.works import DiesOnce, Faulty, VisibleGpus

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'recnas[ray]'")

from recnas.engines.ray import RayEngine  # noqa: E402 - only where there is ray

pytestmark = pytest.mark.spawns

for module in (sys.modules[__name__], works):
    ray.cloudpickle.register_pickle_by_value(module)  # Ray's workers cannot import a test


@pytest.fixture(scope="module")
def cluster():
    """One cluster of two CPUs for the whole file: its start takes seconds."""
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    yield
    ray.shutdown()


@dataclass(frozen=True)
class Squares:
    """Squares numbers; odd ones take longer, so that answers arrive out of order."""

    def open(self):
        def call(item: int) -> tuple[int, str, str]:
            time.sleep(0.02 * (item % 2))
            return item * item, os.environ["OMP_NUM_THREADS"], os.getcwd()

        return call


@dataclass(frozen=True)
class Weighted:
    """Reads tensors it was sent; `item` -1 writes to one through a view, as careless training would."""

    def cargo(self):
        import torch

        return {"w": torch.arange(4.0), "b": torch.ones(1)}

    def open(self, cargo=None):
        tensors = self.cargo() if cargo is None else cargo

        def call(item: int) -> float:
            if item < 0:
                tensors["w"][1:].detach().mul_(2)
            return float(tensors["w"][item % 4] + tensors["b"][0])

        return call


def test_results_are_those_of_the_local_engine_in_order(cluster):
    with Execution(2, "ray").open(Squares()) as engine, Execution(2, "local").open(Squares()) as local:
        assert isinstance(engine, RayEngine)
        for items in (range(9), [], [5, 4]):  # the actors stay for the next map
            found = list(engine.map(items))
            assert [value for value, _, _ in found] == [value for value, _, _ in local.map(items)]
            assert all(threads == "1" and folder == os.getcwd() for _, threads, folder in found)
    assert ray.is_initialized()  # an engine does not end a cluster that it did not start


def test_an_endless_source_is_read_only_a_little_ahead(cluster):
    drawn = itertools.count()
    with RayEngine(Squares(), 2) as engine:
        assert [found[0] for found in itertools.islice(engine.map(drawn), 3)] == [0, 1, 4]
        assert next(drawn) < 12
        # What was under way when the map was left does not mix with the next one.
        assert [found[0] for found in engine.map([7, 6, 5])] == [49, 36, 25]


def test_errors_arrive_in_their_place(cluster):
    with RayEngine(Faulty(), 2) as engine:
        results = engine.map(range(8))
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(DataError, match="row 3 is bad") as caught:
            next(results)
        assert caught.value.fix == "Mend row 3."
        with pytest.raises(RuntimeError, match="a fault of the code"):
            list(engine.map([4, 5]))


def test_a_dead_actor_is_replaced_and_nothing_is_lost(cluster, tmp_path: Path):
    with RayEngine(DiesOnce(str(tmp_path)), 2) as engine:
        assert list(engine.map(range(6))) == list(range(6))
        assert engine.replaced == 2  # items 1 and 5


def test_an_item_that_always_kills_is_named(cluster, tmp_path: Path):
    with (
        RayEngine(DiesOnce(str(tmp_path), always=True), 2) as engine,
        pytest.raises(RunError, match="died on the same item \\(number 2\\)"),
    ):
        list(engine.map(range(3)))


def test_shared_weights_are_read_and_a_write_is_told(cluster):
    with RayEngine(Weighted(), 1) as engine, Execution().open(Weighted()) as local:
        assert list(engine.map(range(6))) == list(local.map(range(6)))
        with pytest.raises(RuntimeError, match="wrote into w, which all workers share"):
            list(engine.map([-1]))


def test_closing_ends_the_actors(cluster):
    engine = RayEngine(Squares(), 2)
    results = engine.map(itertools.count())
    while len(engine.pids()) < 2:
        next(results)
    pids = engine.pids()
    engine.close()
    assert len(pids) == 2
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_more_workers_than_the_cluster_has(cluster):
    with RayEngine(Squares(), 3) as engine, pytest.raises(RunError, match="has 2 CPUs; 3 workers") as caught:
        list(engine.map([1]))
    assert "--workers 2" in caught.value.fix


def test_a_search_with_a_killed_actor_has_the_ledger_of_one_process(cluster, criteo_data, tmp_path: Path, monkeypatch):
    from recnas.jobs.search import search
    from tests.jobs.search_helpers import small_search, what_counts

    config = small_search(
        criteo_data.path,
        warmup={"data_share": 0.02, "least_steps": 5},
        search={"method": "evolution", "population": 4, "generations": 2, "children": 2, "tournament": 2},
        final={"candidates": 1, "rows": 500},
    )
    search(config, tmp_path / "alone", Execution(1, "local"))
    killed: list[int] = []
    engines: list[RayEngine] = []
    fetch = RayEngine._fetch

    def fetch_and_kill(self: RayEngine, worker):
        """After the first score has come home, an actor that is working on another is killed by pid."""
        answer = fetch(self, worker)
        busy = [other for other in self._pool if other is not worker and other.item is not None and other.pid]
        if worker.item is not None and answer is not None and busy and not killed:
            killed.append(busy[0].pid)
            engines.append(self)
            os.kill(busy[0].pid, signal.SIGKILL)
        return answer

    monkeypatch.setattr(RayEngine, "_fetch", fetch_and_kill)
    search(config, tmp_path / "ray", Execution(2, "ray"))
    assert len(killed) == 1
    assert engines[0].replaced >= 1
    assert what_counts(tmp_path / "ray") == what_counts(tmp_path / "alone")
    manifests = [json.loads((tmp_path / run / "manifest.json").read_text()) for run in ("ray", "alone")]
    assert manifests[0] == manifests[1]  # so either engine may continue the other's run


def test_a_wrong_address_is_told_in_a_sentence():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(RunError, match=f"no Ray cluster at 127.0.0.1:{port}: .*refused") as caught:
        ray_cluster.check_address(f"127.0.0.1:{port}")
    assert "ray start --head" in caught.value.fix
    with pytest.raises(RunError, match="is not an address"):
        ray_cluster.check_address("bogus")


def test_something_else_at_the_address_is_given_up_on(monkeypatch):
    monkeypatch.setattr(ray_cluster, "JOIN_SECONDS", 1.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=server.accept, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(RunError, match="nothing let us in within 2 seconds"):
            Execution(engine="ray", address=address).check() if not ray.is_initialized() else ray_cluster.check_address(
                address
            )


def test_choices_that_do_not_fit():
    with pytest.raises(ConfigError, match="--ray-address goes with --engine ray"):
        Execution(engine="pool", address="auto").check()
    with pytest.raises(ConfigError, match="no engine 'slurm'"):
        Execution(engine="slurm").check()
    assert Execution(64, "ray", "head:6379").workers_here == 1
    assert Execution(2, "ray").workers_here == 2


def test_without_the_package_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "ray":
            raise ModuleNotFoundError("No module named 'ray'", name="ray")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BackendMissing) as caught:
        Execution(engine="ray").check()
    assert "pip install 'recnas[ray]'" in str(caught.value)


@pytest.fixture
def cluster_with_gpus():
    """Of its own, after the others': four CPUs, and two GPUs that nobody looks for."""
    ray.shutdown()
    ray.init(
        address="local",
        num_cpus=4,
        num_gpus=2,
        include_dashboard=False,
        logging_level=logging.ERROR,
        log_to_driver=False,
    )
    yield
    ray.shutdown()


def test_work_that_can_use_a_gpu_is_given_its_share_and_other_work_none(cluster_with_gpus):
    """Ray counts GPUs as it is told to, so that none need be there."""
    with RayEngine(VisibleGpus("auto"), 2) as engine:
        results, seen = engine.map(itertools.count()), set()
        while len(engine.pids()) < 2 or len(seen) < 2:
            seen.add(next(results))
        assert seen == {"0", "1"}
    with RayEngine(VisibleGpus("cpu"), 2) as engine:
        assert set(engine.map(range(4))) <= {None, ""}
