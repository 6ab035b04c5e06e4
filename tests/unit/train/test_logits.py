from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from recnas.errors import RunError
from recnas.train import logits
from recnas.train.logits import logits_path, read_logits, write_logits

VALUES = np.linspace(-3, 3, 50, dtype=np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    where = logits_path(tmp_path / "run", "test", 0)
    write_logits(where, VALUES.astype(np.float64))
    return where


def test_what_is_written_is_read_here_and_by_numpy(path: Path):
    assert np.array_equal(read_logits(path), VALUES)
    assert np.array_equal(np.load(path), VALUES)


def test_files_without_a_checksum_are_read_too(path: Path):
    np.save(path, VALUES)
    assert np.array_equal(read_logits(path), VALUES)


def test_every_changed_byte_is_noticed(path: Path):
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(RunError, match=r"(damaged|not what was written)[^$]*recnas repair .*run"):
            read_logits(path)
    for length in (0, 5, 100, len(whole) - 40, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(RunError, match=r"recnas repair"):
            read_logits(path)
    path.unlink()
    with pytest.raises(RunError, match="is missing"):
        read_logits(path)


def test_a_full_disk_is_said_as_such(path: Path, monkeypatch: pytest.MonkeyPatch):
    """numpy's own way to a file says "50 requested and 0 written" and not why."""

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(logits, "write_bytes", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_logits(path, VALUES)
    assert caught.value.errno == 28
