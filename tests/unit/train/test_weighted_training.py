"""Trainings on weighted rows: against the same rows repeated, against data without weights, over every kind of tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recnas.bench.other_models import OTHER_MODELS, run_other_model
from recnas.data.loader import BatchLoader
from recnas.data.prepare.prepare import prepare
from recnas.data.prepare.split import SPLITS
from recnas.data.prepared import PreparedData
from recnas.data.raw.sources import ReadySplit
from recnas.files import sha256_file
from recnas.model.nasrec.subnet import Subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.progress import Progress
from recnas.space.nasrec import NasrecSpace
from recnas.train.evaluate import evaluate
from recnas.train.loop import FixedNetwork, SupernetPaths, Trainer
from recnas.train.paths import PathSampler
from recnas.train.settings import TrainSettings
from recnas.train.setup import (
    make_embeddings,
    make_loader,
    net_shape,
    new_trainer,
    train_with_checkpoints,
    watch_validation,
    watched,
)

CPU = torch.device("cpu")
WHOLE = {"batch_size": 10_000, "shuffle": False, "schedule": "constant", "embeddings": {"width": 4}}


@pytest.fixture(scope="module")
def small(weighted_rows, weighted_recipe: Path, tmp_path_factory) -> PreparedData:
    """So few training rows that, repeated, they are all among those a network's start is set by."""
    folder = tmp_path_factory.mktemp("small")
    for seed, (name, count) in enumerate({"train": 240, "valid": 400, "test": 400}.items()):
        weighted_rows(count, seed).to_csv(folder / f"{name}.csv", index=False)
    files = ReadySplit(*([folder / f"{name}.csv"] for name in SPLITS))
    return prepare(str(weighted_recipe), files, folder / "data")


def rewritten(data: PreparedData, folder: Path, weight: float | None) -> PreparedData:
    """The same rows with all weights `weight`; None: each as often as it weighs, without weights."""
    manifest: dict[str, Any] = json.loads(json.dumps(data.manifest))
    for split in SPLITS:
        (folder / split).mkdir(parents=True)
        times = np.asarray(data.array(split, "weight")).astype(int) if weight is None else 1
        arrays = {name: np.repeat(np.asarray(data.array(split, name)), times, axis=0) for name in data.arrays}
        rows = len(arrays["label"])
        arrays["weight"] = np.full(rows, weight or 0, np.float32)
        for name, file in (("dense", "dense.f32"), ("ids", "ids.i32"), ("label", "label.i8"), ("weight", "weight.f32")):
            if name != "weight" or weight is not None:
                arrays[name].tofile(folder / split / file)
                manifest["checksums"][f"{split}/{file}"] = sha256_file(folder / split / file)
        manifest["rows"][split] = rows
        manifest["click_rate"][split] = float(arrays["label"].mean())
        manifest["weight"][split] = float(arrays["weight"].sum())
    if weight is None:
        del manifest["weight"]
    return PreparedData(folder, manifest, data.schema)


@pytest.fixture(scope="module")
def repeated(small, tmp_path_factory) -> PreparedData:
    return rewritten(small, tmp_path_factory.mktemp("repeated") / "data", None)


def new(data: PreparedData, settings: TrainSettings, kind: str = "subnet") -> Trainer:
    space = NasrecSpace("nasrec-small", blocks=2)
    shape, generator = net_shape(data.schema, settings), torch.Generator().manual_seed(0)
    loader = make_loader(data, settings, 0, CPU)
    if kind == "subnet":
        trainee: Any = FixedNetwork(Subnet(space.sample(np.random.default_rng(1)), shape, generator))
    else:
        steps = int(settings.epochs * len(loader))
        trainee = SupernetPaths(Supernet(space, shape, generator), PathSampler(space, 0, steps), head_lr_share=0.05)
    return new_trainer(trainee, make_embeddings(data.schema, settings, 0, CPU), loader, settings, CPU, data=data)


def trained(data: PreparedData, settings: TrainSettings, kind: str = "subnet") -> tuple[list[float], Trainer]:
    trainer, losses = new(data, settings, kind), []
    trainer.run(lambda _, loss: losses.append(loss))
    return losses, trainer


def close(one: Trainer, other: Trainer, tolerance: float) -> None:
    found, expected = one.tensors(), other.tensors()
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, expected[name], rtol=tolerance, atol=tolerance, msg=name)


@pytest.mark.parametrize("kind", ["subnet", "supernet"])
def test_steps_over_all_rows_are_those_of_repeated_rows(kind: str, small, repeated):
    settings = TrainSettings(epochs=6, **WHOLE)
    losses, one = trained(small, settings, kind)
    expected, _ = trained(repeated, settings, kind)
    assert losses == pytest.approx(expected, rel=1e-4)
    if kind == "subnet":  # float noise grows over Adam's steps, so weights are compared after the first few
        close(
            trained(small, TrainSettings(epochs=2, **WHOLE))[1],
            trained(repeated, TrainSettings(epochs=2, **WHOLE))[1],
            2e-4,
        )
        network = one.trainee.at_step(0)[0]
        for split in SPLITS:
            found = evaluate(network, one.embeddings, small, split)
            again = evaluate(network, one.embeddings, repeated, split)
            for name in set(found) - {"rows", "clicks"}:
                assert found[name] == pytest.approx(again[name], rel=1e-6), (split, name)
    plain, _ = trained(rewritten_without(small), settings, kind)
    assert losses[-1] != pytest.approx(plain[-1], rel=1e-3)


