"""`recnas verify DIR`: is everything in a folder what was written there? For runs, prepared data and exports, and what is in them.

Every file is read and compared with its checksum; `replay` also computes one figure again and compares it with the one that
was written down.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from recnas.data.prepared import SIGNATURE, PreparedData
from recnas.data.rolling import RollingData
from recnas.errors import DataError, RecnasError, RunError
from recnas.files import read_json, sha256_file
from recnas.runs.checks import has_check
from recnas.runs.folder import RunDir
from recnas.runs.layout import LEDGER, MANIFEST
from recnas.runs.ledger import Ledger
from recnas.runs.seal import CHECKSUMS, changed
from recnas.serve.exported import MODEL
from recnas.train.checkpoint import candidates, check_whole


@dataclass
class Report:
    """What was looked at, and what is wrong with it, by path."""

    path: str
    kind: str  # run, data, export
    checked: int = 0  # files
    faults: list[str] = field(default_factory=list)
    replayed: list[str] = field(default_factory=list)

    @property
    def well(self) -> bool:
        return not self.faults

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "well": self.well}

    def look(self, path: Path, *, files: int = 1) -> Looking:
        return Looking(self, path, files)


class Looking:
    """Around a check: a fault of the files is noted, one of the machine goes on up."""

    def __init__(self, report: Report, path: Path, files: int) -> None:
        self.report, self.path, self.files = report, path, files

    def __enter__(self) -> None:
        self.report.checked += self.files

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, (RecnasError, FileNotFoundError, NotADirectoryError)):
            what = error.what if isinstance(error, RecnasError) else f"{error.filename} is missing"
            self.report.faults.append(what if str(self.path) in what else f"{self.path}: {what}")
            return True
        return False


def verify(path: Path | str, replay: bool = False) -> Report:
    """Raises: RunError if the folder is nothing that recnas writes."""
    path = Path(path)
    report = Report(str(path), kind_of(path))
    if report.kind == "data":
        _data(report, path, replay)
    elif report.kind == "export":
        _export(report, path)
    else:
        _run(report, path, replay)
    return report


def kind_of(path: Path) -> str:
    if (path / MODEL).exists() and not (path / MANIFEST).exists():
        return "export"
    if (path / MANIFEST).exists():
        try:
            manifest = read_json(path / MANIFEST)
        except ValueError:
            manifest = None
        return "data" if isinstance(manifest, dict) and "kind" not in manifest and "fingerprint" in manifest else "run"
    raise RunError(
        f"{path} is neither a run, nor prepared data, nor an export: it has no {MANIFEST} and no {MODEL}.",
        "Name a folder that a recnas command wrote with --out.",
    )


def _data(report: Report, path: Path, replay: bool) -> None:
    with report.look(path):
        rolling = RollingData.find(path)
        if rolling is not None:
            for origin in rolling.origins:
                _data(report, origin.path, replay)
            return
    with report.look(path):
        data = PreparedData.open(path)
        report.checked += len(data.manifest["checksums"])
        report.faults += [f"{path}/{fault}" for fault in data.verify()]
        if replay and report.well and not data.weighted:
            split = max(("train", "valid", "test"), key=data.rows)
            label = data.array(split, "label").reshape(data.rows(split), -1)[:, 0]
            rate = float(label.astype("int64").sum() / data.rows(split))
            _compare(report, f"click rate of {split}", rate, data.manifest["click_rate"][split])


def _export(report: Report, path: Path) -> None:
    with report.look(path / MODEL):
        try:
            model = read_json(path / MODEL)
        except ValueError:
            model = None
        if not isinstance(model, dict) or not has_check(model) or not isinstance(model.get("files"), dict):
            raise RunError("its content does not have its checksum.")
        there = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
        for name in sorted(there - set(model["files"]) - {MODEL} - {name for name in there if name.startswith(".")}):
            if name != SIGNATURE and "__pycache__" not in name:
                report.faults.append(f"{path / name}: not written by recnas")
        for name, digest in model["files"].items():
            with report.look(path / name):
                if sha256_file(path / name) != digest:
                    raise RunError("changed since it was exported.")


def run_folders(path: Path) -> Iterator[Path]:
    """A run and the runs in it."""
    for parent, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if MANIFEST in files:
            yield Path(parent)


def checkpoint_folders(path: Path) -> Iterator[Path]:
    for parent, folders, _ in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if candidates(Path(parent)):
            yield Path(parent)


def _run(report: Report, path: Path, replay: bool) -> None:
    for folder in run_folders(path):
        with report.look(folder / MANIFEST):
            RunDir.open(folder).manifest()
        if (folder / LEDGER).exists():
            with report.look(folder / LEDGER):
                Ledger(folder / LEDGER).read()
        with report.look(folder / CHECKSUMS, files=0):
            for name in changed(folder):
                report.faults.append(f"{folder / name} is not what it was when the run ended.")
    for file in sorted(path.rglob("*.jsonl")):
        if file.name != LEDGER:
            with report.look(file):
                Ledger(file).read()
    for folder in checkpoint_folders(path):
        for checkpoint in candidates(folder):
            with report.look(checkpoint, files=2):
                check_whole(checkpoint)
    if replay and report.well:
        with report.look(path, files=0):
            _replay(report, path)


def _replay(report: Report, path: Path) -> None:
    """The validation log loss of a trained model, or of the test split for one that was trained on validation too."""
    from recnas.serve.load import load_trained
    from recnas.train.evaluate import evaluate

    try:
        model = load_trained(path)
        data = model.data()
    except (RunError, DataError) as error:
        report.replayed.append(f"nothing: {error.what}")
        return
    split = next(iter(model.metrics))
    found = evaluate(model.network, cast(Any, model.tables), data, split, batch_size=model.settings.eval_batch_size)
    _compare(report, f"log loss of {split}, seed {model.seed}", found["logloss"], model.metrics[split]["logloss"])


def _compare(report: Report, what: str, found: Any, written: Any) -> None:
    report.replayed.append(f"{what}: {found:.6g}, written down as {written:.6g}")
    if abs(found - written) > 1e-5 * max(1.0, abs(written)):  # another machine rounds otherwise
        report.faults.append(f"{report.path}: {report.replayed[-1]}")
