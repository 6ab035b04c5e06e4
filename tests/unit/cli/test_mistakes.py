"""First-day mistakes: each ends with one sentence and exit code 2, never with a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recnas.cli.main import main
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.json import dump_arch


@pytest.fixture
def said(capsys):
    def run(*command: object) -> str:
        assert main([str(part) for part in command]) == 2
        text = capsys.readouterr().err
        assert "Traceback" not in text
        return text

    return run


def test_a_raw_file_where_prepared_data_are_expected(said, criteo_file: Path, tmp_path: Path):
    for command in (
        ["inspect", criteo_file],
        ["search", "synthetic/laptop", f"data={criteo_file}", "--out", tmp_path / "r"],
        ["warmup", "synthetic/warmup", "--data", criteo_file, "--out", tmp_path / "r"],
        ["forecast", "synthetic/laptop", "--data", criteo_file],
        ["compare", "--data", criteo_file, "--models", "lr", "--out", tmp_path / "r"],
    ):
        text = said(*command)
        assert f"{criteo_file} is a file, not a folder of prepared data" in text
        assert f"recnas prepare RECIPE --raw {criteo_file}" in text


def test_prepared_data_where_a_run_is_expected(said, criteo_data):
    for command in (["search", "--resume", criteo_data.path], ["score", criteo_data.path, "--random", 1], ["report", criteo_data.path, "-o", "x.html"],
                    ["draw", f"{criteo_data.path}:best", "-o", "x.svg"], ["cost", f"{criteo_data.path}:best", "--dense", 1, "--fields", 2]):  # fmt: skip
        text = said(*command)
        assert "is a prepared data set, not a run" in text, command
        assert "None" not in text


def test_a_run_that_does_not_exist_gets_a_next_step(said, tmp_path: Path):
    missing = tmp_path / "none"
    for command in (["search", "--resume", missing], ["draw", f"{missing}:best", "-o", "x.svg"], ["report", missing, "-o", "x.html"],
                    ["watch", missing], ["train", f"{missing}:best", "data=x", "--out", "r"]):  # fmt: skip
        text = said(*command)
        assert f"There is no run directory {missing}" in text, command
        assert "->" in text, command


def test_an_architecture_that_does_not_exist_is_what_is_wrong(said, criteo_data, tmp_path: Path):
    for command in (
        ["cost", "missing.json"],
        ["train", "missing.json", "--data", criteo_data.path, "--out", tmp_path / "r"],
    ):
        assert "There is no architecture file missing.json" in said(*command)
    assert "is a folder, and an architecture is needed" in said("cost", tmp_path)


def test_a_slip_on_the_command_line_is_not_blamed_on_the_file(said, criteo_data, tmp_path: Path):
    text = said(
        "search", "synthetic/laptop", "--data", criteo_data.path, "--out", tmp_path / "r", "final.candidate=2", "seed=x"
    )
    assert "the command line has 2 faults" in text
    assert "laptop.yaml" not in text
    mine = tmp_path / "mine.yaml"
    mine.write_text("data: x\nwarmup: {data_shar: 0.1}\n")
    text = said("search", mine, "--out", tmp_path / "r", "final.candidate=2")
    assert "the command line has 1 fault:\n  - unknown key 'final.candidate'; did you mean 'candidates'?" in text
    assert "mine.yaml has 1 fault:\n  - unknown key 'warmup.data_shar'; did you mean 'data_share'?" in text


def test_data_can_be_named_both_ways_everywhere(capsys, said, criteo_data, tmp_path: Path):
    arch = tmp_path / "a.json"
    arch.write_text(dump_arch(NasrecSpace("nasrec-small").full_path()))
    found = []
    for way in (["--data", str(criteo_data.path)], [f"data={criteo_data.path}"]):
        assert main(["cost", str(arch), "--json", *way]) == 0
        found.append(json.loads(capsys.readouterr().out))
        assert main(["forecast", "synthetic/laptop", "--json", *way]) == 0
        json.loads(capsys.readouterr().out)
        assert main(["plan", "synthetic/warmup", "--gpus", "1", "--memory", "8GB", "--json", *way]) == 0
        assert str(criteo_data.path) in json.loads(capsys.readouterr().out)["source"]
    assert found[0] == found[1]
    assert "two data sets are named: a and b" in said(
        "search", "synthetic/laptop", "--data", "a", "data=b", "--out", tmp_path / "r"
    )
    for command in (
        ["train", arch, "--out", tmp_path / "r"],
        ["compare", "--models", "lr", "--out", tmp_path / "r"],
        ["bench", "build", "--out", tmp_path / "r"],
    ):
        text = said(*command)
        assert "a prepared data set is needed" in text
        assert "--data DIR" in text


def test_the_proxies_are_listed_without_a_run(capsys, said):
    assert main(["score", "--list"]) == 0
    lines = {line.split()[0]: line.split(None, 2)[1:] for line in capsys.readouterr().out.splitlines()[1:]}
    assert lines["sigeo"][0] == "high"
    assert lines["ntk_cond"][0] == "low"
    assert len(lines) == 41
    assert all(len(meaning) > 15 for _, meaning in lines.values())
    assert "a warm-up run is needed" in said("score", "--random", 3)
