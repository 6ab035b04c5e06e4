from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from recnas.cli.main import main
from recnas.errors import RunError
from recnas.runs.checks import with_check
from recnas.runs.folder import RunDir
from recnas.runs.ledger import Ledger
from recnas.seeds import stream
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.json import dump_arch
from recnas.train import checkpoint
from recnas.train.checkpoint import load, save
from recnas.train.evaluate import evaluate
from recnas.train.settings import WarmupConfig
from recnas.train.warmup import load_warmed


@pytest.fixture
def arch_file(tmp_path: Path) -> Path:
    path = tmp_path / "arch.json"
    path.write_text(dump_arch(NasrecSpace("nasrec-small", blocks=2).sample(np.random.default_rng(1))))
    return path


def test_train_over_seeds_then_again_then_more(criteo_data, arch_file: Path, tmp_path: Path, capsys):
    run = tmp_path / "run"
    command = [
        "train",
        str(arch_file),
        "--data",
        str(criteo_data.path),
        "--out",
        str(run),
        "--json",
        "--quiet",
        "epochs=0.2",
        "lr=0.03",
    ]
    assert main([*command, "--seeds", "2"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["seeds"] == [0, 1]
    assert len(result["test"]["logloss"]["values"]) == 2
    assert result["valid"]["logloss"]["std"] > 0
    lines = (run / "ledger.jsonl").read_bytes()
    assert main([*command, "--seeds", "3"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (run / "ledger.jsonl").read_bytes().startswith(lines)
    assert again["test"]["logloss"]["values"][:2] == result["test"]["logloss"]["values"]
    assert main([*command[:-1], "lr=0.5"]) == 2
    assert "holds another run" in capsys.readouterr().err


def test_train_faults_are_reported_together(criteo_data, arch_file: Path, tmp_path: Path, capsys):
    assert (
        main(
            [
                "train",
                str(arch_file),
                "--data",
                str(criteo_data.path),
                "--out",
                str(tmp_path / "r"),
                "lrr=1",
                "clip=-1",
                "embeddings.widht=8",
            ]
        )
        == 2
    )
    text = capsys.readouterr().err
    assert "3 faults" in text
    assert "did you mean 'lr'" in text
    assert "did you mean 'width'" in text


@pytest.fixture(scope="module")
def warm(criteo_data, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("warm") / "run"
    assert main(["warmup", "synthetic/warmup", "--out", str(out), "--quiet", f"data={criteo_data.path}", "space.blocks=2",
                 "warmup.data_share=0.3", "check.archs=3", "check.rows=1000", "supernet.lr=0.03"]) == 0  # fmt: skip
    return out


def test_a_warmed_supernet_loads_with_the_weights_it_was_checked_with(warm: Path):
    torch.set_num_threads(1)
    supernet, embeddings, data, config = load_warmed(warm)
    events = Ledger(warm / "ledger.jsonl").read()
    assert len(events) == 3
    rng = stream(config.seed, "warmup-check")
    for event in events:
        arch = supernet.space.sample(rng)
        assert arch.shared_key == event["key"]
        found = evaluate(supernet.candidate(arch), embeddings, data, "valid", rows=1000)
        assert found["logloss"] == pytest.approx(event["valid"]["logloss"], rel=1e-6)


def test_weights_that_are_not_those_of_the_warm_up_are_never_used(
    warm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Random ones in their place would score every candidate, and end with exit code 0."""
    load_warmed(warm)
    for how in ("gone", "flipped", "unfinished", "unreadable", "another"):
        copy = tmp_path / how
        shutil.copytree(warm, copy)
        (step,) = (copy / "supernet").glob("step-*")
        tensors = step / "tensors.safetensors"
        asked = None
        if how == "gone":
            shutil.rmtree(copy / "supernet")
        elif how == "flipped":
            data = bytearray(tensors.read_bytes())
            data[-9] ^= 4
            tensors.write_bytes(data)
        elif how == "unfinished":
            saved = load(step)
            save(copy / "supernet", 1, saved.tensors, saved.facts | {"step": 1}, saved.made_from)
        elif how == "another":
            config = WarmupConfig.model_validate(RunDir.open(copy).manifest()["config"])
            asked = config.model_copy(update={"seed": config.seed + 1})
            load_warmed(copy, config)
        with monkeypatch.context() as patch:
            if how == "unreadable":
                patch.setattr(checkpoint, "sha256_file", input_output_error)
            with pytest.raises((RunError, OSError)) as caught:
                load_warmed(copy, asked)
        said = {
            "gone": "should hold the warmed weights, but there is none",
            "flipped": "is damaged",
            "unfinished": "it stops at step 1 of",
            "unreadable": "Input/output error",
            "another": "seed was",
        }
        assert said[how] in str(caught.value)


def input_output_error(path: Path) -> str:
    raise OSError(errno.EIO, "Input/output error", str(path))


def test_zero_share_is_the_initial_supernet(criteo_data, tmp_path: Path):
    out = tmp_path / "zero"
    assert (
        main(
            [
                "warmup",
                "synthetic/warmup",
                "--out",
                str(out),
                "--quiet",
                f"data={criteo_data.path}",
                "space.blocks=2",
                "warmup.data_share=0",
                "check.archs=1",
                "check.rows=100",
            ]
        )
        == 0
    )
    assert json.loads((out / "result.json").read_text())["steps"] == 0
    load_warmed(out)


def test_a_supernet_of_other_data_is_refused(warm: Path, tmp_path: Path):
    copy = tmp_path / "copy"
    shutil.copytree(warm, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["data"]["fingerprint"] = "0" * 64
    (copy / "manifest.json").write_text(json.dumps(with_check(manifest)))
    with pytest.raises(RunError, match="fingerprint"):
        load_warmed(copy)


def test_every_shipped_config_is_valid():
    from recnas.cli.shipped import settings_class, shipped_configs
    from recnas.config import load_settings, read_yaml

    found = shipped_configs()
    assert len(found) >= 52
    for path in found.values():
        load_settings(settings_class(read_yaml(path)), path)
        header = "\n".join(line for line in path.read_text().splitlines() if line.startswith("#"))
        for part in ("What it does:", "How long:", "Run:", "Override:"):
            assert part in header, path


def test_an_unknown_config_suggests_the_nearest(capsys, tmp_path):
    assert main(["warmup", "criteo/warmpu", "--out", str(tmp_path / "x")]) == 2
    assert "did you mean 'criteo/warmup'" in capsys.readouterr().err


def test_a_training_that_was_stopped_early_reads_back_whole(criteo_data, arch_file: Path, tmp_path: Path):
    from recnas.runs.read import read_run

    run = tmp_path / "run"
    options = ["epochs=1", "batch_size=1024", "lr=0.03", "stop.patience=1", "stop.checks=2"]
    assert main(["train", str(arch_file), "--data", str(criteo_data.path), "--out", str(run), "--quiet", *options]) == 0
    (line,) = Ledger(run / "ledger.jsonl").read()
    (training,) = read_run(run).winner_trainings
    assert training.to_json() == line
    assert training.best_epoch == line["best_epoch"]
    assert training.checks == line["checks"] != []
    assert main(["report", str(run), "-o", str(tmp_path / "report.md")]) == 0