def rewritten_without(data: PreparedData) -> PreparedData:
    """The same files, whose weights nobody is told of."""
    manifest = {name: value for name, value in data.manifest.items() if name != "weight"}
    return PreparedData(data.path, manifest, data.schema)


def test_a_network_starts_at_the_weighted_click_rate(small):
    trainer = new(small, TrainSettings(**WHOLE))
    batch = next(BatchLoader(small, "train", 240).epoch())
    assert isinstance(trainer.trainee, FixedNetwork)
    logits = trainer.trainee.network(batch.dense, trainer.embeddings.lookup(batch.ids)).detach()
    rate = small.manifest["click_rate"]["train"]
    assert np.average(logits, weights=batch.weight) == pytest.approx(np.log(rate / (1 - rate)), abs=1e-5)
    assert rate == pytest.approx(np.average(batch.label, weights=batch.weight))
    assert abs(rate - float(batch.label.mean())) > 0.01


@pytest.mark.parametrize("size", [256, 200])
def test_weights_of_one_are_no_weights(size: int, weighted_data, tmp_path: Path):
    ones = rewritten(weighted_data, tmp_path / "ones", 1.0)
    plain = PreparedData(ones.path, {k: v for k, v in ones.manifest.items() if k != "weight"}, ones.schema)
    settings = TrainSettings(batch_size=size, epochs=1, embeddings={"width": 4})
    losses, one = trained(ones, settings)
    expected, other = trained(plain, settings)
    assert losses == pytest.approx(expected, rel=1e-5)
    close(one, other, 1e-4)
    full = TrainSettings(
        batch_size=256, epochs=12 / 13, embeddings={"width": 4}
    )  # without the last batch, which is not full
    if size == 256:
        one, other = trained(ones, full)[1], trained(plain, full)[1]
        assert all(torch.equal(tensor, other.tensors()[name]) for name, tensor in one.tensors().items())


@pytest.mark.parametrize("backend", ["plain", "fused", "sharded"])
def test_every_kind_of_tables_gets_the_weighted_loss(backend: str, weighted_data):
    settings = {"batch_size": 256, "epochs": 1}
    losses, _ = trained(weighted_data, TrainSettings(**settings, embeddings={"width": 4, "backend": backend}))
    expected, _ = trained(weighted_data, TrainSettings(**settings, embeddings={"width": 4}))
    assert losses == pytest.approx(expected, rel=1e-5)


def test_early_stopping_looks_at_weighted_validation(small, repeated):
    settings = TrainSettings(epochs=6, **WHOLE, stop={"patience": 3})
    checks = []
    for data in (small, repeated):
        trainer = new(data, settings)
        assert isinstance(trainer.trainee, FixedNetwork)
        watch_validation(trainer, trainer.trainee.network, data)
        train_with_checkpoints(trainer, None, {}, Progress(quiet=True), "train")
        checks.append([check for one in watched(trainer)["checks"] for check in (one["logloss"], one["auc"])])
    assert len(checks[0]) > 4
    assert checks[0] == pytest.approx(checks[1], rel=1e-3)


def test_other_libraries_are_fitted_on_weighted_rows(small, repeated):
    settings = TrainSettings()
    fits = [
        run_other_model("sklearn-lr", {"C": 0.1}, data, settings, 0, ("valid", "test")) for data in (small, repeated)
    ]
    (facts, logits), (expected, again) = fits
    for split in ("valid", "test"):
        times = np.asarray(small.array(split, "weight")).astype(int)
        assert logits[split].repeat(times) == pytest.approx(again[split], abs=5e-3)
        assert facts[split]["logloss"] == pytest.approx(expected[split]["logloss"], abs=1e-3)
    _, plain = run_other_model("sklearn-lr", {"C": 0.1}, rewritten_without(small), settings, 0, ("test",))
    assert np.abs(plain["test"] - logits["test"]).max() > 0.05


def test_other_libraries_where_no_row_has_a_weight(small, tmp_path: Path):
    nothing = rewritten(small, tmp_path / "none", 0.0)
    _, logits = run_other_model("sklearn-lr", {"C": 0.1}, nothing, TrainSettings(), 0, ("test",))
    assert np.isfinite(logits["test"]).all()


def test_lightgbm_is_given_weights(weighted_data, tmp_path: Path):
    pytest.importorskip("lightgbm")
    choice = {**OTHER_MODELS["lightgbm"].default, "trees": 20}
    plain = rewritten_without(weighted_data)
    found = [
        run_other_model("lightgbm", choice, data, TrainSettings(), 0, ("test",))[1] for data in (weighted_data, plain)
    ]
    assert not np.allclose(found[0]["test"], found[1]["test"])
