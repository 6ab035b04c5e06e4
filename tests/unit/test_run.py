from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recnas.errors import RunError
from recnas.files import write_atomic
from recnas.runs.folder import FolderLock, RunDir
from recnas.runs.identity import data_facts
from recnas.runs.ledger import Ledger


@given(st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5)), max_size=8), st.data())
def test_a_torn_last_line_is_dropped_and_the_rest_stays(tmp_path_factory, events, data):
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    ledger = Ledger(path)
    for event in events:
        ledger.append(event)
    ledger.close()
    whole = path.read_bytes() if path.exists() else b""
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")
    assert Ledger(path).read() == events[:kept]
    again = Ledger(path)
    again.append({"after": 1})
    again.close()
    assert Ledger(path).read() == [*events[:kept], {"after": 1}]


def small_ledger(path: Path, lines: int = 4) -> bytes:
    ledger = Ledger(path)
    for number in range(lines):
        ledger.append({"event": "candidate", "index": number, "value": 0.25 + number} if number else {})
    ledger.close()
    return path.read_bytes()


def test_every_changed_byte_of_a_ledger_is_noticed(tmp_path: Path):
    path = tmp_path / "ledger.jsonl"
    whole = small_ledger(path)
    for place in range(len(whole)):
        for changed in (whole[place] ^ 1, whole[place] ^ 0x80, ord("\n"), ord("7")):
            if changed == whole[place]:
                continue
            path.write_bytes(whole[:place] + bytes([changed]) + whole[place + 1 :])
            if place == len(whole) - 1:  # without its end the last line was cut short
                assert len(Ledger(path).read()) == 3
                continue
            with pytest.raises(RunError, match=r"was changed or damaged since[^$]*recnas repair"):
                Ledger(path).read()


@pytest.mark.parametrize(
    "edit", [lambda a: [a[0], *a[2:]], lambda a: [a[1], a[0], *a[2:]], lambda a: [a[0], a[0], *a[1:]]]
)
def test_lines_taken_out_moved_or_doubled_are_noticed(tmp_path: Path, edit):
    path = tmp_path / "ledger.jsonl"
    lines = small_ledger(path).splitlines(keepends=True)
    path.write_bytes(b"".join(edit(lines)))
    with pytest.raises(RunError, match="line"):
        Ledger(path).read()


