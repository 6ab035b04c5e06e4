from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from recnas.cli.main import main
from recnas.config import check_settings
from recnas.errors import ConfigError, DataError, RunError
from recnas.evaluators.two_layer import (
    Experiment1,
    TwoLayer,
    load,
    schedule,
    statistics_of,
    train_and_measure,
)
from recnas.jobs.sigeo_experiment1 import experiment1
from recnas.proxies.network import ScoringBatch

SMALL = Experiment1(widths=(2, 5, 9), epochs=1, warmup=(0.0, 0.5), batch_size=64, resamples=0)


def as_module(network: TwoLayer) -> nn.Sequential:
    module = nn.Sequential(nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 10))
    with torch.no_grad():
        for parameter, leaf in zip(module.parameters(), network.params.values()):
            parameter.copy_(leaf)
    return module


def test_statistics_equal_a_slow_computation():
    x, y = load(SMALL).train
    network = TwoLayer(64, 5, 10, seed=3)
    module = as_module(network)
    rows = [slice(0, 20), slice(20, 40), slice(40, 60)]
    losses, dots, sizes, gradients = [], [], [], []
    theta = torch.cat([p.detach().flatten() for p in module.parameters()])
    for some in rows:
        module.zero_grad()
        loss = nn.functional.cross_entropy(module(x[some]), y[some])
        loss.backward()
        g = torch.cat([p.grad.flatten() for p in module.parameters()])  # type: ignore[union-attr]
        losses.append(float(loss.detach()))
        dots.append(float(theta @ g) ** 2)
        sizes.append(float(g.abs().sum()))
        gradients.append([p.grad.clone() for p in module.parameters()])  # type: ignore[union-attr]
    zico = 0.0
    for stack in map(torch.stack, zip(*gradients)):
        std = stack.std(0, correction=0)
        keep = std > stack.abs().mean(0) * 1e-6
        zico += float((stack.abs().mean(0)[keep] / std[keep]).sum().log())
    found = statistics_of(network, [ScoringBatch((x[some],), y[some]) for some in rows])
    wanted = {
        "loss": np.mean(losses),
        "fisher_rao": np.mean(dots),
        "mean_gradient": np.mean(sizes),
        "zico": zico,
        "width": 5,
    }
    assert found == pytest.approx(wanted, rel=1e-4)


def test_training_equals_that_of_torch():
    images = load(SMALL)
    x, y = images.train
    found = train_and_measure(SMALL, images, seed=0, width=5)
    network = TwoLayer(64, 5, 10, seed=0)
    module = as_module(network)
    optimizer = torch.optim.SGD(module.parameters(), lr=SMALL.rate)
    order = schedule(len(y), 64, 1, 0)
    middle = None
    for step, some in enumerate(order):
        if step == round(0.5 * len(order)):
            ahead = torch.cat(order[step : step + 4])  # not yet trained on
            middle = nn.functional.cross_entropy(module(x[ahead]), y[ahead]).item()
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(x[some]), y[some]).backward()
        optimizer.step()
    assert found.statistics[1]["loss"] == pytest.approx(middle, rel=1e-4)
    for split, (a, b) in (("train", images.train), ("test", images.test)):
        assert getattr(found, f"{split}_loss") == pytest.approx(
            nn.functional.cross_entropy(module(a), b).item(), rel=1e-4
        )


def test_a_run_continues_where_it_stopped(tmp_path: Path):
    whole = experiment1(SMALL, tmp_path / "a")
    experiment1(SMALL, tmp_path / "b")
    ledger = tmp_path / "b" / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(lines[0] + lines[1][:20])  # killed while writing the second line
    (tmp_path / "b" / "result.json").unlink()
    assert experiment1(SMALL, tmp_path / "b") == whole
    for name in ("ledger.jsonl", "result.json"):
        assert (tmp_path / "b" / name).read_bytes() == (tmp_path / "a" / name).read_bytes()
    with pytest.raises(RunError, match="another run"):
        experiment1(SMALL.model_copy(update={"lr": 0.5}), tmp_path / "a")


