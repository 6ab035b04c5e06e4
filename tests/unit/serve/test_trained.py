from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from recnas.data.loader import BatchLoader
from recnas.errors import DataError, RunError
from recnas.files import write_json
from recnas.jobs.compare import compare
from recnas.runs.checks import with_check
from recnas.runs.folder import RunDir
from recnas.runs.ledger import Ledger
from recnas.serve.load import load_trained
from recnas.space.nasrec import NasrecSpace
from recnas.train.metrics import Metrics
from recnas.train.settings import EmbeddingSettings, TrainSettings
from recnas.train.standalone import train

QUICK = TrainSettings(epochs=0.05, lr=0.03, embeddings=EmbeddingSettings(width=8))


def valid_logloss(model, data) -> float:
    metrics = Metrics()
    for batch in BatchLoader(data, "valid", 4096).epoch():
        metrics.update(model.logits(batch.dense, batch.ids), batch.label)
    return metrics.result()["logloss"]


@pytest.fixture
def copied(trained_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_run, tmp_path / "run"))


def as_search(run: Path, folder: Path) -> Path:
    """The layout of a finished search whose winner is `run`."""
    RunDir.create(folder, "search", config={})
    shutil.copytree(run, folder / "winner")
    write_json(folder / "result.json", {})
    return folder


def test_each_seed_is_the_model_that_was_measured(trained_run: Path, criteo_data):
    events = {event["seed"]: event for event in RunDir.open(trained_run).ledger.read()}
    for seed in (0, 1):
        model = load_trained(f"{trained_run}:seed-{seed}")
        assert model.seed == seed
        assert model.metrics["valid"] == events[seed]["valid"]
        assert valid_logloss(model, criteo_data) == pytest.approx(events[seed]["valid"]["logloss"], abs=1e-9)
        assert load_trained(trained_run, seed=seed).path == model.path


def test_best_is_chosen_on_validation_and_the_plain_name_is_the_first_seed(trained_run: Path):
    losses = {e["seed"]: e["valid"]["logloss"] for e in RunDir.open(trained_run).ledger.read()}
    assert load_trained(f"{trained_run}:best").seed == min(losses, key=losses.get)
    assert load_trained(trained_run).seed == 0


def test_a_search_run_gives_its_winner(trained_run: Path, tmp_path: Path):
    search = as_search(trained_run, tmp_path / "search")
    for spec in (str(search), f"{search}:best", f"{search}:seed-1"):
        assert load_trained(spec).path.parent == search / "winner"