def test_a_byte_that_became_the_end_of_a_line_elsewhere_is_noticed(tmp_path: Path):
    """Readers that end lines at \\r too took such a line for one cut short, and dropped all after it."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for number in range(4):
        ledger.append({"event": "a-b", "number": number})
    ledger.close()
    whole = (tmp_path / "ledger.jsonl").read_bytes()
    for place in range(len(whole) - 1):
        for byte in (b"\r", b"\x0b", b"\x0c", b"\x1c", b"\x85"):
            (tmp_path / "ledger.jsonl").write_bytes(whole[:place] + byte + whole[place + 1 :])
            if b"\n" in whole[place : place + 1]:
                continue
            with pytest.raises(RunError, match="is not what was written"):
                ledger.read()


def test_a_ledger_that_is_no_file_neither_hangs_nor_fills_memory(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("fifo", "zero"):
        with pytest.raises(RunError, match="is not a file that can be read"):
            Ledger(tmp_path / name).read()


def test_a_line_that_does_not_fit_on_the_disk_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "ledger.jsonl"
    whole, real, left = small_ledger(path), os.write, [10]

    def full(handle: int, data) -> int:
        if left[0] <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= 10
        return real(handle, bytes(data)[:10])

    ledger = Ledger(path)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=str(path)):
        ledger.append({"event": "one that is too long"})
    monkeypatch.setattr(os, "write", real)
    ledger.append({"event": "after"})
    ledger.close()
    assert path.read_bytes().startswith(whole)
    assert Ledger(path).read()[4:] == [{"event": "after"}]


def test_nan_is_refused_in_the_ledger(tmp_path: Path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        Ledger(tmp_path / "l").append({"loss": float("nan")})


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "a.json"
    path.write_text("old")

    def fails(file):
        file.write(b"new")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_atomic(path, fails)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_the_same_run_opens_again_and_another_is_refused(tmp_path: Path):
    RunDir.create(tmp_path / "r", "train", seed=1, data="abc")
    assert RunDir.create(tmp_path / "r", "train", seed=1, data="abc").manifest()["seed"] == 1
    with pytest.raises(RunError, match="data was abc, now xyz"):
        RunDir.create(tmp_path / "r", "train", seed=1, data="xyz")
    with pytest.raises(RunError, match="not a run directory"):
        RunDir.open(tmp_path)
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    (tmp_path / "r" / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(RunError, match="another version"):
        RunDir.open(tmp_path / "r")
    for other in ({**manifest, "seed": 2}, {**manifest, "more": 1}, {"format": 1, "kind": "train"}, [], "text"):
        (tmp_path / "r" / "manifest.json").write_text(json.dumps(other))
        with pytest.raises(RunError, match="is damaged or was changed"):
            RunDir.open(tmp_path / "r")
    (tmp_path / "r" / "manifest.json").write_text('{"format": 1, "x": ' + "[" * 100_000)
    with pytest.raises(RunError, match="is damaged or was changed"):
        RunDir.open(tmp_path / "r")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    with pytest.raises(RunError, match="is not a recnas run"):
        RunDir.create(tmp_path / "other", "train")


def test_of_two_that_begin_at_once_one_is_refused_or_both_are_the_same(tmp_path: Path):
    """Neither ever runs under the other's manifest."""
    for number in range(40):
        barrier, seen = threading.Barrier(2), dict[int, object]()

        def begin(seed: int, path=tmp_path / str(number), barrier=barrier, seen=seen) -> None:
            barrier.wait()
            try:
                seen[seed] = RunDir.create(path, "train", seed=seed).manifest()["seed"]
            except RunError as error:
                seen[seed] = error

        threads = [threading.Thread(target=begin, args=(seed,)) for seed in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(isinstance(found, RunError) or found == seed for seed, found in seen.items()), seen
        assert any(found == seed for seed, found in seen.items())


@pytest.mark.parametrize("name", [".lock", "result.json", "seed-0"])
def test_nothing_is_written_through_a_link(tmp_path: Path, name: str):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "elsewhere").mkdir()
    RunDir.create(tmp_path / "run", "train")
    (tmp_path / "run" / name).unlink(missing_ok=True)
    (tmp_path / "run" / name).symlink_to(tmp_path / "elsewhere" if name == "seed-0" else victim)
    with pytest.raises(RunError, match=r"is a link to .*[^$]*Remove it: rm"), RunDir(tmp_path / "run").locked():
        pass
    assert victim.read_text() == "mine"
    os.mkfifo(tmp_path / "pipe.lock")
    (tmp_path / "run" / name).unlink()
    os.rename(tmp_path / "pipe.lock", tmp_path / "run" / ".lock")
    with pytest.raises(RunError, match="is a pipe or a device"), RunDir(tmp_path / "run").locked():
        pass


def test_what_killed_writers_left_is_gone_when_the_next_one_begins(tmp_path: Path):
    (tmp_path / "run" / "seed-0").mkdir(parents=True)
    for left in (".manifest.json.part-0a1b2c", "seed-0/.x.part-12", "seed-0/.step-000001.old-77/tensors.safetensors"):
        (tmp_path / "run" / left).parent.mkdir(exist_ok=True)
        (tmp_path / "run" / left).write_text("half")
    (tmp_path / "run" / "seed-0").rename(tmp_path / "kept")
    RunDir.create(tmp_path / "run", "train")
    (tmp_path / "kept").rename(tmp_path / "run" / "seed-0")
    with RunDir(tmp_path / "run").locked():
        pass
    assert {path.name for path in (tmp_path / "run").rglob("*")} == {
        ".lock",
        "checksums.json",
        "manifest.json",
        "seed-0",
    }


@pytest.mark.spawns
def test_the_lock_is_free_again_after_a_kill(tmp_path: Path):
    code = f"import time; from pathlib import Path; from recnas.runs.folder import FolderLock\nwith FolderLock(Path({str(tmp_path)!r})):\n print('held', flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    with pytest.raises(RunError, match=f"pid {child.pid}"), FolderLock(tmp_path):
        pass
    child.kill()
    child.wait()
    child.stdout.close()
    with FolderLock(tmp_path):
        pass


def test_an_error_closes_the_ledger(tmp_path: Path):
    run = RunDir.create(tmp_path / "run", "search")

    def half_way() -> None:
        with run.locked():
            run.ledger.append({"event": "one"})
            raise ValueError("half-way")

    with pytest.raises(ValueError, match="half-way"):
        half_way()
    assert run.ledger._handle is None
    with run.locked():
        run.ledger.append({"event": "two"})
    assert [event["event"] for event in run.ledger.read()] == ["one", "two"]


