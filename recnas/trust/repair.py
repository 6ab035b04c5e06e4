"""`recnas repair RUN`: take out what does not verify, so that the run's own command computes it again. Nothing else is touched.

    ledgers       lines before the first that was changed stay; the whole file is kept beside, as ledger.jsonl.damaged-1
    checkpoints   those that do not verify go; a training goes on from an earlier one, or begins again
    results       files that were changed since the run ended go
    predictions   those that do not verify go

What was computed from something that is gone goes too: the line of a training whose weights are, the result of a warm-up.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recnas.errors import RunError
from recnas.files import read_bytes, write_bytes
from recnas.runs.folder import FolderLock, RunDir
from recnas.runs.layout import LEDGER, RESULT
from recnas.runs.ledger import LARGEST, line_of, read_chain
from recnas.runs.seal import changed, unseal
from recnas.train.checkpoint import candidates, check_whole
from recnas.train.logits import logits_path, read_logits
from recnas.trust.verify import checkpoint_folders, run_folders


def repair(path: Path | str) -> list[str]:
    """What was done, a sentence each; empty if all was well.

    Raises:
        RunError: a manifest is damaged. Without it nobody can tell what the run is.
    """
    path = Path(path)
    RunDir.open(path)
    done: list[str] = []
    with FolderLock(path):
        for folder in run_folders(path):
            RunDir.open(folder)
            done += _results(folder)
        for ledger in sorted(path.rglob("*.jsonl")):
            done += _ledger(ledger)
        for folder in checkpoint_folders(path):
            done += _checkpoints(folder)
        done += _predictions(path)
        for folder in run_folders(path):
            done += _what_follows(folder)
    return done


def _results(folder: Path) -> list[str]:
    try:
        names = changed(folder)
    except RunError:
        unseal(folder)
        return [f"{folder}: the list of checksums was damaged, and is gone"]
    if names:
        unseal(folder)
    names = [name for name in names if not name.endswith(".jsonl")]  # of a ledger, the lines before the damage stay
    for name in names:
        (folder / name).unlink(missing_ok=True)
    return [f"{folder / name} was changed, and is gone" for name in names]


def _ledger(path: Path) -> list[str]:
    data = read_bytes(path, LARGEST)
    lines = read_chain(data)
    if not lines.damaged:
        return []
    number = 1
    while (kept := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    write_bytes(kept, data)
    write_bytes(path, data[: lines.good])
    dropped = data[lines.good :].count(b"\n")
    return [
        f"{path}: the first {len(lines.events):,} lines stay, {dropped:,} were dropped; all are kept in {kept.name}"
    ]


def _checkpoints(folder: Path) -> list[str]:
    done = []
    for checkpoint in candidates(folder):
        try:
            check_whole(checkpoint)
        except RunError:
            shutil.rmtree(checkpoint)
            done.append(f"{checkpoint} did not verify, and is gone")
    return done


def _predictions(path: Path) -> list[str]:
    """Of every training in a run: its own command computes them again."""
    done = []
    for file in sorted(path.rglob("*.npy")):
        try:
            read_logits(file)
        except RunError as error:
            file.unlink()
            done.append(f"{error.what} It is gone")
    return done


def _what_follows(folder: Path) -> list[str]:
    """What says that something is finished which is not there any more."""
    run = RunDir.open(folder)
    manifest = run.manifest()
    kind = manifest["kind"]
    if kind == "warmup" and (folder / RESULT).exists() and not candidates(folder / "supernet"):
        if not manifest["config"]["warmup"]["data_share"]:
            return []
        (folder / RESULT).unlink()
        unseal(folder)
        return [f"{folder}: the warmed weights are gone, so the warm-up has to be done again"]
    if kind != "train":
        return []
    lines = run.ledger.read()
    gone = [line["seed"] for line in lines if not candidates(folder / f"seed-{line['seed']}")]
    lost = [line["seed"] for line in lines if line["seed"] not in gone and not _has_predictions(folder, line)]
    if gone or lost:
        check, text = "", b""
        for line in (line for line in lines if line["seed"] not in (*gone, *lost)):
            written, check = line_of(check, line)
            text += written
        write_bytes(folder / LEDGER, text)
        unseal(folder)
    return [
        *(f"{folder}: the weights of seed {seed} are gone, so it has to be trained again" for seed in gone),
        *(f"{folder}: predictions of seed {seed} are gone, so it has to be evaluated again" for seed in lost),
    ]


def _has_predictions(folder: Path, line: Mapping[str, Any]) -> bool:
    """Runs of earlier versions have none at all."""
    kept = (folder / "predictions").exists()
    return not kept or all(
        logits_path(folder, split, line["seed"]).exists() for split in ("valid", "test") if line.get(split)
    )
