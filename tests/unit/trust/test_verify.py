"""Every changed byte of a folder is found, and what repair leaves goes on to the same figures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from recnas.cli.main import main
from recnas.errors import RunError
from recnas.runs.checks import with_check
from recnas.runs.folder import RunDir
from recnas.runs.read import read_run
from recnas.serve.load import load_trained
from recnas.space.nasrec import NasrecSpace
from recnas.train.settings import EmbeddingSettings, TrainSettings
from recnas.train.standalone import train
from recnas.trust.repair import repair
from recnas.trust.verify import kind_of, verify

ARCH = NasrecSpace("nasrec-small", blocks=2).sample(np.random.default_rng(1))
SETTINGS = TrainSettings(
    batch_size=256, epochs=0.1, lr=0.03, threads=1, device="cpu", embeddings=EmbeddingSettings(width=8)
)


@pytest.fixture(scope="session")
def small_run(criteo_data, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("verified") / "run"
    train(ARCH, criteo_data, out, SETTINGS, seeds=2)
    return out


@pytest.fixture
def run(small_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_run, tmp_path / "run"))


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 1
    path.write_bytes(content)


def test_a_run_and_data_that_are_well(run: Path, criteo_data, capsys):
    assert verify(run).faults == []
    report = verify(run, replay=True)
    assert report.well
    assert "log loss of valid" in report.replayed[0]
    assert verify(criteo_data.path, replay=True).well
    assert (kind_of(run), kind_of(criteo_data.path)) == ("run", "data")
    assert main(["verify", str(run)]) == 0
    assert "files are what was written" in capsys.readouterr().out


def test_a_flipped_bit_in_any_file_is_found(small_run: Path, criteo_data, tmp_path: Path):
    rng = np.random.default_rng(0)
    for source in (small_run, criteo_data.path):
        copy = Path(shutil.copytree(source, tmp_path / source.name))
        for name in files_of(copy):
            if name.endswith((".lock", ".verified.json")):
                continue
            before = (copy / name).read_bytes()
            for place in (0, len(before) - 2, int(rng.integers(len(before)))):
                flip(copy / name, place)
                report = verify(copy)
                assert report.faults, f"byte {place} of {name}"
                (copy / name).write_bytes(before)
            (copy / name).unlink()
            if name == "checksums.json":  # a run that is still written has none
                (copy / name).write_bytes(before)
                continue
            try:
                assert not verify(copy).well, name
            except RunError:
                assert name == "manifest.json"
            (copy / name).write_bytes(before)
        assert verify(copy).well


def test_readers_refuse_what_was_changed_since_the_end(run: Path):
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps(result | {"params": 7}))
    with pytest.raises(RunError, match=r"result\.json is not what was written[^$]*recnas repair"):
        read_run(run)
    schema = (run / "schema.json").read_text()
    (run / "schema.json").write_text(schema.replace('"I1"', '"I0"', 1).replace('"I2"', '"I1"', 1))
    with pytest.raises(RunError, match=r"schema\.json is not what was written"):
        load_trained(run)


def test_seeds_that_were_swapped_are_refused(run: Path):
    (run / "seed-0").rename(run / "x")
    (run / "seed-1").rename(run / "seed-0")
    (run / "x").rename(run / "seed-1")
    with pytest.raises(RunError, match="seed was 1, now 0"):
        load_trained(run, seed=0)


@pytest.mark.parametrize(
    "what",
    [
        "ledger.jsonl",
        "result.json",
        "checksums.json",
        "seed-1/tensors",
        "seed-0/state",
        "schema.json",
        "predictions/test-seed-1",
    ],
)
def test_a_repaired_run_goes_on_to_the_same_figures(run: Path, criteo_data, what: str, capsys):
    before = {name: RunDir.open(run).ledger.read()[name]["test"] for name in (0, 1)}
    path, *_ = (*run.glob(f"{what}*"), *run.glob(what.replace("/", "/step-*/") + "*"))
    flip(path, 100)
    assert main(["verify", str(run)]) == 2
    assert f"-> recnas repair {run}" in capsys.readouterr().err
    predictions = {file.name: file.read_bytes() for file in run.glob("predictions/*") if file != path}
    assert main(["repair", str(run)]) == 0
    assert "Repeat the command" in capsys.readouterr().out
    assert verify(run).well
    train(ARCH, criteo_data, run, SETTINGS, seeds=2)
    after = sorted(RunDir.open(run).ledger.read(), key=lambda line: line["seed"])
    assert {line["seed"]: line["test"] for line in after} == before
    assert read_run(run).has_result
    assert verify(run, replay=True).well
    assert {name: (run / "predictions" / name).read_bytes() for name in predictions} == predictions
    assert len(list(run.glob("predictions/*"))) == 4
    assert repair(run) == []


def test_without_its_manifest_nobody_can_tell_what_a_run_is(run: Path):
    flip(run / "manifest.json", 50)
    with pytest.raises(RunError, match=r"manifest\.json is damaged"):
        repair(run)


def test_what_is_nothing_of_ours(tmp_path: Path, capsys):
    assert main(["verify", str(tmp_path)]) == 2
    assert "neither a run, nor prepared data, nor an export" in capsys.readouterr().err


@pytest.mark.parametrize("files", [True, [], {"a": 1}, {"": "0"}, {"../x": "0"}, {"/dev/zero": "0"}, {"a\0b": "0"}])
def test_a_list_of_checksums_made_by_others_is_checked_before_use(run: Path, files: object):
    (run / "checksums.json").write_text(json.dumps(with_check({"files": files})))
    with pytest.raises(RunError, match=r"checksums\.json is damaged or was changed"):
        read_run(run)
