"""Hand-crafted networks in the project's training loop."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from recnas.baselines.base import InputShape, start_tables
from recnas.baselines.zoo import ZOO, build
from recnas.data.loader import BatchLoader
from recnas.model.embeddings import build_embeddings
from recnas.train.checkpoint import load_latest, save
from recnas.train.evaluate import evaluate
from recnas.train.loop import FixedNetwork, Trainer
from recnas.train.settings import TrainSettings

WIDTH = 4


def make(data, name: str, steps: int = 12, seed: int = 0) -> Trainer:
    torch.set_num_threads(1)
    small = {"hidden": (16, 8), "dropout": 0.4}
    settings = {key: value for key, value in small.items() if key in ZOO[name].settings.model_fields}
    network = build(name, InputShape.of(data.schema, WIDTH), settings, seed)
    tables = build_embeddings(data.schema, width=network.table_width(WIDTH), backend="plain", seed=seed)
    start_tables(tables, network, WIDTH)
    loader = BatchLoader(data, "train", 64, shuffle=True, seed=seed, rows=500)
    chosen = TrainSettings(batch_size=64)
    return Trainer(FixedNetwork(network), tables, loader, chosen, steps, torch.device("cpu"))


class Stop(Exception):
    pass


@pytest.mark.parametrize("name", ["lr", "deepfm", "masknet", "dcnv3", "finalnet"])
def test_stopped_and_resumed_equals_undisturbed_with_dropout(criteo_data, tmp_path: Path, name: str):
    whole = make(criteo_data, name)
    whole.run()
    cut = make(criteo_data, name)

    def stop(trainer: Trainer, loss: float) -> None:
        if trainer.step == 7:
            save(tmp_path, trainer.step, trainer.tensors(), trainer.facts())
            raise Stop

    with pytest.raises(Stop):
        cut.run(stop)
    torch.manual_seed(123)  # global random state must not matter
    resumed, saved = make(criteo_data, name), load_latest(tmp_path)
    assert saved is not None
    resumed.load(saved.tensors, saved.facts)
    resumed.run()
    expected = whole.tensors()
    for key, tensor in resumed.tensors().items():
        assert torch.equal(tensor, expected[key]), key
    other = make(criteo_data, name, seed=1)
    other.run()
    assert any(not torch.equal(a, expected[key]) for key, a in other.tensors().items())


def test_evaluation_is_without_dropout_and_leaves_the_mode_alone(criteo_data):
    trainer = make(criteo_data, "dnn", steps=3)
    trainer.run()
    network = trainer.trainee.network  # type: ignore[attr-defined]
    assert network.training
    logits: list[torch.Tensor] = []
    found = [
        evaluate(network, trainer.embeddings, criteo_data, "valid", batch_size=n, on_logits=logits.append)
        for n in (4096, 777)
    ]
    assert network.training
    assert found[0]["logloss"] == pytest.approx(found[1]["logloss"], rel=1e-6)
    network.eval()
    evaluate(network, trainer.embeddings, criteo_data, "valid")
    assert not network.training
    assert sum(map(len, logits)) == 2 * criteo_data.rows("valid")
