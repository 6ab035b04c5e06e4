"""On a real GPU: the same figures as on the CPU, up to rounding. `scripts/gpu_check` runs these and makes a table of them.

What a test measures it writes down with `record_property`: the largest difference, relative to the CPU's figure.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recnas.data.loader import BatchLoader
from recnas.data.prepared import PreparedData
from recnas.devices import choose_device
from recnas.progress import Progress
from recnas.proxies.engine import score
from recnas.proxies.registry import get_proxies
from recnas.train.latency import latency_ms
from recnas.train.loop import Trainer
from recnas.train.setup import train_with_checkpoints
from tests.unit.device.test_scoring import DIRECT, clicks, images
from tests.unit.device.test_training import CPU, STEPS, hand_made, nasrec, plus, settings, supernet, trainer_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; see docs/gpu.md"),
]
CUDA = torch.device("cuda", 0)

Note = Callable[[str, object], None]


@pytest.fixture(autouse=True, scope="module")
def as_jobs_choose_it():
    """Jobs come to their device this way, which also switches TF32 off."""
    return choose_device("cuda:0")


def difference(here: Trainer, there: Trainer) -> float:
    """The largest over all tensors of a training's state, relative to the largest value of each."""
    moved, worst = there.tensors(), 0.0
    for name, tensor in here.tensors().items():
        if tensor.is_floating_point() and tensor.numel():
            size = float(tensor.abs().max()) or 1.0
            worst = max(worst, float((moved[name].cpu() - tensor).abs().max()) / size)
    return worst


@pytest.mark.parametrize("name", DIRECT)
@pytest.mark.parametrize("make", [clicks, images])
def test_proxy(make: Any, name: str, record_property: Note):
    (proxy,) = get_proxies([name])
    here, there = (score(*make(device), [proxy])[name] for device in (CPU, CUDA))
    size = max(abs(here.value), 1e-6)
    record_property("difference", abs(there.value - here.value) / size)
    assert there.reason == here.reason
    # A condition number divides by an eigenvalue that is small against the rounding of the largest.
    assert there.value == pytest.approx(here.value, rel=0.05 if "cond" in name or "min_eig" in name else 2e-3, abs=1e-6)


@pytest.mark.parametrize("make", [supernet, nasrec, plus, hand_made("dcn-v2"), hand_made("masknet")])
@pytest.mark.parametrize("optimizer", ["adagrad", "adamw"])
def test_training_steps(make: Any, optimizer: str, criteo_data: PreparedData, record_property: Note):
    given = settings(optimizer=optimizer)
    here, there = (trainer_of(make, criteo_data, given, device) for device in (CPU, CUDA))
    here.run()
    there.run()
    record_property("difference", difference(here, there))
    assert there.take_mean_loss() == pytest.approx(here.take_mean_loss(), rel=1e-3)
    assert difference(here, there) < 0.02


@pytest.mark.parametrize(
    "tables",
    [
        {"backend": "plain"},
        {"backend": "plain", "optimizer": "adam"},
        {"backend": "plain", "l2": 1e-3},
        {"backend": "fused"},
        {"backend": "fused", "optimizer": "rowwise-adagrad"},
        {"backend": "fused", "offload": True},
        {"backend": "plain", "offload": True},
    ],
    ids=lambda tables: " ".join(map(str, tables.values())),
)
def test_tables(tables: dict[str, Any], criteo_data: PreparedData, record_property: Note):
    given = settings(embeddings=tables)
    here, there = (trainer_of(nasrec, criteo_data, given, device) for device in (CPU, CUDA))
    here.run()
    there.run()
    record_property("difference", difference(here, there))
    assert difference(here, there) < 0.02


def test_sharded_tables_in_one_process(criteo_data: PreparedData, record_property: Note, tmp_path: Path):
    """torchrec's sharding over NCCL with a group of one."""
    import torch.distributed as dist

    from recnas.model.embeddings.sharded import build_sharded

    dist.init_process_group("cpu:gloo,cuda:nccl", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        schema, batch = criteo_data.schema, next(BatchLoader(criteo_data, "train", 64).epoch())
        found = []
        for device in (CPU, CUDA):
            tables = build_sharded(schema, width=8, device=device, seed=1, memory=2**30, batch_rows=64)
            lookup = tables.begin(batch.ids.to(device))
            lookup.leaf.square().sum().backward()
            lookup.apply()
            found.append(tables.lookup(batch.ids.to(device)).cpu())
    finally:
        dist.destroy_process_group()
    record_property("difference", float((found[0] - found[1]).abs().max()))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_stopped_and_resumed(criteo_data: PreparedData, record_property: Note, tmp_path: Path):
    given = settings(checkpoint_seconds=10_000)
    whole, part, rest = (trainer_of(nasrec, criteo_data, given, CUDA) for _ in range(3))
    train_with_checkpoints(whole, None, {}, Progress(quiet=True), "train")
    train_with_checkpoints(part, tmp_path, {}, Progress(quiet=True), "train", until=STEPS // 2)
    train_with_checkpoints(rest, tmp_path, {}, Progress(quiet=True), "train")
    record_property("difference", difference(whole, rest))
    assert difference(whole, rest) < 1e-4


def test_batches_arrive_whole_though_they_are_copied_beside_the_steps(criteo_data: PreparedData, record_property: Note):
    here = BatchLoader(criteo_data, "train", 512, shuffle=True, seed=3)
    there = BatchLoader(criteo_data, "train", 512, shuffle=True, seed=3, device=CUDA, prefetch=4)
    for one, other in zip(here.epoch(), there.epoch(), strict=True):
        torch.cuda._sleep(1_000_000)  # the step before is still being computed
        for tensor, moved in zip(one.tensors(), other.tensors()):
            assert torch.equal(tensor, moved.cpu())
    record_property("difference", 0.0)


def test_no_waiting_within_a_step(criteo_data: PreparedData, record_property: Note):
    """torch itself watches: it raises where the host waits for the device."""
    trainer = trainer_of(nasrec, criteo_data, settings(), CUDA)
    trainer.run(until=1)
    trainer.embeddings._batches_seen = 10_000
    batch = next(BatchLoader(criteo_data, "train", 16).epoch()).to(CUDA)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        trainer._train(batch)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    record_property("difference", 0.0)


def test_latency(criteo_data: PreparedData, record_property: Note):
    given = settings()
    network = nasrec(criteo_data.schema, given)
    times = latency_ms(network, criteo_data.schema.n_dense, criteo_data.schema.n_sparse, 8, on="cuda")
    for name, value in times.items():
        record_property(name, round(value, 4))
        assert np.isfinite(value)
        assert value > 0
