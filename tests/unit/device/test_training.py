"""Training on a second device: every tensor where it belongs, no waiting inside a step, and what comes out is the CPU's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recnas.baselines.base import InputShape
from recnas.baselines.zoo import ZOO, build, check_model_settings
from recnas.data.schema import Schema
from recnas.model.nasrec.subnet import new_subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.progress import Progress
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.cost import count
from recnas.space.settings import SpaceSettings, make_ctr_space
from recnas.train.evaluate import evaluate
from recnas.train.loop import FixedNetwork, SupernetPaths, Trainer
from recnas.train.paths import PathSampler
from recnas.train.pending import NotFinite
from recnas.train.settings import TrainSettings
from recnas.train.setup import (
    make_loader,
    make_tables,
    net_shape,
    new_trainer,
    train_with_checkpoints,
    watch_validation,
)
from tests.unit.device.second import second_device

CPU = torch.device("cpu")
STEPS, FEW = 4, 2


@pytest.fixture(autouse=True)
def few_rows_say_where_outputs_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recnas.train.setup.START_ROWS", 16)


def settings(**changes: Any) -> TrainSettings:
    given = {
        "batch_size": 16,
        "schedule": "cosine",
        "stop": {"patience": None},
        "clip": 0.05,
        "dropout": 0.0,
        **changes,
    }
    tables = {"width": 8, "backend": "plain", **given.pop("embeddings", {})}
    return TrainSettings.model_validate(given | {"embeddings": tables})


def trainer_of(make: Any, data: Any, settings: TrainSettings, device: torch.device, steps: int = STEPS) -> Trainer:
    """`make(schema, settings)` gives a network or a supernet."""
    network = make(data.schema, settings).to(device)
    tables = make_tables(data.schema, settings, 1, device, network)
    trainee: Any = FixedNetwork(network)
    if isinstance(network, Supernet):
        trainee = SupernetPaths(network, PathSampler(network.space, 0, steps, "any-connection", 0.5), 0.05)
    return new_trainer(trainee, tables, make_loader(data, settings, 1, device), settings, device, steps, data)


def nasrec(schema: Schema, settings: TrainSettings, dropout: float = 0.0) -> Any:
    space = NasrecSpace("nasrec-small", blocks=2)
    return new_subnet(small_arch(space, schema), net_shape(schema, settings), 0, dropout)


def plus(schema: Schema, settings: TrainSettings) -> Any:
    space = make_ctr_space(SpaceSettings(name="nasrec-plus"), schema.n_sparse)
    return new_subnet(small_arch(space, schema), net_shape(schema, settings), 0, 0.0)


def narrow(schema: Schema, settings: TrainSettings) -> Any:
    space = make_ctr_space(SpaceSettings(name="nasrec-plus", table_widths=True), schema.n_sparse)
    network = new_subnet(small_arch(space, schema, 2), net_shape(schema, settings), 0, 0.0)
    assert len(set(network.field_columns.columns)) > 1
    return network


def supernet(schema: Schema, settings: TrainSettings) -> Any:
    space = NasrecSpace("nasrec-small", blocks=1)
    return Supernet(space, net_shape(schema, settings), torch.Generator().manual_seed(0))


def small_arch(space: Any, schema: Schema, widths: int = 0) -> Any:
    """The smallest of some; with `widths`, of those whose tables have so many at least."""
    rng = np.random.default_rng(0)
    drawn = [arch for arch in (space.sample(rng) for _ in range(30)) if len(getattr(arch, "narrow", ())) >= widths]
    return min(drawn, key=lambda arch: count(arch, schema, width=8).params)


def hand_made(name: str) -> Any:
    def make(schema: Schema, settings: TrainSettings) -> Any:
        options = type(check_model_settings(name, None)).model_fields
        small = {"hidden": (8, 8)} if "hidden" in options else {}
        return build(name, InputShape.of(schema, settings.embeddings.width), small, 0)

    return make


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "nasrec": (nasrec, {"average": 0.9}),
    "nasrec, adagrad": (nasrec, {"optimizer": "adagrad"}),
    "nasrec, dropout": (lambda *given: nasrec(*given, dropout=0.3), {}),
    "plus": (plus, {}),
    "tables of different widths": (narrow, {}),
    "supernet": (supernet, {"optimizer": "adagrad"}),
    "tables with adam": (nasrec, {"embeddings": {"optimizer": "adam"}}),
    "tables with lazy l2": (nasrec, {"embeddings": {"l2": 1e-3}}),
    "tables with dense l2": (nasrec, {"embeddings": {"l2": 1e-3, "l2_kind": "dense", "cap": 50}}),
    "hashed, row-wise": (nasrec, {"embeddings": {"hash_rows": 40, "optimizer": "rowwise-adagrad"}}),
    **{name: (hand_made(name), {}) for name in ZOO},
}


@pytest.mark.parametrize("case", CASES)
def test_a_training_on_the_device_ends_as_on_the_cpu_and_never_waits_within_a_step(case: str, criteo_data: Any):
    make, changes = CASES[case]
    given, steps = settings(**changes), FEW if case in ZOO else STEPS
    here = trainer_of(make, criteo_data, given, CPU, steps)
    here.run()
    with second_device() as device:
        there = trainer_of(make, criteo_data, given, device.name, steps)
        there.run(until=1)  # the first loss is looked at
        for one in (there.embeddings, *getattr(there.embeddings, "_parts", ())):
            one._batches_seen = 10_000  # and the ids of the first batches
        device.reads.clear()
        device.sent.clear()
        waited: list[list[str]] = []
        there.run(lambda *_: waited.append(list(device.reads)))
        assert waited == [[]] * (steps - 1)
        # Nor does it send anything but batches: the host waits for memory that is not page-locked.
        assert [one for one in device.sent if "data/batch.py" not in one] == []
        assert there.take_mean_loss() == pytest.approx(here.take_mean_loss(), rel=1e-5)
        moved = {name: tensor.cpu() for name, tensor in there.tensors().items()}
    for name, tensor in here.tensors().items():
        torch.testing.assert_close(moved[name], tensor, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("backend", ["plain", "fused"])
def test_tables_kept_in_host_memory_are_clipped_and_trained_with_a_network_on_the_device(
    backend: str, criteo_data: Any
):
    given = settings(embeddings={"backend": backend, "offload": True})
    here = trainer_of(nasrec, criteo_data, given, CPU)
    here.run()
    with second_device() as device:
        there = trainer_of(nasrec, criteo_data, given, device.name)
        there.run()
        assert there.take_mean_loss() == pytest.approx(here.take_mean_loss(), rel=1e-5)
        assert {table.device for table in there.embeddings.weights.values()} == {CPU}
        moved = {name: tensor.cpu() for name, tensor in there.tensors().items()}
    for name, tensor in here.tensors().items():
        torch.testing.assert_close(moved[name], tensor, rtol=2e-4, atol=2e-6)


def spoil(trainer: Trainer, bad: int) -> Trainer:
    """The loss of one step is not a number."""
    at_step = trainer.trainee.at_step

    def spoilt(step: int) -> Any:
        network, slices = at_step(step)
        return (lambda dense, embedded: network(dense, embedded) * float("nan")) if step == bad else network, slices

    trainer.trainee.at_step = spoilt  # type: ignore[method-assign]
    return trainer


def test_a_bad_batch_is_named_though_it_is_noticed_late(criteo_data: Any):
    with second_device() as device:
        trainer = spoil(trainer_of(hand_made("fm"), criteo_data, settings(), device.name, 12), 7)
        with pytest.raises(NotFinite, match=r"became nan at step 8 \(epoch 0, batch 8\)"):
            trainer.run()
        assert trainer.step == 12  # it was looked at when the run ended


@pytest.mark.parametrize(("seconds", "kept"), [(0, ["step-000006", "step-000007"]), (10_000, [])])
def test_nothing_after_a_bad_batch_is_kept(criteo_data: Any, tmp_path: Path, seconds: float, kept: list[str]):
    given = settings(checkpoint_seconds=seconds)
    with second_device() as device:
        trainer = spoil(trainer_of(hand_made("fm"), criteo_data, given, device.name, 12), 7)
        with pytest.raises(NotFinite, match="at step 8 "):
            train_with_checkpoints(trainer, tmp_path, {}, Progress(quiet=True), "train")
    assert sorted(path.name for path in tmp_path.iterdir()) == kept


def test_a_bad_batch_is_noticed_before_validation_is_read(criteo_data: Any):
    given = settings(stop={"patience": 1}, epochs=1, batch_size=4000)
    with second_device() as device:
        trainer = spoil(trainer_of(hand_made("fm"), criteo_data, given, device.name, 4), 2)
        watch_validation(trainer, trainer.trainee.network, criteo_data)  # type: ignore[attr-defined]
        trainer.watch._evaluate = lambda: pytest.fail("validation was read with weights that are no numbers")  # type: ignore[union-attr]
        with pytest.raises(NotFinite, match="at step 3 "):
            train_with_checkpoints(trainer, None, {}, Progress(quiet=True), "train")


def test_a_training_that_was_stopped_goes_on_from_its_checkpoint(criteo_data: Any, tmp_path: Path):
    given = settings(checkpoint_seconds=10_000)
    with second_device() as device:
        whole = trainer_of(hand_made("deepfm"), criteo_data, given, device.name)
        train_with_checkpoints(whole, None, {}, Progress(quiet=True), "train", point_steps=2)
        part = trainer_of(hand_made("deepfm"), criteo_data, given, device.name)
        train_with_checkpoints(part, tmp_path, {}, Progress(quiet=True), "train", point_steps=2, until=3)
        rest = trainer_of(hand_made("deepfm"), criteo_data, given, device.name)
        train_with_checkpoints(rest, tmp_path, {}, Progress(quiet=True), "train", point_steps=2)
        assert rest.curve == whole.curve
        assert len(whole.curve) == STEPS // 2
        for name, tensor in whole.tensors().items():
            assert torch.equal(rest.tensors()[name].cpu(), tensor.cpu()), name


def test_validation_is_watched_on_the_device(criteo_data: Any):
    given = settings()
    here, metrics = trainer_of(nasrec, criteo_data, given, CPU), {}
    with second_device() as device:
        there = trainer_of(nasrec, criteo_data, given, device.name)
        for name, trainer in (("here", here), ("there", there)):
            metrics[name] = evaluate(
                trainer.trainee.network, trainer.embeddings, criteo_data, "valid", rows=200, device=trainer.device
            )  # type: ignore[attr-defined]
    assert metrics["there"]["logloss"] == pytest.approx(metrics["here"]["logloss"], rel=1e-6)
