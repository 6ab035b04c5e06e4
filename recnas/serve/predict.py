"""Score a raw file with a trained model and the preprocessing it was trained with.

Memory stays at the model plus one block of rows whatever the size of the file. Rows keep their order, and
every raw row has its row in the output: one that cannot be read gets no probability but the reason.

    row          from 0, over all raw files in the order given
    probability  of a click, float32; empty if the row is bad. Of several labels a column each: probability_click, ...
    label        0 or 1, empty if it cannot be read; only where the raw file has the label column. label_click, ...
    reason       why a row is bad, else empty
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import torch

from recnas.config import nearest
from recnas.data.raw.encoder import EncodedRows, RawEncoder
from recnas.data.raw.remote import as_path
from recnas.data.raw.sources import STDIN, read_stdin
from recnas.data.schema import Schema
from recnas.devices import choose_device
from recnas.errors import ConfigError, DataError
from recnas.files import make_place, part_of
from recnas.progress import Progress
from recnas.serve.load import TrainedModel, load_trained
from recnas.train.metrics import metrics_of, of_label

SUFFIXES = (".parquet", ".csv")
SHOWN_REJECTS = 5
FIGURES = ("click_rate", "logloss", "auc")


def predict(
    spec: str,
    raw: list[Path | str],
    out: Path | str | None = None,
    *,
    data: Path | str | None = None,
    side: tuple[str, ...] = (),
    batch: int | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Predict every row of `raw`; see `load_trained` for `spec`. Returns the counts and the metrics.

    Args:
        out: a .parquet or .csv file for the predictions; without it only the figures are made.
        data: the prepared data, if they are not where they were.
        batch: rows per forward pass (default: the batch size of evaluation in training).
        device: where the model computes: auto, cpu, cuda or cuda:N.
    """
    progress = progress or Progress(quiet=True)
    if batch is not None and batch < 1:
        raise ConfigError(f"--batch must be at least 1 (got {batch}).")
    here = [path for path in map(as_path, raw) if isinstance(path, Path)]
    target = None if out is None else _target(Path(out), here)
    chosen = choose_device(device, "--device")
    if list(raw) == [STDIN]:
        with tempfile.TemporaryDirectory(prefix="recnas-") as folder:
            return predict(
                spec,
                [str(read_stdin(Path(folder), sys.stdin.buffer).path)],
                out,
                data=data,
                side=side,
                batch=batch,
                device=device,
                progress=progress,
            )
    model = load_trained(spec, data, device=chosen)
    rows = RawEncoder(model.data(data), raw, side)
    if target is None and not rows.labelled:
        raise ConfigError(
            f"{rows.sources[0].path} has no label column, so without a file for the predictions there is "
            "nothing to report.",
            "Say where they should go: --out predictions.parquet (or .csv)",
        )
    names = tuple(label.name for label in model.schema.labels)
    summary = _Summary(rows.labelled, rows.weighted, model.schema)
    plain = rows.recipe.format == "text" and not any(source.compression for source in rows.sources)
    progress.phase("predict", sum(source.size for source in rows.sources) / 1e6 if plain else None, "MB")
    fields = _fields(rows.labelled, names)
    with _writer(target, fields) as write:
        for block in rows.blocks():
            logits = _logits(model, block, batch or model.settings.eval_batch_size)
            write(_table(block, logits.sigmoid().numpy(), summary.rows, fields))
            summary.add(block, logits)
            progress.advance(block.bytes / 1e6)
        if summary.rows == summary.rejects:
            raise _nothing_read(rows, summary)
    progress.end()
    return {
        "model": {"path": str(model.path), "key": model.key, "seed": model.seed},
        "data": model.fingerprint,
        "raw": [str(source.path) for source in rows.sources],
        "out": None if target is None else str(target),
        **summary.result(),
    }


def _logits(model: TrainedModel, block: EncodedRows, size: int) -> torch.Tensor:
    dense, ids = torch.from_numpy(block.dense), torch.from_numpy(block.ids)
    parts = [model.logits(dense[start : start + size], ids[start : start + size]) for start in range(0, len(ids), size)]
    labels = (model.schema.n_labels,) if model.schema.labels else ()
    return torch.cat(parts).float().cpu() if parts else torch.zeros(0, *labels)