def test_digits_show_what_the_paper_reports(tmp_path: Path):
    """Loss and Fisher-Rao norm rank better and better with warm-up; the mean gradient does so from the start."""
    rows = experiment1(Experiment1(widths=tuple(range(2, 49, 4)), resamples=0), tmp_path / "run")
    for split in ("train", "test"):
        found = {(row["statistic"], row["warmup"]): row["spearman"] for row in rows if row["loss"] == split}
        for name in ("loss", "fisher_rao"):
            assert found[name, 0.4] > max(found[name, 0.0], 0.6)
        assert min(found["mean_gradient", share] for share in (0.0, 0.1, 0.4)) > 0.6


def write_idx(path: Path, values: np.ndarray) -> None:
    header = bytes([0, 0, 8, values.ndim]) + b"".join(int(n).to_bytes(4, "big") for n in values.shape)
    path.write_bytes(header + values.astype(np.uint8).tobytes())


def test_mnist_files_are_read_whole_and_in_one_colour(tmp_path: Path):
    rng = np.random.default_rng(0)
    for part, rows in (("train", 40), ("t10k", 8)):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte", rng.integers(256, size=(rows, 28, 28)))
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte", rng.integers(10, size=rows))
    settings = Experiment1(data="mnist", path=str(tmp_path), widths=(2, 3, 4), batch_size=8, epochs=1, resamples=0)
    images = load(settings)
    assert images.train[0].shape == (40, 784)
    assert images.test[0].shape == (8, 784)
    assert float(images.train[0].mean()) == pytest.approx(0, abs=1e-5)
    assert float(images.train[0].std(correction=0)) == pytest.approx(1, abs=1e-5)
    assert (Experiment1(data="mnist").batch, Experiment1(data="mnist").rate) == (128, 0.02)
    assert len(experiment1(settings, tmp_path / "run")) == 5 * 3 * 2
    with pytest.raises(ConfigError, match="more than the 40 training images"):
        experiment1(settings.model_copy(update={"batch_size": 16}), tmp_path / "other")


def test_faults_are_named(tmp_path: Path, monkeypatch):
    monkeypatch.delenv("RECNAS_IMAGES", raising=False)
    with pytest.raises(DataError, match="idx files"):
        load(Experiment1(data="mnist"))
    with pytest.raises(DataError, match="folder of the idx files"):
        load(Experiment1(data="mnist", path="mnist.npz"))
    for bad in ({"widths": [2, 4]}, {"warmup": [1.5]}, {"batches": 1}, {"data": "mnits"}):
        with pytest.raises(ConfigError):
            check_settings(Experiment1, bad, "the settings")
    with pytest.raises(ConfigError, match="diverged"):
        train_and_measure(SMALL.model_copy(update={"lr": 1e30, "warmup": (0.0,)}), load(SMALL), 0, 4)


def test_the_command_prints_what_it_computed(tmp_path: Path, capsys):
    out = tmp_path / "run"
    items = ["widths=[2,5,9]", "epochs=1", "batch_size=64", "resamples=0"]
    assert main(["theory", "experiment1", "--out", str(out), "--quiet", *items]) == 0
    assert "fisher_rao" in capsys.readouterr().out
    assert main(["theory", "experiment1", "--out", str(out), "--quiet", "--json", *items]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == json.loads((out / "result.json").read_text())["rows"]
    assert main(["theory", "kernel", "relu-tanh+-swish", "--rows", "6", "--inputs", "9", "--json"]) == 0
    kernel = json.loads(capsys.readouterr().out)
    assert kernel["lower"] < kernel["min_eigenvalue"] < kernel["mean_diagonal"] < kernel["upper"]
    assert main(["theory", "activations", "--layers", "4", "--rows", "6", "--inputs", "9"]) == 0
    assert capsys.readouterr().out.count("leaky_relu") == 2
    assert main(["theory", "topology", "--draws", "50", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["wide"]["diagonal"] == pytest.approx(24)
    for wrong in (
        ["experiment1"],
        ["kernel"],
        ["kernel", "relu-tanx"],
        ["topology", "x"],
        ["activations", "--layers", "2"],
    ):
        assert main(["theory", *wrong]) == 2
        assert "->" in capsys.readouterr().err
