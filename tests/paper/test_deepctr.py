"""Four hand-crafted models compared with DeepCTR-Torch's: same encoded split, layers, epochs, trials and seeds.

    .venv/bin/pip install -e '.[bench]'
    RECNAS_SHARED=../shared scripts/test -m paper tests/paper/test_deepctr.py

Takes about 10 minutes on 2 cores. Each side chooses its learning rate on validation from as many values, with
seed 0; the chosen rate is evaluated on test once per seed. DeepCTR-Torch trains with Adam and no penalty on weights;
recnas with Adagrad and a cosine schedule. What came out is in docs/results/peers.md.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss, roc_auc_score

from recnas.baselines.base import InputShape, start_tables
from recnas.baselines.zoo import build
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepared import PreparedData
from recnas.model.embeddings import build_embeddings
from recnas.train.evaluate import evaluate
from recnas.train.loop import FixedNetwork
from recnas.train.settings import OnePass
from recnas.train.setup import choose_device, make_loader, new_trainer

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("RECNAS_SHARED", ROOT.parent / "shared")) / "data" / "ctr"
FILES = {"frappe": SHARED / "frappe_validation.libfm.gz", "criteo": SHARED / "criteo_head_autoint_10000.tsv.gz"}
EPOCHS, SEEDS, WIDTH, BATCH = 3, 3, 16, 512
OUR_RATES = (0.02, 0.04, 0.08, 0.16)
THEIR_RATES = (3e-4, 1e-3, 3e-3, 1e-2)
# Ours, and the name and options of the same layers there.
MODELS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "deepfm": ({"hidden": (256, 128)}, "DeepFM", {"dnn_hidden_units": (256, 128)}),
    "dcn": ({"hidden": (128, 128), "crosses": 2}, "DCN", {"dnn_hidden_units": (128, 128), "cross_num": 2, "l2_reg_cross": 0}),
    "autoint+": (
        {"hidden": (256, 128), "layers": 3, "heads": 2, "head_width": 8},
        "AutoInt", {"dnn_hidden_units": (256, 128), "att_layer_num": 3, "att_head_num": 2},
    ),
    "xdeepfm": (
        {"hidden": (256, 256), "cin": (128, 64)},
        "xDeepFM", {"dnn_hidden_units": (256, 256), "cin_layer_size": (128, 64), "cin_activation": "linear", "l2_reg_cin": 0},
    ),
}  # fmt: skip


def ours(
    data: PreparedData, model: str, rate: float, seed: int, splits: tuple[str, ...]
) -> dict[str, dict[str, float]]:
    settings = OnePass(batch_size=BATCH, epochs=EPOCHS, optimizer="adagrad", lr=rate)
    network = build(model, InputShape.of(data.schema, WIDTH), MODELS[model][0], seed=seed)
    tables = build_embeddings(data.schema, width=network.table_width(WIDTH), lr=rate, seed=seed)
    start_tables(tables, network, WIDTH)
    device = choose_device(settings)
    new_trainer(FixedNetwork(network), tables, make_loader(data, settings, seed, device), settings, device).run()
    return {split: evaluate(network, tables, data, split) for split in splits}


def theirs(
    data: PreparedData, model: str, rate: float, seed: int, splits: tuple[str, ...]
) -> dict[str, dict[str, float]]:
    from deepctr_torch import models
    from deepctr_torch.inputs import DenseFeat, SparseFeat

    torch.manual_seed(seed)
    np.random.seed(seed)  # its shuffling
    fields = [SparseFeat(f"C{i}", rows, embedding_dim=WIDTH) for i, rows in enumerate(data.schema.table_rows)]
    columns = [*fields, *(DenseFeat(f"I{i}", 1) for i in range(data.schema.n_dense))]
    _, name, options = MODELS[model]
    if model != "autoint+":
        options = {**options, "l2_reg_linear": 0}
    network = getattr(models, name)(
        columns, columns, l2_reg_embedding=0, l2_reg_dnn=0, device="cpu", seed=seed, **options
    )
    network.compile(torch.optim.Adam(network.parameters(), lr=rate), "binary_crossentropy")

    def read(split: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
        ids, dense, label = (np.asarray(data.array(split, array)) for array in ("ids", "dense", "label"))
        inputs = {f"C{i}": ids[:, i] for i in range(len(fields))}
        return inputs | {f"I{i}": dense[:, i] for i in range(data.schema.n_dense)}, label.astype(np.float32)

    inputs, label = read("train")
    network.fit(inputs, label, batch_size=BATCH, epochs=EPOCHS, verbose=0)
    found = {}
    for split in splits:
        inputs, label = read(split)
        predicted = np.clip(network.predict(inputs, 4096).squeeze(1).astype(np.float64), 1e-7, 1 - 1e-7)
        found[split] = {"logloss": log_loss(label, predicted), "auc": roc_auc_score(label, predicted)}
    return found


Side = Callable[[PreparedData, str, float, int, tuple[str, ...]], dict[str, dict[str, float]]]


def result(side: Side, data: PreparedData, model: str, rates: tuple[float, ...]) -> dict[str, Any]:
    trials = {rate: side(data, model, rate, 0, ("valid",))["valid"]["logloss"] for rate in rates}
    rate = min(trials, key=lambda r: trials[r])
    tests = [side(data, model, rate, seed, ("test",))["test"] for seed in range(SEEDS)]
    return {"rate": rate, "logloss": [t["logloss"] for t in tests], "auc": [t["auc"] for t in tests]}


@pytest.mark.paper
@pytest.mark.timeout(3600)
@pytest.mark.skipif(importlib.util.find_spec("deepctr_torch") is None, reason="needs pip install -e '.[bench]'")
@pytest.mark.parametrize("name", FILES)
def test_at_least_as_good_as_deepctr_torch(name: str, tmp_path: Path):
    if not FILES[name].exists():
        pytest.skip(f"needs {FILES[name]}")
    data = prepare(name, [FILES[name]], tmp_path / name, PrepareOptions())
    torch.set_num_threads(1)
    lines, worse = [], []
    for model in MODELS:
        mine, peer = result(ours, data, model, OUR_RATES), result(theirs, data, model, THEIR_RATES)
        line = f"{name:<7} {model:<9}"
        for label, found in (("recnas", mine), ("DeepCTR-Torch", peer)):
            line += (
                f"  {label}: {np.mean(found['logloss']):.4f} +- {np.std(found['logloss'], ddof=1):.4f}"
                f" AUC {np.mean(found['auc']):.4f} (rate {found['rate']:g})"
            )
        print(line, flush=True)
        lines.append(line)
        if np.mean(mine["logloss"]) > np.mean(peer["logloss"]):
            worse.append(line)
    assert not worse, "\n".join(worse)
