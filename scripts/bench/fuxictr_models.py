"""DNN, DeepFM and DCN-V2 of FuxiCTR's own layers, prepared, trained and tested by FuxiCTR.

Run by `scripts/bench/fuxictr` inside an environment that has FuxiCTR and no recnas:

    python fuxictr_models.py --folder DIR --models dnn deepfm --epochs 100 --seed 1

`--folder` holds train.csv, valid.csv and test.csv; what FuxiCTR writes goes there too. The last line printed
is one JSON object. FuxiCTR's package has its layers and its trainer but no models, so these are put
together here, with the defaults of its trainer: early stopping by validation AUC after two epochs without
a gain, the rate cut to a tenth after each of them, gradients clipped to a norm of 10. Preparation and loading run
in Ray's processes, which FuxiCTR starts (that counts as preparation) and which draw the order of rows without a seed,
so that a repetition gives slightly other figures.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import time
from pathlib import Path
from typing import Any

import torch
from fuxictr.preprocess import FeatureProcessor, build_dataset
from fuxictr.pytorch.dataloaders import RankDataLoader
from fuxictr.pytorch.layers import CrossNetV2, FactorizationMachine, FeatureEmbedding, MLP_Block
from fuxictr.pytorch.models import BaseModel
from fuxictr.pytorch.torch_utils import seed_everything
from torch import nn

LABEL = "label"
METRICS = ("AUC", "logloss")


class TimedModel(BaseModel):
    """FuxiCTR's trainer, with every evaluation noted and its time taken out of the training's."""

    def __init__(self, feature_map: Any, options: argparse.Namespace, **trainer: Any) -> None:
        super().__init__(
            feature_map,
            monitor="AUC",
            early_stop_patience=options.patience,
            embedding_regularizer=options.l2,
            net_regularizer=None,
            metrics=list(METRICS),
            verbose=0,
            **trainer,
        )
        self.evaluation_seconds = 0.0
        self.history: list[dict[str, float]] = []
        self.embedding_layer = FeatureEmbedding(feature_map, options.width)
        self.build(feature_map, options)
        self.compile("adam", "binary_crossentropy", options.lr)
        self.reset_parameters()
        self.model_to_device()

    def build(self, feature_map: Any, options: argparse.Namespace) -> None:
        raise NotImplementedError

    def logit(self, inputs: Any, embedded: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def forward(self, inputs: Any) -> dict[str, torch.Tensor]:
        x = self.get_inputs(inputs)
        return {"y_pred": self.output_activation(self.logit(x, self.embedding_layer(x)))}

    def eval_step(self) -> None:
        start = time.perf_counter()
        super().eval_step()
        self.evaluation_seconds += time.perf_counter() - start

    def checkpoint_and_earlystop(self, logs: dict[str, float], min_delta: float = 1e-6) -> None:
        self.history.append({name: float(value) for name, value in logs.items()})
        super().checkpoint_and_earlystop(logs, min_delta)


def mlp(inputs: int, options: argparse.Namespace, outputs: int | None = 1) -> nn.Module:
    return MLP_Block(
        inputs,
        hidden_units=list(options.hidden),
        output_dim=outputs,
        dropout_rates=options.dropout,
        batch_norm=True,
    )


class DNN(TimedModel):
    def build(self, feature_map: Any, options: argparse.Namespace) -> None:
        self.mlp = mlp(feature_map.num_fields * options.width, options)

    def logit(self, inputs: Any, embedded: torch.Tensor) -> torch.Tensor:
        return self.mlp(embedded.flatten(1))


class DeepFM(DNN):
    def build(self, feature_map: Any, options: argparse.Namespace) -> None:
        super().build(feature_map, options)
        self.fm = FactorizationMachine(feature_map)

    def logit(self, inputs: Any, embedded: torch.Tensor) -> torch.Tensor:
        return self.fm(inputs, embedded) + super().logit(inputs, embedded)


class DCNv2(TimedModel):
    """Crosses beside an MLP; both are read by the last layer."""

    def build(self, feature_map: Any, options: argparse.Namespace) -> None:
        inputs = feature_map.num_fields * options.width
        self.crosses = CrossNetV2(inputs, options.crosses)
        self.mlp = mlp(inputs, options, outputs=None)
        self.last = nn.Linear(inputs + options.hidden[-1], 1)

    def logit(self, inputs: Any, embedded: torch.Tensor) -> torch.Tensor:
        flat = embedded.flatten(1)
        return self.last(torch.cat([self.crosses(flat), self.mlp(flat)], dim=1))


MODELS: dict[str, type[TimedModel]] = {"dnn": DNN, "deepfm": DeepFM, "dcn-v2": DCNv2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--patience", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--width", type=int, default=10)
    parser.add_argument("--hidden", type=int, nargs="+", default=[400, 400, 400])
    parser.add_argument("--crosses", type=int, default=3)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--l2", type=float, default=0.05, help="of the embedding tables")
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    torch.set_num_threads(options.threads)
    feature_map, files, seconds = prepare(options.folder)
    results = {name: train(name, feature_map, files, seconds, options) for name in options.models}
    print(json.dumps(results))


def prepare(folder: Path) -> tuple[Any, dict[str, str], float]:
    """The three files as FuxiCTR's arrays; seconds from text to files that it can train on."""
    with open(folder / "train.csv") as file:
        columns = [name for name in file.readline().strip().split(",") if name != LABEL]
    if (folder / "prepared").exists():  # FuxiCTR would take it as it is, in no time
        raise SystemExit(f"{folder / 'prepared'} is there already: remove it, or give another --folder.")
    start = time.perf_counter()
    processor = FeatureProcessor(
        feature_cols=[{"name": columns, "active": True, "dtype": "str", "type": "categorical"}],
        label_col={"name": LABEL, "dtype": "float"},
        dataset_id="prepared",
        data_root=str(folder),
    )
    raw = {f"{split}_data": str(folder / f"{split}.csv") for split in ("train", "valid", "test")}
    train, valid, test = build_dataset(processor, **raw, min_categr_count=1, data_format="csv")
    seconds = time.perf_counter() - start
    return processor.feature_map, {"train_data": train, "valid_data": valid, "test_data": test}, seconds


