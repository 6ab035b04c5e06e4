"""Signatures: only the right key and the same bytes pass."""

from __future__ import annotations

import builtins
import json
import os
import shutil
from pathlib import Path

import pytest

from recnas.cli.main import main


@pytest.fixture
def data(criteo_data, tmp_path: Path) -> Path:
    return Path(shutil.copytree(criteo_data.path, tmp_path / "data"))


def test_only_the_right_key_and_the_same_bytes_pass(data: Path, tmp_path: Path, capsys):
    pytest.importorskip("cryptography")
    keys = [tmp_path / name for name in ("team.key", "other.key")]
    for key in keys:
        assert main(["sign", "--new-key", str(key)]) == 0
        assert os.stat(key).st_mode & 0o777 == 0o600
    assert main(["sign", "--new-key", str(keys[0])]) == 2, "keys are never overwritten"
    check = ["verify", str(data), "--key", f"{keys[0]}.pub"]
    assert main(check) == 2
    assert "is not signed" in capsys.readouterr().err
    assert main(["sign", str(data), "--key", str(keys[0])]) == 0
    assert main(check) == 0
    assert main(["verify", str(data), "--key", f"{keys[1]}.pub"]) == 2
    assert "was not signed with" in capsys.readouterr().err
    manifest = json.loads((data / "manifest.json").read_text())
    (data / "manifest.json").write_text(json.dumps(manifest))  # the same values, other bytes
    assert main(check) == 2
    signature = json.loads((data / "signature.json").read_text())
    for broken in ({}, [], signature | {"signature": "zz"}, signature | {"signature": "00" * 64}):
        (data / "signature.json").write_text(json.dumps(broken))
        assert main(check) == 2
    for wrong in (["sign", str(data), "--key", f"{keys[0]}.pub"], ["verify", str(data), "--key", str(keys[0])],
                  ["verify", str(data), "--key", str(tmp_path / "none")], ["sign", str(data)]):  # fmt: skip
        assert main(wrong) == 2


def test_what_is_damaged_is_not_signed(data: Path, tmp_path: Path, capsys):
    pytest.importorskip("cryptography")
    assert main(["sign", "--new-key", str(tmp_path / "k")]) == 0
    (data / "train.parquet").write_bytes(b"")
    assert main(["sign", str(data), "--key", str(tmp_path / "k")]) == 2
    assert "is not signed: " in capsys.readouterr().err


def test_without_the_library_it_says_what_to_install(data: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    real = builtins.__import__

    def without(name: str, *args, **kwargs):
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    assert main(["sign", str(data), "--key", "k"]) == 2
    assert "pip install cryptography" in capsys.readouterr().err