def test_one_changed_setting_is_named_with_both_values_and_nothing_else(tmp_path: Path):
    config = {
        "data": "ads",
        "final": {"candidates": 3, "train": {"lr": 0.1, "checkpoint_seconds": 60}},
        "search": {"method": "random"},
    }
    RunDir.create(tmp_path / "r", "search", config=config)
    changed = {**config, "final": {"candidates": 2, "train": {"lr": 0.1, "checkpoint_seconds": 60}}}
    with pytest.raises(RunError) as caught:
        RunDir.create(tmp_path / "r", "search", config=changed)
    assert caught.value.what == f"{tmp_path / 'r'} holds another run: final.candidates was 3, now 2."
    moved = {
        **config,
        "data": "/elsewhere/ads",
        "final": {"candidates": 3, "train": {"lr": 0.1, "checkpoint_seconds": 5}},
    }
    RunDir.create(tmp_path / "r", "search", config=moved)  # neither changes a figure
    with pytest.raises(RunError, match=r"final\.extra was not there, now true"):
        RunDir.create(tmp_path / "r", "search", config={**config, "final": {**config["final"], "extra": True}})
    with pytest.raises(RunError, match=r"search\.method was random, now not there"):
        RunDir.create(tmp_path / "r", "search", config={**config, "search": {}})


def test_long_values_are_not_printed(tmp_path: Path):
    RunDir.create(tmp_path / "r", "train", arch={"blocks": [{"width": n} for n in range(50)]})
    with pytest.raises(RunError) as caught:
        RunDir.create(tmp_path / "r", "train", arch={"blocks": []})
    assert caught.value.what.endswith("holds another run: arch.blocks is another one.")


def prepared(folder: Path, fingerprint: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "fingerprint": fingerprint}))
    return folder


def test_data_are_found_from_anywhere_by_their_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    work = tmp_path / "work"
    prepared(work / "ads", "good")
    monkeypatch.chdir(work)
    RunDir.create("runs/a", "train", data=data_facts("ads", "good", "runs/a"))
    assert RunDir.open("runs/a").data_path() == Path("ads")  # as it was typed
    prepared(tmp_path / "elsewhere" / "ads", "bad")  # a decoy of the same name
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert RunDir.open(work / "runs" / "a").data_path() == work / "ads"
    (tmp_path / "moved").mkdir()
    (work / "ads").rename(tmp_path / "moved" / "ads")
    (work / "runs").rename(tmp_path / "moved" / "runs")  # both together: only the way between them stays
    found = RunDir.open(tmp_path / "moved" / "runs" / "a").data_path()
    assert found.resolve() == tmp_path / "moved" / "ads"
    RunDir.create(tmp_path / "moved/runs/a", "train", data=data_facts(found, "good", tmp_path / "moved/runs/a"))
    with pytest.raises(RunError, match=r"the data were ads \(fingerprint good\), now ads \(fingerprint bad\)"):
        RunDir.create(tmp_path / "moved/runs/a", "train", data=data_facts("ads", "bad", "."))


def test_what_is_no_run_is_said_with_a_next_step(tmp_path: Path):
    data = prepared(tmp_path / "ads", "good")
    with pytest.raises(RunError, match="is a prepared data set, not a run"):
        RunDir.open(data)
    RunDir.create(tmp_path / "runs" / "first", "compare")
    with pytest.raises(RunError, match="is the folder of a compare run, not of a search run"):
        RunDir.open(tmp_path / "runs" / "first").check("search")
    with pytest.raises(RunError, match=r"There is no run directory .*runs/frist\.[^$]*Did you mean .*runs/first\?"):
        RunDir.open(tmp_path / "runs" / "frist")
    with pytest.raises(RunError, match=r"There is no run directory .*[^$]*recnas search CONFIG --out RUN"):
        RunDir.open(tmp_path / "none")
    with pytest.raises(RunError, match=r"it has no manifest\.json\.[^$]*It holds: .*runs/first"):
        RunDir.open(tmp_path / "runs")
    with pytest.raises(RunError, match=r"is a file, and a run directory is needed"):
        RunDir.open(data / "manifest.json")
