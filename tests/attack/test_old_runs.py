"""Folders of every version in `tests/attack/runs`: opened, or refused by name. They are never written anew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from recnas.cli.main import main
from recnas.data.prepared import PreparedData
from recnas.errors import DataError, RunError
from recnas.runs.checks import with_check
from recnas.runs.read import read_run
from recnas.trust.verify import verify
from tests.attack.fuzz import RUNS

FOLDERS = sorted(RUNS.glob("*/*"))
KINDS = {"race": "search", "bench-build": "bench"}


def test_every_kind_is_there():
    assert {path.name for path in RUNS.glob("0.1/*")} == {
        "bench-build",
        "compare",
        "data",
        "race",
        "search",
        "train",
        "warmup",
    }
    assert sum(path.stat().st_size for path in RUNS.rglob("*") if path.is_file()) < 200_000


@pytest.mark.parametrize(
    "folder", [path for path in FOLDERS if path.name != "data"], ids=lambda path: str(path.relative_to(RUNS))
)
def test_a_run_of_an_earlier_version_is_read_and_reported(folder: Path, tmp_path: Path):
    copy = Path(shutil.copytree(folder, tmp_path / folder.name))
    run = read_run(copy)
    assert run.kind == KINDS.get(folder.name, folder.name)
    assert run.lines or run.kind == "warmup"
    assert run.has_result
    assert verify(copy).faults == []
    assert main(["report", str(copy), "-o", str(tmp_path / "r.html")]) == 0
    for broken in (run.path / "manifest.json", run.path / "ledger.jsonl"):
        if broken.exists():
            content = broken.read_bytes()
            broken.write_bytes(content.replace(b"0", b"1", 1))
            with pytest.raises(RunError, match=broken.name):
                read_run(copy)
            broken.write_bytes(content)


@pytest.mark.parametrize(
    "folder", [path for path in FOLDERS if path.name == "data"], ids=lambda path: str(path.relative_to(RUNS))
)
def test_data_of_an_earlier_version_are_whole(folder: Path, tmp_path: Path):
    data = PreparedData.open(shutil.copytree(folder, tmp_path / "data"))  # that they are whole is noted beside them
    assert data.verify() == []
    assert data.rows("train") == len(data.array("train", "label"))


@pytest.mark.parametrize("name", ["train", "data"])
def test_a_later_format_is_refused_by_its_number_or_version(name: str, tmp_path: Path):
    copy = Path(shutil.copytree(RUNS / "0.1" / name, tmp_path / name))
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(with_check(manifest | {"format": 99})))
    with pytest.raises((RunError, DataError), match="another version of recnas"):
        PreparedData.open(copy) if name == "data" else read_run(copy)
