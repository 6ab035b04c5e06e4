from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from recnas.data.loader import BatchLoader
from recnas.data.prepared import PreparedData
from recnas.model.embeddings import build_embeddings
from recnas.model.nasrec.subnet import Subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.layers import NetShape
from recnas.train.checkpoint import load_latest, save
from recnas.train.evaluate import evaluate
from recnas.train.loop import FixedNetwork, SupernetPaths, Trainer
from recnas.train.paths import PathSampler
from recnas.train.pending import NotFinite
from recnas.train.settings import OnePass, SupernetSettings, TrainSettings


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def make(data: PreparedData, kind: str, steps: int, settings: TrainSettings | None = None) -> Trainer:
    settings = settings or TrainSettings(batch_size=64)
    shape = NetShape(data.schema.n_dense, data.schema.n_sparse)
    generator = torch.Generator().manual_seed(0)
    space = NasrecSpace("nasrec-small", blocks=2)
    if kind == "subnet":
        trainee = FixedNetwork(Subnet(space.sample(np.random.default_rng(1)), shape, generator))
    else:
        trainee = SupernetPaths(
            Supernet(space, shape, generator),
            PathSampler(space, 0, steps, full_path_share=0.3),
            head_lr_share=0.05,
        )
    embeddings = build_embeddings(data.schema, backend="plain" if kind == "supernet" else "auto", seed=0)
    loader = BatchLoader(data, "train", settings.batch_size, shuffle=True, seed=0, rows=1000)
    return Trainer(trainee, embeddings, loader, settings, steps, torch.device("cpu"))


@pytest.mark.parametrize("kind", ["subnet", "supernet"])
@pytest.mark.parametrize("optimizer", ["adagrad", "adamw"])
def test_stopped_and_resumed_equals_undisturbed_bit_for_bit(criteo_data, tmp_path: Path, kind, optimizer):
    settings = TrainSettings(batch_size=64, optimizer=optimizer, lr=0.01 if optimizer == "adamw" else 0.12)
    whole = make(criteo_data, kind, 24, settings)
    whole.run()
    first = make(criteo_data, kind, 24, settings)

    class Stop(Exception):
        pass

    def stop_at(trainer, loss):
        if trainer.step in (7, 20):  # in the first and in the second epoch
            save(tmp_path, trainer.step, trainer.tensors(), trainer.facts())
            raise Stop

    with pytest.raises(Stop):
        first.run(stop_at)
    second = make(criteo_data, kind, 24, settings)
    saved = load_latest(tmp_path)
    second.load(saved.tensors, saved.facts)
    with pytest.raises(Stop):
        second.run(stop_at)
    third = make(criteo_data, kind, 24, settings)
    saved = load_latest(tmp_path)
    third.load(saved.tensors, saved.facts)
    third.run()
    assert third.step == 24
    expected = whole.tensors()
    found = third.tensors()
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name
    assert third.take_mean_loss() == whole.take_mean_loss()


def test_training_learns(criteo_data):
    trainer = make(criteo_data, "subnet", 60, TrainSettings(batch_size=64, lr=0.03))
    losses: list[float] = []
    trainer.run(lambda _, loss: losses.append(loss))
    assert np.mean(losses[-15:]) < np.mean(losses[:15])
    network = trainer.trainee.network
    found = evaluate(network, trainer.embeddings, criteo_data, "train", rows=1000)
    assert found["logloss"] < 0.56
    assert found["rows"] == 1000


def test_a_loss_that_is_not_a_number_stops_and_says_where(criteo_data):
    trainer = make(criteo_data, "subnet", 10)

    def poison(trainer, loss):
        if trainer.step == 3:
            next(iter(trainer.trainee.storages.values())).data.fill_(float("nan"))

    with pytest.raises(NotFinite, match=r"became nan at step 4 .*batch 4"):
        trainer.run(poison)
    assert trainer.step == 3


def test_clipping_bounds_the_update(criteo_data):
    free = make(
        criteo_data, "subnet", 1, TrainSettings(batch_size=64, optimizer="adagrad", clip=None, schedule="constant")
    )
    tight = make(
        criteo_data, "subnet", 1, TrainSettings(batch_size=64, optimizer="adagrad", clip=1e-6, schedule="constant")
    )
    before = {name: tensor.clone() for name, tensor in free.tensors().items()}
    free.run()
    tight.run()
    name = next(n for n in before if n.startswith("network/"))
    moved = [(t.tensors()[name] - before[name]).abs().max().item() for t in (free, tight)]
    assert moved[0] > 1e3 * moved[1] > 0


def test_tables_can_have_a_learning_rate_of_their_own(criteo_data):
    settings = TrainSettings(batch_size=64, lr=0.12, schedule="constant", embeddings={"lr": 0.03})
    trainer = make(criteo_data, "subnet", 1, settings)
    trainer.run()
    assert trainer.embeddings.lr == pytest.approx(0.03)


BFLOAT16 = """
import sys
import torch
from recnas.data.prepared import PreparedData
from recnas.train.settings import OnePass, SupernetSettings, TrainSettings
sys.path.insert(0, sys.argv[2])
from test_loop import make
torch.set_num_threads(1)
for kind in ("subnet", "supernet"):
    losses = {"float32": [], "bfloat16": []}
    for precision, seen in losses.items():
        settings = TrainSettings(batch_size=64, lr=0.03, precision=precision)
        make(PreparedData.open(sys.argv[1]), kind, 12, settings).run(lambda _, loss, seen=seen: seen.append(loss))
    assert losses["float32"] != losses["bfloat16"], kind
    assert abs(sum(losses["float32"]) - sum(losses["bfloat16"])) < 0.02 * sum(losses["float32"]), (kind, losses)
"""


@pytest.mark.spawns
def test_bfloat16_trains_like_float32(criteo_data):
    """In a process of its own: some machines advertise AMX but do not let it run, which kills the process."""
    done = subprocess.run(
        [sys.executable, "-c", BFLOAT16, str(criteo_data.path), str(Path(__file__).parent)],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_rates_follow_the_optimizer_unless_given():
    def rates(settings: TrainSettings) -> tuple[float, float | None]:
        return settings.lr, settings.embeddings.lr

    assert rates(TrainSettings()) == (0.001, 0.05)  # AdamW for the layers, Adagrad for the tables
    assert rates(OnePass()) == (0.002, 0.12)
    assert rates(TrainSettings(optimizer="adagrad")) == (0.12, None)
    assert rates(TrainSettings(lr=0.01, embeddings={"lr": 0.05})) == (0.01, 0.05)
    assert rates(SupernetSettings()) == (0.12, None)
    assert rates(SupernetSettings(optimizer="adamw")) == (0.002, 0.12)
    assert rates(TrainSettings(embeddings={"optimizer": "adam"})) == (0.001, None)
    assert TrainSettings(**TrainSettings().model_dump()) == TrainSettings()
