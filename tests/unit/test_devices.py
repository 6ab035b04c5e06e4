"""Which device computes: what settings may say, how workers share GPUs out, what a forecast makes of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from recnas import devices
from recnas.devices import (
    Gpu,
    be_worker,
    choose_device,
    default_workers,
    give_back_memory,
    gpus,
    needs_device,
    share_of_gpu,
    workers_for,
)
from recnas.engines.execution import Execution
from recnas.engines.pool import PoolEngine
from recnas.errors import ConfigError
from recnas.files import told
from recnas.machine import available_cores, may_have_gpu
from tests.unit.engines.works import DiesOnce, WorkerNumber


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """torch is told that it has two; nothing is computed there."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: None)
    yield
    be_worker(0)


@pytest.mark.usefixtures("two_gpus")
def test_workers_share_out_the_gpus():
    found = []
    for number in range(5):
        be_worker(number)
        assert choose_device("auto") == choose_device("cuda")
        assert choose_device("cuda:1") == torch.device("cuda:1")
        assert choose_device("cpu") == torch.device("cpu")
        found.append(choose_device("auto").index)
    assert found == [0, 1, 0, 1, 0]


@pytest.mark.usefixtures("two_gpus")
def test_float32_is_not_rounded_to_less_on_a_gpu(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    choose_device("cuda")
    assert torch.backends.cudnn.allow_tf32 is False
    assert torch.backends.cuda.matmul.allow_tf32 is False


@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(
        ConfigError, match=r"final\.train\.device is cuda:2, but torch sees 2 CUDA device\(s\)"
    ) as caught:
        choose_device("cuda:2", "final.train.device")
    assert caught.value.fix is not None
    assert "final.train.device=cuda" in caught.value.fix


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_auto_is_the_cpu_and_cuda_is_refused():
    assert choose_device("auto") == torch.device("cpu")
    with pytest.raises(ConfigError, match=r"score\.device is cuda, but torch sees no CUDA device") as caught:
        choose_device("cuda", "score.device")
    assert caught.value.fix is not None
    assert "score.device=cpu" in caught.value.fix


def gpu(free: float) -> Gpu:
    return Gpu("made up", 80e9, free, 10_000)


def test_a_gpu_gets_as_many_workers_as_its_memory_holds():
    assert workers_for([], 6) == 6
    assert workers_for([gpu(1e9)], 16) == 1
    assert workers_for([gpu(9e9)], 16) == 2
    assert workers_for([gpu(79e9)], 16) == 4
    assert workers_for([gpu(79e9)], 2) == 2
    assert workers_for([gpu(79e9), gpu(5e9)], 16) == 5
    assert workers_for([gpu(1e9)] * 4, 2) == 4  # one each, even where cores are few


def test_workers_of_ray_fit_on_the_gpus_all_at_once():
    assert share_of_gpu(3, 0) == 0
    for workers in range(1, 9):
        for many in range(1, 5):
            assert many * int(1 / share_of_gpu(workers, many)) >= workers


def test_which_work_wants_a_gpu():
    assert [needs_device(asked) for asked in ("auto", "cuda", "cuda:1", "cpu")] == [True, True, True, False]


def test_signs_of_a_driver(tmp_path: Path):
    assert not may_have_gpu(tmp_path) or os.name == "nt"
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").touch()
    assert may_have_gpu(tmp_path)


def test_without_a_driver_workers_are_cores(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(devices, "may_have_gpu", lambda: False)
    assert gpus() == []
    assert default_workers() == available_cores()
    assert Execution.of().workers == available_cores()


@pytest.mark.usefixtures("two_gpus")
def test_what_torch_says_of_a_gpu(monkeypatch: pytest.MonkeyPatch):
    @dataclass
    class Facts:
        name: str = "Card"
        multi_processor_count: int = 100
        clock_rate: int = 1_000_000

    monkeypatch.setattr(devices, "may_have_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: Facts())
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda number: ((5 + number) * 10**9, 24 * 10**9))
    assert gpus() == [Gpu("Card", 24e9, 5e9, 25_600), Gpu("Card", 24e9, 6e9, 25_600)]
    assert default_workers() == 2


def test_a_gpu_without_memory_is_one_sentence():
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total of 8 GiB\nmore")
    said = told(error)
    assert said is not None
    assert "Not enough memory on the GPU: CUDA out of memory. Tried to allocate 2.00 GiB. Nothing" in said.what
    assert "fewer --workers" in said.what


def test_what_torch_keeps_of_a_gpu_is_given_back(monkeypatch: pytest.MonkeyPatch):
    given = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: given.append(True))
    give_back_memory()
    assert not given or torch.cuda.is_available()  # nothing was taken
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    give_back_memory()
    assert given


@pytest.mark.spawns
def test_processes_know_their_number_and_who_replaces_one_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = []
    monkeypatch.setattr("recnas.engines.pool.give_back_memory", lambda: before.append(True))
    with PoolEngine(WorkerNumber(), 3) as engine:
        assert sorted(set(engine.map(range(30)))) == [0, 1, 2]
    assert before == [True]  # once, before the first of them is started
    with PoolEngine(DiesOnce(str(tmp_path)), 2) as engine:
        assert list(engine.map(range(6))) == list(range(6))
        assert engine.replaced == 2
        assert sorted(worker.number for worker in engine._pool) == [0, 1]