@pytest.fixture(scope="module")
def comparison(criteo_data, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("compared") / "run"
    compare(criteo_data, out, ["deepfm", "lr"], settings=QUICK, seeds=2, keep=True)
    return out


def test_models_of_a_comparison_give_the_predictions_it_kept(comparison: Path, criteo_data):
    dense = torch.from_numpy(criteo_data.array("test", "dense"))
    ids = torch.from_numpy(criteo_data.array("test", "ids").astype(np.int64))
    for name, seed in (("deepfm", 0), ("deepfm:seed-1", 1), ("LR", 0), ("lr:seed-1", 1)):
        model = load_trained(f"{comparison}:{name}")
        assert (model.key, model.seed) == (name.split(":")[0].lower(), seed)
        kept = np.load(comparison / "predictions" / f"{model.key}-seed-{seed}.npy")
        np.testing.assert_allclose(model.logits(dense, ids).numpy(), kept, atol=1e-5)
    assert load_trained(f"{comparison}:deepfm", seed=1).seed == 1
    assert load_trained(f"{comparison}:deepfm:best").metrics.keys() == {"valid", "test"}


def test_models_of_a_comparison_are_asked_for_by_name(comparison: Path, criteo_data, tmp_path: Path):
    for spec, what, fix in (
        (comparison, "several models", ":deepfm"),
        (f"{comparison}:deepfn", "did you mean 'deepfm'", ":lr"),
        (f"{comparison}:deepfm:seed-9", "no finished seed 9; it has 0, 1", ":deepfm:seed-0"),
        (f"{comparison}:deepfm:other:best", "has no model", ":best"),
    ):
        with pytest.raises(RunError) as error:
            load_trained(spec)
        assert what in error.value.what
        assert fix in (error.value.fix or "")
    compare(criteo_data, tmp_path / "run", ["lr"], settings=QUICK, seeds=1)
    with pytest.raises(RunError, match=r"kept no weights[^$]*--keep"):
        load_trained(f"{tmp_path / 'run'}:lr")


def test_weights_load_without_the_data_but_raw_text_needs_them(copied: Path, criteo_data, tmp_path: Path):
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["data"] |= {"path": str(tmp_path / "gone"), "absolute": str(tmp_path / "gone"), "relative": "../gone"}
    write_json(copied / "manifest.json", with_check(manifest))
    model = load_trained(copied)
    assert model.schema == criteo_data.schema
    with pytest.raises(DataError, match="is not there") as error:
        model.data()
    assert "--data DIR" in str(error.value)
    assert model.data(criteo_data.path).fingerprint == criteo_data.fingerprint
    (copied / "schema.json").unlink()  # a run of an earlier version
    with pytest.raises(DataError, match="is not there"):
        load_trained(copied)
    assert load_trained(copied, data=criteo_data.path).schema == criteo_data.schema


def test_predictions_are_probabilities_and_need_no_gradient(trained_run: Path, criteo_data):
    model = load_trained(trained_run)
    batch = next(iter(BatchLoader(criteo_data, "valid", 64).epoch()))
    found = model.predict(batch.dense, batch.ids)
    assert found.shape == (64,)
    assert bool(((found > 0) & (found < 1)).all())
    assert not found.requires_grad
    assert not model.network.training
    assert not any(p.requires_grad for p in model.network.parameters())
    torch.testing.assert_close(found, model.logits(batch.dense, batch.ids).sigmoid())


def test_what_is_not_there_is_named_with_the_way_out(trained_run: Path, copied: Path, tmp_path: Path):
    cases = [
        (tmp_path / "nothing", "There is no run directory", "recnas search"),
        (f"{trained_run}:seed-7", "no finished seed 7; it has 0, 1", ":seed-0"),
        (f"{trained_run}:beste", "has no model 'beste'", ":best"),
        (tmp_path, "has no manifest.json", "--out"),
    ]
    RunDir.create(tmp_path / "warm", "warmup")
    cases.append((tmp_path / "warm", "is a warmup run", "recnas train"))
    RunDir.create(tmp_path / "half", "search", config={})
    cases.append((tmp_path / "half", "is not finished", "recnas search --resume"))
    RunDir.create(tmp_path / "begun", "train")
    cases.append((tmp_path / "begun", "No training in", "it continues"))
    for spec, what, fix in cases:
        with pytest.raises(RunError) as error:
            load_trained(spec)
        assert what in error.value.what
        assert fix in (error.value.fix or "")


def test_damaged_weights_are_refused(copied: Path):
    file = next((copied / "seed-0").glob("step-*/tensors.safetensors"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(RunError, match=r"is damaged: [^$]*recnas repair"):
        load_trained(copied, seed=0)
    assert load_trained(copied, seed=1).seed == 1


def test_a_training_that_validation_ended_is_whole(criteo_data, tmp_path: Path):
    """Its checkpoint is the best state, which is of an earlier step than the last."""
    settings = TrainSettings(epochs=4, lr=0.02, batch_size=128, embeddings=EmbeddingSettings(width=8, lr=0.5, l2=0))
    arch = NasrecSpace("nasrec-small", blocks=2).sample(np.random.default_rng(1))
    result = train(arch, criteo_data, tmp_path / "run", settings)
    best = Ledger(tmp_path / "run" / "ledger.jsonl").read()[0]["best_epoch"]
    assert best < 4, "the test wants a training whose last epoch is not its best"
    model = load_trained(tmp_path / "run")
    assert valid_logloss(model, criteo_data) == pytest.approx(result.valid["logloss"].mean, abs=1e-6)
