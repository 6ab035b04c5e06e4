"""What a power cut leaves of a preparation is made again; what was changed in finished data is noticed when it is used."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from recnas.data import remembered
from recnas.data.prepare import stages
from recnas.data.prepare.prepare import prepare
from recnas.data.prepared import PreparedData
from recnas.data.raw.encoder import vocabulary_file
from recnas.errors import DataError


@pytest.fixture
def unfinished(criteo_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A preparation that stopped before its last step."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stages.Finisher, "run", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare("criteo", [criteo_file], tmp_path / "d", memory=256 << 20)
    return tmp_path / "d"


def with_other_rows(chunk: bytes) -> bytes:
    """A digit of the header's count of rows."""
    at = chunk.index(b'"rows": ') + 8
    return chunk[:at] + (b"1" if chunk[at : at + 1] != b"1" else b"2") + chunk[at + 1 :]


def with_other_clicks(journal: bytes) -> bytes:
    at = journal.index(b'"clicks":') + 9
    return journal[:at] + (b"1" if journal[at : at + 1] != b"1" else b"2") + journal[at + 1 :]


CUTS = {
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "half": lambda data: data[: len(data) // 2],
    "start": lambda data: data[:7],
    "length": lambda data: data[:8] + b"\xff" * 8 + data[16:],
}


@pytest.mark.parametrize("how", [*CUTS, "header", "journal", "journal cut", "journal garbage"])
def test_what_a_power_cut_leaves_of_a_preparation_is_made_again(
    unfinished: Path, criteo_file: Path, criteo_data, how: str
):
    chunk, journal = next((unfinished / ".work" / "chunks").iterdir()), unfinished / ".work" / "encoded.jsonl"
    if how == "journal":
        journal.write_bytes(with_other_clicks(journal.read_bytes()))
    elif how == "journal cut":
        journal.write_bytes(journal.read_bytes()[:-20])
    elif how == "journal garbage":
        journal.write_bytes(b"\xff\0[]\n{}\n")
    else:
        chunk.write_bytes((CUTS | {"header": with_other_rows})[how](chunk.read_bytes()))
    again = prepare("criteo", [criteo_file], unfinished)
    whole = prepare("criteo", [criteo_file], unfinished.with_name("whole"))
    assert again.fingerprint == whole.fingerprint
    assert {key: again.manifest[key] for key in ("click_rate", "unknown", "missing")} == {
        key: whole.manifest[key] for key in ("click_rate", "unknown", "missing")
    }
    assert not (unfinished / ".work").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"block_bytes": 1}', "[" * 100_000])
def test_a_plan_that_is_damaged_is_said_with_what_to_type(unfinished: Path, criteo_file: Path, text: str):
    (unfinished / ".work" / "plan.json").write_text(text)
    with pytest.raises(DataError, match=r"plan\.json is damaged[^$]*rm -r .*\.work"):
        prepare("criteo", [criteo_file], unfinished)


@pytest.mark.parametrize("text", ["{", None])
def test_what_is_said_to_be_removed_is_all_that_stands_in_the_way(
    unfinished: Path, criteo_file: Path, text: str | None
):
    """A kill between the last moves leaves some of the data outside of `.work`; without its plan nobody goes on from there."""
    (unfinished / ".work" / "done" / "train").rename(unfinished / "train")
    plan = unfinished / ".work" / "plan.json"
    plan.unlink() if text is None else plan.write_text(text)
    with pytest.raises(DataError, match=f"start over: rm -r {unfinished}$|Start over: rm -r {unfinished}$") as caught:
        prepare("criteo", [criteo_file], unfinished)
    shutil.rmtree(str(caught.value).split()[-1].rstrip("."))
    assert prepare("criteo", [criteo_file], unfinished).verify() == []


def test_work_that_a_kill_left_beside_finished_data_goes(criteo_file: Path, tmp_path: Path):
    done = prepare("criteo", [criteo_file], tmp_path / "d")
    (done.path / ".work" / "chunks").mkdir(parents=True)
    assert prepare("criteo", [criteo_file], tmp_path / "d").fingerprint == done.fingerprint
    assert not (done.path / ".work").exists()


@pytest.fixture
def a_copy(criteo_data, tmp_path: Path) -> Path:
    return Path(shutil.copytree(criteo_data.path, tmp_path / "copy"))


def use_all(path: Path) -> None:
    data = PreparedData.open(path)
    for split in ("train", "valid", "test"):
        for array in data.arrays:
            data.array(split, array)
    for field in data.schema.sparse:
        vocabulary_file(data, field.name)


@pytest.mark.parametrize(
    "name", ["manifest.json", "schema.json", "train/ids.i32", "test/label.i8", "valid/dense.f32", "vocab/C3.parquet"]
)
def test_a_changed_byte_of_data_is_noticed_when_they_are_used(a_copy: Path, name: str):
    use_all(a_copy)
    content = bytearray((a_copy / name).read_bytes())
    for place in (len(content) // 3, len(content) - 2):
        content[place] ^= 1
    (a_copy / name).write_bytes(content)
    with pytest.raises(DataError, match=r"(changed|cannot be read|damaged)"):
        use_all(a_copy)


@pytest.mark.parametrize(
    "change", [{"fingerprint": "0" * 64}, {"checksums": {}}, {"rows": {"train": 1}}, {"format": "3"}]
)
def test_a_changed_manifest_is_refused(a_copy: Path, change: dict):
    manifest = json.loads((a_copy / "manifest.json").read_text())
    (a_copy / "manifest.json").write_text(json.dumps(manifest | change))
    with pytest.raises(DataError):
        PreparedData.open(a_copy)


def test_files_are_read_once_and_then_remembered_by_size_and_time(a_copy: Path, monkeypatch: pytest.MonkeyPatch):
    use_all(a_copy)
    read: list[Path] = []
    real = remembered.sha256_file
    monkeypatch.setattr(remembered, "sha256_file", lambda path: read.append(path) or real(path))
    monkeypatch.setattr(remembered, "_seen", {})
    use_all(a_copy)
    assert read == [], "the folder remembers"
    os.utime(a_copy / "train" / "ids.i32")
    use_all(a_copy)
    use_all(a_copy)
    assert read == [a_copy / "train" / "ids.i32"]


def test_files_that_nobody_listed_are_told(a_copy: Path):
    assert PreparedData.open(a_copy).verify() == []
    (a_copy / "train" / "more.f32").write_text("x")
    (a_copy / "vocab" / "C1.parquet").unlink()
    assert PreparedData.open(a_copy).verify() == ["train/more.f32: not written by recnas", "vocab/C1.parquet: missing"]