def train(
    name: str, feature_map: Any, files: dict[str, str], prepare_seconds: float, options: argparse.Namespace
) -> dict[str, Any]:
    seed_everything(options.seed)
    start = time.perf_counter()
    train_rows, valid_rows, test_rows = RankDataLoader(
        feature_map, stage="both", **files, batch_size=options.batch, shuffle=True, data_format="parquet"
    )
    model = MODELS[name](feature_map, options, model_id=name, model_root=str(options.folder))
    load_seconds = time.perf_counter() - start
    start = time.perf_counter()
    model.fit(train_rows, epochs=options.epochs, validation_data=valid_rows)
    fit_seconds = time.perf_counter() - start
    epochs = len(model.history)
    rows = epochs * train_rows.num_samples
    scores = {"valid": model.evaluate(valid_rows), "test": model.evaluate(test_rows)}
    return {
        "prepare_seconds": prepare_seconds,
        "load_seconds": load_seconds,
        "train_seconds": fit_seconds - model.evaluation_seconds,
        "valid_seconds": model.evaluation_seconds,
        "epochs": epochs,
        "best_epoch": 1 + max(range(epochs), key=lambda epoch: model.history[epoch]["AUC"]),
        "train_rows": train_rows.num_samples,
        "rows_per_second": rows / (fit_seconds - model.evaluation_seconds),
        "rows_per_second_from_raw": rows / (prepare_seconds + load_seconds + fit_seconds),
        "valid": {"auc": float(scores["valid"]["AUC"]), "logloss": float(scores["valid"]["logloss"])},
        "test": {"auc": float(scores["test"]["AUC"]), "logloss": float(scores["test"]["logloss"])},
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "peak_rss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


if __name__ == "__main__":
    main()
