"""Write a trained model for serving, and check it against the model: on encoded rows, and on raw ones.

    DIR/model.pt2 or model.onnx   the program: dense [B, I] and ids [B, F] in, probability [B] out
    DIR/model.json                how raw columns become inputs, where the model comes from, the check
    DIR/vocab/COLUMN.json         values in id order
    DIR/rows.py, DIR/values.py, DIR/transforms.py, DIR/score_row.py   score raw rows without recnas
    DIR/README.md                 what is what, and that the program of a stranger is code

The files as written are loaded again and compared, and score_row.py is run as a user would on raw rows of the
data; if anything differs, nothing is left behind. The folder appears under its name when everything is in it.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recnas.data.prepare.folder import check_folder
from recnas.data.prepared import PreparedData
from recnas.data.raw.encoder import fitted_recipe
from recnas.errors import DataError, RunError
from recnas.files import ensure_folder, fsync_folder, fsync_tree, part_of
from recnas.locks import lock
from recnas.progress import Progress
from recnas.runs.folder import versions
from recnas.serve.check_rows import RawRows, header_line, real_rows, rebuilt_rows
from recnas.serve.int8 import cost, rounded
from recnas.serve.load import TrainedModel, load_trained
from recnas.serve.manifest import describe, write_description, write_programs, write_vocabularies
from recnas.serve.program import Program, check_format, read_program, write_program

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
    int8: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Export the model that `spec` names (see `load_trained`) to the new folder `out`.

    Args:
        to: `pt2` or `onnx`.
        data: the prepared data, if they are not where they were.
        int8: write the tables as 8-bit numbers, and measure what that costs.

    Raises:
        BackendMissing: ONNX was asked for and its packages are not installed.
        RunError: the written program does not agree with the model.
    """
    check_format(to)
    progress = progress or Progress(quiet=True)
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out} exists already.", f"Choose another --out, or remove it: rm -r {out}")
    check_folder(out)
    model = load_trained(spec, data, seed)
    prepared = model.data(data)
    costs = None
    if int8:  # from here on the model is the one with rounded tables, with which everything must agree
        given, model = model, rounded(model)
        costs = cost(given, model, prepared, check_split(prepared))
    ensure_folder(out.parent)
    _sweep_parts(out)
    part = part_of(out)
    part.mkdir()
    lock = _lock(part)  # as long as this process lives, nobody takes it for what a kill left
    try:
        progress.phase("export", 4, "files")
        program = write_program(model, to, part, int8)
        progress.advance(1, "check")
        check = check_program(read_program(program), model, prepared)
        progress.advance(1, "vocabularies")
        write_vocabularies(prepared, part)
        write_programs(part)
        about = describe(model, prepared, program, check, costs)
        write_description(part, about)
        progress.advance(1, "check raw rows")
        check["raw"] = check_raw_rows(part, model, prepared)
        write_description(part, {**about, "versions": versions()})
        fsync_tree(part)
        if out.exists():
            out.rmdir()  # it is empty
        os.rename(part, out)
        fsync_folder(out.parent)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    finally:
        os.close(lock)
    progress.end()
    files = [file for file in out.rglob("*") if file.is_file()]
    return {
        "out": str(out),
        "program": str(out / program.name),
        "model": {"path": str(model.path), "key": model.key, "seed": model.seed},
        "data": model.fingerprint,
        "bytes": sum(file.stat().st_size for file in files),
        "check": check,
        **({} if costs is None else {"int8": costs}),
    }


def check_split(data: PreparedData) -> str:
    """The split whose rows an export is compared on."""
    split = next((name for name in ("valid", "test", "train") if data.rows(name)), None)
    if split is None:
        raise DataError(f"{data.path} has no rows to check the export with.", "Prepare it again.")
    return split


