from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from recnas.cli.main import COMMANDS, main


def test_every_listed_command_exists_and_explains_itself(capsys):
    for name in COMMANDS:
        with pytest.raises(SystemExit) as caught:
            main([name, "--help"])
        assert caught.value.code == 0
        assert f"usage: recnas {name}" in capsys.readouterr().out


def test_a_mistyped_command_suggests_the_right_one(capsys):
    assert main(["prepre"]) == 2
    assert "did you mean `recnas prepare`" in capsys.readouterr().err


def test_synth_prepare_inspect_from_the_command_line(tmp_path: Path, capsys):
    raw, out = tmp_path / "a.tsv", tmp_path / "d"
    assert main(["synth", "criteo", "--rows", "3k", "--seed", "1", "--out", str(raw), "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 3000
    assert main(["prepare", "criteo", "--raw", str(raw), "--out", str(out), "--json", "--quiet"]) == 0
    prepared = json.loads(capsys.readouterr().out)
    assert main(["inspect", str(out), "--verify", "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert seen["fingerprint"] == prepared["fingerprint"]
    assert seen["verified"] is True
    assert sum(seen["rows"].values()) == seen["rows_in"] == 3000
    assert main(["inspect", str(out)]) == 0
    assert re.search(r"train\s+2,\d\d\d", capsys.readouterr().out)
    (out / "test" / "label.i8").write_bytes(b"\0" * (out / "test" / "label.i8").stat().st_size)
    assert main(["inspect", str(out), "--verify"]) == 2
    assert "test/label.i8: changed" in capsys.readouterr().err


def test_errors_say_what_to_do_and_exit_with_2(tmp_path: Path, capsys):
    assert main(["prepare", "criteo", "--raw", str(tmp_path / "no"), "--out", str(tmp_path / "d")]) == 2
    assert "->" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path)]) == 2
    assert "recnas prepare" in capsys.readouterr().err


def test_our_own_faults_exit_with_1(monkeypatch, capsys):
    import recnas.cli.doctor as doctor

    monkeypatch.setattr(doctor, "run", lambda args: 1 / 0)
    assert main(["doctor"]) == 1
    assert "fault of recnas" in capsys.readouterr().err


def test_interrupt_prints_how_to_continue(monkeypatch, capsys):
    import recnas.cli.inspect as inspect

    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(inspect, "run", interrupted)
    assert main(["inspect", "some folder"]) == 130
    assert "recnas inspect 'some folder'" in capsys.readouterr().err


def test_datasets_list_show_and_copy(tmp_path: Path, capsys):
    assert main(["datasets"]) == 0
    assert "criteo" in capsys.readouterr().out
    assert main(["datasets", "show", "avazu"]) == 0
    assert "hour_of_day" in capsys.readouterr().out
    target = tmp_path / "mine.yaml"
    assert main(["datasets", "cp", "csv", str(target)]) == 0
    assert main(["datasets", "cp", "csv", str(target)]) == 2
    assert "not overwritten" in capsys.readouterr().err
    assert main(["datasets", "show", "avasu"]) == 2
    assert "did you mean 'avazu'" in capsys.readouterr().err


def test_doctor_reports(capsys):
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"]
    assert {check["name"] for check in found["checks"]} >= {
        "torch",
        "torchrec",
        "fbgemm-gpu",
        "memory",
        "disk",
    }


@pytest.mark.spawns
def test_a_closed_pipe_is_no_error():
    code = "import sys; from recnas.cli.main import main; sys.exit(main(['datasets', 'show', 'criteo']))"
    result = subprocess.run(
        f'{sys.executable} -c "{code}" | head -1', shell=True, capture_output=True, text=True, check=True
    )
    assert "Traceback" not in result.stderr