class _Summary:
    def __init__(self, labelled: bool, weighted: bool, schema: Schema) -> None:
        self.weighted, self.labels = weighted, schema.labels
        self.rows = self.rejects = self.unlabelled = self.unweighted = 0
        self.predicted = np.zeros(schema.n_labels)
        self.first_bad: list[dict[str, Any]] = []
        self.metrics = metrics_of(schema) if labelled else None

    def add(self, block: EncodedRows, logits: torch.Tensor) -> None:
        for fault in block.bad[: SHOWN_REJECTS - len(self.first_bad)]:
            self.first_bad.append({"row": self.rows + fault.line, "reason": _reason(fault)})
        self.rows += block.lines
        self.rejects += len(block.bad)
        self.predicted += logits.double().sigmoid().reshape(len(logits), len(self.predicted)).sum(0).numpy()
        if self.metrics is None:
            return
        label = torch.full_like(logits, torch.nan) if block.label is None else torch.from_numpy(block.label)
        known = ~label.isnan() if label.dim() == 1 else ~label.isnan().any(1)
        self.unlabelled += int((~known).sum())
        weight = None
        if self.weighted:
            weight = torch.zeros(len(logits)) if block.weight is None else torch.from_numpy(block.weight)
            self.unweighted += int((known & weight.isnan()).sum())
            known &= ~weight.isnan()
        if bool(known.any()):
            self.metrics.update(logits[known], label[known], None if weight is None else weight[known])

    def result(self) -> dict[str, Any]:
        good = self.rows - self.rejects
        found: dict[str, Any] = {
            "rows": self.rows,
            "predicted": good,
            "rejects": self.rejects,
            "first_rejects": self.first_bad,
            "mean_prediction": float(self.predicted[0]) / good if good else None,
        }
        if self.labels and good:
            means = {label.name: float(total) / good for label, total in zip(self.labels, self.predicted)}
            found["mean_predictions"] = means
        if self.metrics is not None and self.metrics.rows:
            measured = self.metrics.result()
            found |= {name: measured[name] for name in FIGURES}
            if self.labels:
                found["labels"] = {
                    label.name: {name: measured[of_label(name, label.name)] for name in FIGURES}
                    for label in self.labels
                }
            found["reasons"] = self.metrics.reasons()
            found["labelled"] = self.metrics.rows
            found["unlabelled"] = self.unlabelled
            if self.weighted:
                found["weighted"] = True
                found["unweighted"] = self.unweighted
        return found


def _nothing_read(rows: RawEncoder, summary: _Summary) -> DataError:
    path = rows.sources[0].path
    if not summary.rows:
        return DataError(f"{path} has no rows.", "Was the download or copy cut short? Fetch it again.")
    return DataError(
        f"None of the {summary.rows:,} rows of {path} can be read; the first because: {summary.first_bad[0]['reason']}.",
        f"The model was trained on {rows.recipe.name} files; check that --raw names one.",
    )


# The output file


def _target(out: Path, raw: list[Path]) -> Path:
    if out.suffix.lower() not in SUFFIXES:
        raise ConfigError(
            f"--out {out}: predictions are written as .parquet or .csv; {nearest(out.suffix or out.name, SUFFIXES)}",
            f"--out {out.with_suffix('.parquet')}",
        )
    if out.exists() and any(path.exists() and out.samefile(path) for path in raw):
        raise ConfigError(f"--out {out} is the raw file itself.", "Choose another --out.")
    if not out.parent.exists():
        raise ConfigError(f"--out {out}: there is no folder {out.parent}.", f"Make it: mkdir -p {out.parent}")
    make_place(out, "--out")
    return out


def _fields(labelled: bool, names: tuple[str, ...]) -> pa.Schema:
    ends = [f"_{name}" for name in names] or [""]
    probabilities = [(f"probability{end}", pa.float32()) for end in ends]
    labels = [(f"label{end}", pa.int8()) for end in ends] if labelled else []
    return pa.schema([("row", pa.int64()), *probabilities, *labels, ("reason", pa.string())])


def _table(block: EncodedRows, probability: np.ndarray, first_row: int, fields: pa.Schema) -> pa.Table:
    """One row per raw row of the block."""
    empty = np.ones(block.lines, dtype=bool)
    empty[block.line] = False
    columns = [pa.array(np.arange(first_row, first_row + block.lines))]
    each = (probability if probability.ndim == 2 else probability[:, None]).T
    for one in each:
        filled = np.zeros(block.lines, dtype=np.float32)
        filled[block.line] = one
        columns.append(pa.array(filled, mask=empty))
    if len(fields) > 2 + len(each):
        known = np.full((len(each), len(block.line)), np.nan, dtype=np.float32)
        if block.label is not None:
            known = block.label.reshape(len(block.line), len(each)).T
        for one in known:
            label = np.full(block.lines, np.nan, dtype=np.float32)
            label[block.line] = one
            columns.append(pa.array(np.nan_to_num(label).astype(np.int8), mask=np.isnan(label)))
    reasons: list[str | None] = [None] * block.lines
    for fault in block.bad:
        reasons[fault.line] = _reason(fault)
    columns.append(pa.array(reasons, pa.string()))
    return pa.table(columns, schema=fields)


def _reason(fault: Any) -> str:
    where = f"column {fault.column}: " if fault.column else ""
    return f"{where}{fault.reason} ({fault.text[:80]!r})"


@contextmanager
def _writer(target: Path | None, fields: pa.Schema) -> Iterator[Any]:
    """Gives a function that takes tables; the file appears under its name when everything is in it."""
    if target is None:
        yield lambda table: None
        return
    part = part_of(target)
    try:
        make = pa_csv.CSVWriter if target.suffix.lower() == ".csv" else pq.ParquetWriter
        with make(part, fields) as writer:
            yield lambda table: writer.write_table(table)
        os.replace(part, target)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EACCES, errno.EROFS):
            raise DataError(
                f"{target} cannot be written: {error.strerror or error}.", "Choose another --out."
            ) from None
        raise