@torch.no_grad()
def check_program(program: Program, model: TrainedModel, data: PreparedData) -> dict[str, Any]:
    """Compare on rows of the validation split; too large a difference is an error."""
    split = check_split(data)
    largest = 0.0
    seen: set[int] = set()
    for rows, dense, ids in _batches(data, split):
        given, expected = program(dense, ids), model.predict(dense, ids).cpu()
        same_shape = tuple(given.shape) == tuple(expected.shape)
        difference = float((given - expected).abs().max()) if same_shape else float("inf")
        if not difference <= LARGEST_DIFFERENCE:  # NaN is a difference too
            raise RunError(
                f"The exported program differs from the model by {difference:.3g} on a batch of {len(ids)} "
                f"{split} rows; {LARGEST_DIFFERENCE:g} is allowed. Nothing was written.",
                "Try the other format (--to pt2 or --to onnx), and please report this: it is a fault of recnas.",
            )
        largest = max(largest, difference)
        seen.update(rows)
    return {
        "max_abs_difference": largest,
        "allowed": LARGEST_DIFFERENCE,
        "split": split,
        "rows": len(seen),
        "batch_sizes": list(BATCH_SIZES),
    }


@torch.no_grad()
def check_raw_rows(folder: Path, model: TrainedModel, data: PreparedData) -> dict[str, Any]:
    """Run the written score_row.py on raw rows, in every form a row may have; a wrong answer is an error."""
    recipe, _ = fitted_recipe(data)
    real, (objects, lines) = real_rows(data), rebuilt_rows(data)
    forms = [form for form in (real, lines, objects) if form is not None]
    header = [header_line(data)] if recipe.header and (real or lines) else []
    given = [*header, *(line for form in forms for line in form.lines)]
    done = subprocess.run(
        [sys.executable, str(folder / "score_row.py")],
        input=("\n".join(given) + "\n").encode("utf-8", "surrogateescape"),
        capture_output=True,
    )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["nothing"]
        raise _not_the_same(f"score_row.py fails on raw rows of {data.path}: {said[-1]}")
    found = np.array([float(text) for text in done.stdout.split()])
    if model.schema.labels and len(found) % model.schema.n_labels == 0:
        found = found.reshape(-1, model.schema.n_labels)
    expected = np.concatenate([_predicted(model, form) for form in forms])
    if found.shape != expected.shape:
        raise _not_the_same(f"score_row.py gave {len(found):,} probabilities for {len(expected):,} rows")
    difference = np.abs(found - expected)
    if not (difference <= LARGEST_DIFFERENCE).all():
        each = np.where(np.isnan(difference), np.inf, difference).reshape(len(given) - len(header), -1)
        worst, label = np.unravel_index(int(each.argmax()), each.shape)
        got, wanted = (some.reshape(each.shape)[worst, label] for some in (found, expected))
        raise _not_the_same(
            f"score_row.py gives {got:.6g} where the model gives {wanted:.6g}, for the row "
            f"{given[len(header) + worst][:300]!r}"
        )
    return {
        "rows": sum(len(form.lines) for form in (real, objects) if form is not None),
        "from_file": len(real.lines) if real else 0,
        "rebuilt": len(objects.lines),
        "max_abs_difference": float(difference.max(initial=0.0)),
    }


def _lock(part: Path) -> int:
    """Raises: BlockingIOError: another process holds it. Other OSErrors: it is no folder."""
    handle = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        lock(handle)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _sweep_parts(out: Path) -> None:
    """Remove what exports to this folder that were killed left beside it; one that is under way holds a lock."""
    for stale in out.parent.glob(f".{glob.escape(out.name)}.part-*"):
        with suppress(OSError):
            os.close(_lock(stale))
            shutil.rmtree(stale, ignore_errors=True)


def _predicted(model: TrainedModel, rows: RawRows) -> np.ndarray:
    if not rows.lines:
        return np.zeros((0, model.schema.n_labels) if model.schema.labels else 0)
    return model.predict(torch.from_numpy(rows.dense), torch.from_numpy(rows.ids)).cpu().double().numpy()


def _not_the_same(what: str) -> RunError:
    return RunError(f"{what}. Nothing was written.", "Please report this: it is a fault of recnas.")


def _batches(data: PreparedData, split: str) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Batches of every size from several places; a small split begins again where it ends."""
    total = data.rows(split)
    dense, ids = data.array(split, "dense"), data.array(split, "ids")
    for size in BATCH_SIZES:
        for place in range(_PLACES):
            rows = (total * place // _PLACES + np.arange(size)) % total
            yield rows.tolist(), torch.from_numpy(dense[rows]), torch.from_numpy(ids[rows].astype(np.int64))
