"""Write a trained model for serving, and check it against the model on validation rows.

    DIR/model.pt2 or model.onnx   the program: dense [B, I] and ids [B, F] in, probability [B] out
    DIR/model.json                how raw columns become inputs, where the model comes from, the check
    DIR/vocab/COLUMN.json         values in id order
    DIR/score_row.py              an example that scores one raw row without recnas

The file as written is loaded again and compared; if it differs, nothing is left behind. The folder appears
under its name when everything is in it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recnas.data.prepared import PreparedData
from recnas.errors import DataError, RunError
from recnas.jobs.export_example import write_example
from recnas.jobs.export_files import describe, write_vocabularies
from recnas.jobs.export_program import Program, check_format, read_program, write_program
from recnas.jobs.predict_rows import fitted_recipe
from recnas.jobs.trained import TrainedModel, load_trained
from recnas.progress import Progress
from recnas.runs.folder import versions, write_json

LARGEST_DIFFERENCE = 1e-5
BATCH_SIZES = (1, 7, 512)
_PLACES = 4  # of the split, from each of which a batch of every size is taken


def export(
    spec: str,
    to: str,
    out: Path | str,
    *,
    seed: int | None = None,
    data: Path | str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Export the model that `spec` names (see `load_trained`) to the new folder `out`.

    Args:
        to: `pt2` or `onnx`.
        data: the prepared data, if they are not where they were.

    Raises:
        BackendMissing: ONNX was asked for and its packages are not installed.
        RunError: the written program does not agree with the model.
    """
    check_format(to)
    progress = progress or Progress(quiet=True)
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out} exists already.", f"Choose another --out, or remove it: rm -r {out}")
    model = load_trained(spec, data, seed)
    prepared = model.data(data)
    recipe, inputs = fitted_recipe(prepared)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.part-{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        progress.phase("export", 3, "files")
        program = write_program(model, to, part)
        progress.advance(1, "check")
        check = check_program(read_program(program), model, prepared)
        progress.advance(1, "vocabularies")
        write_vocabularies(prepared, inputs, part)
        about = describe(model, recipe, inputs, program, check)
        write_json(part / "model.json", {**about, "versions": versions()})
        write_example(about, to, part)
        if out.exists():
            out.rmdir()  # it is empty
        os.rename(part, out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    progress.end()
    files = [file for file in out.rglob("*") if file.is_file()]
    return {
        "out": str(out),
        "program": str(out / program.name),
        "model": {"path": str(model.path), "key": model.key, "seed": model.seed},
        "data": model.fingerprint,
        "bytes": sum(file.stat().st_size for file in files),
        "check": check,
    }


@torch.no_grad()
def check_program(program: Program, model: TrainedModel, data: PreparedData) -> dict[str, Any]:
    """Compare on rows of the validation split; too large a difference is an error."""
    split = next((name for name in ("valid", "test", "train") if data.rows(name)), None)
    if split is None:
        raise DataError(f"{data.path} has no rows to check the export with.", "Prepare it again.")
    largest, rows = 0.0, 0
    for dense, ids in _batches(data, split):
        given, expected = program(dense, ids), model.predict(dense, ids).cpu()
        same_shape = tuple(given.shape) == tuple(expected.shape)
        difference = float((given - expected).abs().max()) if same_shape else float("inf")
        if not difference <= LARGEST_DIFFERENCE:  # NaN is a difference too
            raise RunError(
                f"The exported program differs from the model by {difference:.3g} on a batch of {len(ids)} "
                f"{split} rows; {LARGEST_DIFFERENCE:g} is allowed. Nothing was written.",
                "Try the other format (--to pt2 or --to onnx), and please report this: it is a fault of recnas.",
            )
        largest, rows = max(largest, difference), rows + len(ids)
    return {
        "max_abs_difference": largest,
        "allowed": LARGEST_DIFFERENCE,
        "split": split,
        "rows": rows,
        "batch_sizes": list(BATCH_SIZES),
    }


def _batches(data: PreparedData, split: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of every size from several places; a small split begins again where it ends."""
    total = data.rows(split)
    dense, ids = data.array(split, "dense"), data.array(split, "ids")
    for size in BATCH_SIZES:
        for place in range(_PLACES):
            rows = (total * place // _PLACES + np.arange(size)) % total
            yield torch.from_numpy(dense[rows]), torch.from_numpy(ids[rows].astype(np.int64))
