"""What each model can and cannot learn, on labels that are a parity of two or three columns.

A parity of k columns carries no information in any k - 1 of them: a model without interactions of order k is
left with a log loss of ln 2 whatever it does.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recnas.baselines.base import InputShape, start_tables
from recnas.baselines.zoo import ZOO, build
from recnas.data.batch import Batch
from recnas.data.schema import Schema
from recnas.model.embeddings import build_embeddings
from recnas.train.loop import FixedNetwork, Trainer
from recnas.train.metrics import Metrics
from recnas.train.settings import OnePass

ROWS, BATCH, FIELDS, WIDTH = 4096, 128, 4, 8
SMALL = {
    "autoint+": {"layers": 1, "head_width": 8},
    "xdeepfm": {"cin": (16, 16)},
    "masknet": {"blocks": 2, "block_width": 32, "mask_width": 32},
}
# Wukong's inputs of every layer have unit size, so that steps that suit the others kill its units.
RATES = {"wukong": 0.02}
NO_THIRD_ORDER = {"lr", "fm", "fwfm"}
NO_SECOND_ORDER = {"lr"}


class Rows:
    """Batches of rows in memory, in one order."""

    def __init__(self, order: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        ids = rng.integers(2, 8, (ROWS, FIELDS))  # several values per parity: 2, 4, 6 even
        label = (ids[:, :order] % 2).sum(1) % 2
        self.dense = torch.from_numpy(rng.standard_normal((ROWS, 1)).astype(np.float32))
        self.ids, self.label = torch.from_numpy(ids), torch.from_numpy(label.astype(np.float32))
        self.position = 0

    def __len__(self) -> int:
        return ROWS // BATCH

    def epoch(self):
        for start in range(0, ROWS, BATCH):
            part = slice(start, start + BATCH)
            yield Batch(self.dense[part], self.ids[part], self.label[part])

    def state_dict(self):
        return {"epoch": 0, "batch": 0}


def trained_auc(name: str, order: int, steps: int = 240) -> float:
    torch.set_num_threads(1)
    schema = Schema.of_shape(1, [8] * FIELDS)
    shape = InputShape.of(schema, WIDTH)
    deep = {"hidden": (32, 32)} if "hidden" in ZOO[name].settings.model_fields else {}
    settings = {**deep, **SMALL.get(name, {})}
    network = build(name, shape, settings, seed=1)
    embeddings = build_embeddings(schema, width=network.table_width(WIDTH), backend="plain", seed=1)
    start_tables(embeddings, network, WIDTH)
    chosen = OnePass(batch_size=BATCH, lr=RATES.get(name, 0.1))
    Trainer(FixedNetwork(network), embeddings, Rows(order, 0), chosen, steps, torch.device("cpu")).run()  # type: ignore[arg-type]
    network.eval()
    metrics, fresh = Metrics(), Rows(order, 1)
    with torch.no_grad():
        for batch in fresh.epoch():
            metrics.update(network(batch.dense, embeddings.lookup(batch.ids)), batch.label)
    return metrics.result()["auc"]


@pytest.mark.parametrize("name", ["fm", "fwfm", "dlrm", "dcn"])
def test_learns_an_interaction_of_two_columns(name: str):
    assert trained_auc(name, order=2) > 0.95


@pytest.mark.parametrize("name", [name for name in ZOO if name not in NO_THIRD_ORDER])
def test_learns_an_interaction_of_three_columns(name: str):
    # DeepFM starts from smaller vectors, and takes longer to leave the flat start of a pure parity.
    assert trained_auc(name, order=3, steps=500 if name == "deepfm" else 240) > 0.9


@pytest.mark.parametrize("name", sorted(NO_SECOND_ORDER))
def test_cannot_learn_an_interaction_of_two_columns(name: str):
    assert trained_auc(name, order=2) < 0.56


@pytest.mark.parametrize("name", sorted(NO_THIRD_ORDER))
def test_cannot_learn_an_interaction_of_three_columns(name: str):
    assert trained_auc(name, order=3) < 0.56
