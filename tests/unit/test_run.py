from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recnas.errors import RunError
from recnas.run import FolderLock, Ledger, RunDir, write_atomic


@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5)), max_size=8), st.data()
)
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


def test_damage_in_the_middle_is_an_error(tmp_path: Path):
    path = tmp_path / "ledger.jsonl"
    path.write_text('{"a":1}\nnot json\n{"b":2}\n')
    with pytest.raises(RunError, match="line 2"):
        Ledger(path).read()


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
    with pytest.raises(RunError, match="data was 'abc', now 'xyz'"):
        RunDir.create(tmp_path / "r", "train", seed=1, data="xyz")
    with pytest.raises(RunError, match="not a run directory"):
        RunDir.open(tmp_path)
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    (tmp_path / "r" / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(RunError, match="another version"):
        RunDir.open(tmp_path / "r")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    with pytest.raises(RunError, match="is not a recnas run"):
        RunDir.create(tmp_path / "other", "train")


def test_the_lock_is_free_again_after_a_kill(tmp_path: Path):
    code = f"import time; from pathlib import Path; from recnas.run import FolderLock\nwith FolderLock(Path({str(tmp_path)!r})):\n print('held', flush=True); time.sleep(60)"
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
    assert run.ledger._file is None
    with run.locked():
        run.ledger.append({"event": "two"})
    assert [event["event"] for event in run.ledger.read()] == ["one", "two"]
