from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from recnas import files
from recnas.cli.main import main
from recnas.errors import RunError
from recnas.files import machine_fault, make_folder, make_place, read_json, sha256_file, write_text
from recnas.runs.folder import FolderLock, RunDir


def test_a_file_in_the_way_is_named(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"notes\.txt is a file, not a folder\."):
        RunDir.create(tmp_path / "notes.txt", "train")
    with pytest.raises(
        RunError, match=r"notes\.txt is a file, not a folder, so there can be no folder .*notes\.txt/a/run"
    ):
        RunDir.create(tmp_path / "notes.txt" / "a" / "run", "train")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_place_where_no_folder_can_be_made_is_one_sentence():
    with pytest.raises(RunError, match="The folder /proc/recnas/run cannot be made"):
        make_folder(Path("/proc/recnas/run"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_others_is_named(tmp_path: Path):
    (tmp_path / "theirs").mkdir(mode=0o555)
    with pytest.raises(RunError, match="theirs is a folder that you may not write to"):
        RunDir.create(tmp_path / "theirs" / "run", "train")


def test_a_file_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path, capsys):
    (tmp_path / "file").write_text("")
    for suffix, command in (
        (".svg", ["draw", "341311", "-o"]),
        (".yaml", ["datasets", "cp", "csv"]),
        (".yaml", ["configs", "cp", "synthetic/laptop"]),
    ):
        assert main([*command, str(tmp_path / "file" / f"x{suffix}")]) == 2
        assert "file is a file, not a folder" in capsys.readouterr().err
        (tmp_path / f"x{suffix}").mkdir(exist_ok=True)
        assert main([*command, str(tmp_path / f"x{suffix}")]) == 2
        capsys.readouterr()
    with pytest.raises(RunError, match=r"x\.svg is a folder, and this writes a file"):
        make_place(tmp_path / "x.svg")
    with pytest.raises(RunError, match="The folder /proc/recnas cannot be made"), FolderLock(Path("/proc/recnas")):
        pass


def test_only_faults_of_the_machine_are_taken_for_such():
    said = machine_fault(OSError(errno.ENOSPC, "No space left on device", "runs/a/ledger.jsonl"))
    assert said is not None
    assert "runs/a/ledger.jsonl: No space left on device" in said
    for number in (errno.EIO, errno.EFBIG, errno.EMFILE, errno.EROFS, errno.ENOTDIR, errno.EISDIR):
        assert os.strerror(number) in (machine_fault(OSError(number, "", "x")) or "")
    assert machine_fault(FileNotFoundError(errno.ENOENT, "No such file or directory", "x")) is None
    assert machine_fault(ValueError("12 rows")) is None
    assert machine_fault(RuntimeError("the widths differ (5)")) is None
    assert machine_fault(RunError("[Errno 5]")) is None


def test_faults_of_the_machine_are_found_in_what_libraries_say():
    for said in (
        "SafetensorError('Error while deserializing: I/O error: Input/output error (os error 5)')",
        "[Errno 5] Error reading bytes from file. Detail: [errno 5] Input/output error",
        "unable to open file </runs/a/tensors.safetensors> in read-only mode: Input/output error (5)",
    ):
        assert machine_fault(RuntimeError(said)) == (
            "Input/output error. Nothing that was finished is lost; the same command continues once this is mended."
        )
    assert "Not enough memory: Unable to allocate 5 TiB" in (
        machine_fault(MemoryError("Unable to allocate 5 TiB")) or ""
    )


def test_the_names_of_new_folders_are_forced_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What is written into them is; a power cut would else leave it without a way to it."""
    forced: list[Path] = []
    monkeypatch.setattr(files, "fsync_folder", forced.append)
    write_text(tmp_path / "a" / "b" / "file", "x")
    assert forced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    write_text(tmp_path / "a" / "b" / "other", "x")
    assert forced[3:] == [tmp_path / "a" / "b"]


def test_checksums_are_made_of_files_only(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero"), tmp_path):
        with pytest.raises((RunError, IsADirectoryError)):
            sha256_file(path)


def test_json_is_read_from_files_of_bounded_size_only(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(RunError, match="not a file that can be read"):
        read_json(tmp_path / "fifo")
    with pytest.raises(RunError, match="not a file that can be read"):
        read_json(Path("/dev/zero"))
    (tmp_path / "a").write_bytes(b"[1, 2, 3]")
    with pytest.raises(RunError, match="has 9 bytes"):
        read_json(tmp_path / "a", most=8)
    for text in (b"\xff", b"[" * 200_000, b"[" + b"1" * 10_000 + b"]", b"[NaN]", b"[Infinity]"):
        (tmp_path / "a").write_bytes(text)
        with pytest.raises(ValueError):
            read_json(tmp_path / "a")


def test_a_write_replaces_a_link_and_leaves_alone_what_it_led_to(tmp_path: Path):
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "best.json").symlink_to(tmp_path / "victim")
    write_text(tmp_path / "best.json", "new")
    assert (tmp_path / "victim").read_text() == "mine"
    assert (tmp_path / "best.json").read_text() == "new"
    assert not (tmp_path / "best.json").is_symlink()


def test_commands_say_it_too(criteo_data, tmp_path: Path, capsys):
    (tmp_path / "file").write_text("")
    for command in (
        ["search", "synthetic/laptop", "--data", str(criteo_data.path)],
        ["warmup", "synthetic/warmup", "--data", str(criteo_data.path)],
        ["compare", f"data={criteo_data.path}", "--models", "lr"],
    ):
        for out in (tmp_path / "file", tmp_path / "file" / "run"):
            assert main([*command, "--quiet", "--out", str(out)]) == 2, (command, out)
            assert "is a file, not a folder" in capsys.readouterr().err
