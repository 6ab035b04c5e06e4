"""Open a trained model again, from its run directory.

    RUN             a training run: its first finished seed. A search run: its winner
    RUN:best        the seed with the lowest validation log loss (of the winner, for a search run)
    RUN:seed-3      that seed
    RUN:deepfm      a model of a comparison that kept its weights; also RUN:deepfm:seed-3, RUN:deepfm:best

    model = load_trained("runs/criteo:best")
    model.predict(batch.dense, batch.ids)            # probabilities [B]
    model.predict(frame)                             # of raw rows: a pandas frame with the raw columns

Weights come from safetensors and JSON files, so nothing that is read is ever executed. A run keeps its own
copy of the schema, so the weights need nothing else; raw text needs the vocabulary of the prepared data,
which `TrainedModel.data` opens and checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor, nn

from recnas.data.prepared import PreparedData
from recnas.data.schema import Schema
from recnas.errors import DataError, RunError
from recnas.files import read_json
from recnas.model.embeddings import TableReader
from recnas.runs.seal import check_sealed
from recnas.serve.find import find_run, find_training
from recnas.serve.weights import fill_network, fill_tables, whole_checkpoint
from recnas.train.settings import TrainSettings

if TYPE_CHECKING:
    import pandas as pd

    from recnas.data.raw.frames import FrameEncoder

SCHEMA = "schema.json"  # the run's own copy


@dataclass(frozen=True)
class TrainedModel:
    """A network and its tables as one training left them, ready to predict.

    Attributes:
        path: folder of the seed's checkpoint. key: of the architecture, or the name of a hand-crafted model.
        described: what was built, as JSON. fingerprint: of the data it was trained on.
        data_path: where those data were. metrics: by split, as measured when its training ended.
    """

    path: Path
    seed: int
    key: str
    described: dict[str, Any]
    network: nn.Module
    tables: TableReader
    schema: Schema
    settings: TrainSettings
    fingerprint: str
    data_path: Path
    metrics: dict[str, Any]
    made_from: dict[str, Any] = field(default_factory=dict)  # what its checkpoint says of itself

    @torch.no_grad()
    def logits(self, dense: Tensor, ids: Tensor) -> Tensor:
        """Logits `[B]` of `dense [B, I]` and `ids [B, F]`."""
        device = self.tables.row_map.device
        return self.network(dense.to(device), self.tables.lookup(ids.to(device)))

    @overload
    def predict(self, dense: Tensor, ids: Tensor) -> Tensor: ...

    @overload
    def predict(self, dense: pd.DataFrame) -> pd.Series | pd.DataFrame: ...

    def predict(self, dense: Any, ids: Tensor | None = None) -> Any:
        """Click probabilities `[B]`: of `dense [B, I]` and `ids [B, F]`, or of a pandas frame with the raw columns.

        Those of a frame come as a series with its index, of several labels (`[B, L]`) as a frame with a column each. A row that cannot be read is an error that names it.
        """
        if ids is not None:
            return self.logits(dense, ids).sigmoid()
        from recnas.serve.frames import predict_frame

        return predict_frame(self, dense)

    @cached_property
    def rows(self) -> FrameEncoder:
        """How raw rows become inputs; the vocabularies are kept with the data the model was trained on."""
        from recnas.data.raw.frames import FrameEncoder

        return FrameEncoder(self.data())

    def data(self, path: Path | str | None = None) -> PreparedData:
        """The data it was trained on, from where they were or from `path`; others are refused."""
        return trained_data(path or self.data_path, self.fingerprint, path is not None, self.data_path)


def trained_data(
    path: Path | str, fingerprint: str, moved: bool = False, trained_on: Path | None = None
) -> PreparedData:
    """Those data, or others with the same vocabulary.

    Args:
        moved: `path` is not where they were. trained_on: where they were, if that is known.
    """
    path = Path(path)
    if not moved and not path.exists():
        raise DataError(
            f"The model was trained on {path}, which is not there (any more); the vocabulary that turns raw "
            "values into ids is kept with those data.",
            "Put the folder back, or say where it is now: --data DIR",
        )
    data = PreparedData.open(path)
    if not data.same_vocabulary_as(fingerprint) and not _like_each_other(data, fingerprint, trained_on):
        raise DataError(
            f"{path} holds other data than the model was trained on (fingerprint {data.fingerprint[:16]}, "
            f"not {fingerprint[:16]}), so its ids mean other values.",
            "Give the folder the model was trained on: --data DIR. Compare with: recnas inspect DIR",
        )
    return data


def _like_each_other(data: PreparedData, fingerprint: str, trained_on: Path | None) -> bool:
    """Whether two data sets that do not know each other have one vocabulary; the other may be gone."""
    try:
        other = None if trained_on is None else PreparedData.find(trained_on)
    except DataError:
        return False
    return other is not None and (other.fingerprint, other.vocabulary) == (fingerprint, data.vocabulary)


def load_trained(
    spec: str | Path,
    data: Path | str | None = None,
    seed: int | None = None,
    device: torch.device | str = "cpu",
) -> TrainedModel:
    """The model that `spec` names; see the module's text.

    Args:
        data: where the prepared data are, if they were moved.
        seed: the same as `RUN:seed-N`.

    Raises:
        RunError: there is no such run, it is not finished, or it holds no trained model.
    """
    run, names = find_run(str(spec), seed)
    manifest = run.manifest()
    fingerprint, data_path = manifest.get("data", {}).get("fingerprint"), data or run.data_path()
    known = _schema(run.path)

    def schema() -> Schema:
        return known or trained_data(data_path, fingerprint, moved=data is not None).schema

    part = find_training(run, names, schema)
    made_from = {"data": fingerprint, **part.made_from}
    saved = whole_checkpoint(part.folder, made_from)
    network = part.network.to(device).eval()
    layout = getattr(network, "field_columns", None)
    fill_network(network, saved.tensors, part.folder)
    return TrainedModel(
        path=part.folder,
        seed=part.line.seed,
        key=part.key,
        described=part.described,
        network=network,
        tables=fill_tables(schema(), part.settings, saved.tensors, torch.device(device), part.folder, layout),
        schema=schema(),
        settings=part.settings,
        fingerprint=fingerprint,
        data_path=Path(data_path),
        metrics={split: found for split in ("valid", "test") if (found := getattr(part.line, split))},
        made_from=made_from,
    )


def _schema(folder: Path) -> Schema | None:
    """The run's copy, if it has one: runs of earlier versions have not."""
    check_sealed(folder, SCHEMA)
    try:
        return Schema.from_dict(read_json(folder / SCHEMA))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{folder / SCHEMA} is damaged.", "Restore it from the prepared data.") from None
