"""Warm-up of single cells before they are scored."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from recnas.bench.nasbench201 import write_generated
from recnas.cli.main import main
from recnas.data.images.sets import generated_images
from recnas.engines.execution import Execution
from recnas.errors import DataError
from recnas.jobs.score_cells import score_cells
from recnas.model.blueprint import Network
from recnas.space.nasbench201 import Nb201Space
from recnas.space.nasbench201.arch import Nb201Arch
from recnas.space.nasbench201.skeleton import Nb201Blueprint, Nb201Skeleton
from recnas.tasks.settings import CellScoring
from recnas.train.images import WarmNetwork, warm_network, warm_rows


def nb201_network(arch: Nb201Arch, skeleton: Nb201Skeleton | None = None, seed: int = 0) -> Network:
    return Network(Nb201Blueprint.of(arch, skeleton), seed)


BODY = Nb201Skeleton(channels=2, cells=1, image=8)
CONV = Nb201Arch.from_digits("333333")
SETTINGS = CellScoring(proxies=("sigeo", "zico"), channels=2, cells=1, batches=2, batch_size=8)


def test_it_is_plain_descent_on_the_first_rows_of_a_fixed_order():
    images = generated_images(rows=40, side=8)
    settings = WarmNetwork(data_share=0.5, batch_size=8, lr=0.05, momentum=0.0, weight_decay=0.0, clip=1e9)
    network, other = nb201_network(CONV, BODY, 3), nb201_network(CONV, BODY, 3)
    losses = warm_network(network, images, settings, seed=1)
    rows = warm_rows(40, settings, 1)
    assert len(rows) == len(set(rows.tolist())) == 20
    np.testing.assert_array_equal(warm_rows(40, WarmNetwork(data_share=0.25, batch_size=8), 1), rows[:10])
    params = {n: p.detach().clone() for n, p in other.params.items()}
    expected = []
    for start in (0, 8):  # the last four rows fill no batch
        params = {n: p.detach().requires_grad_() for n, p in params.items()}
        pixels, labels = images.take(rows[start : start + 8])
        loss = F.cross_entropy(other.forward(params, (pixels,)), labels)
        found = torch.autograd.grad(loss, list(params.values()))
        params = {n: p - 0.05 * g for (n, p), g in zip(params.items(), found)}
        expected.append(loss.item())
    assert losses == pytest.approx(expected)
    for name, leaf in network.params.items():
        torch.testing.assert_close(leaf.detach(), params[name])
        assert leaf.grad is None


def test_training_lowers_the_loss():
    images = generated_images(rows=400, side=8)
    losses = warm_network(
        nb201_network(CONV, BODY, 0), images, WarmNetwork(data_share=1.0, epochs=4, batch_size=20), seed=0
    )
    assert len(losses) == 80
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:10])


def test_no_share_changes_nothing_and_too_small_a_share_is_refused():
    images = generated_images(rows=40, side=8)
    network, other = nb201_network(CONV, BODY), nb201_network(CONV, BODY)
    assert warm_network(network, images, WarmNetwork(), 0) == []
    assert all(torch.equal(leaf, other.params[name]) for name, leaf in network.params.items())
    with pytest.raises(DataError, match="fewer than a batch"):
        warm_network(network, images, WarmNetwork(data_share=0.1), 0)


@pytest.mark.spawns
def test_scores_use_the_lambdas_of_a_warmed_network(tmp_path: Path):
    archs = [CONV, Nb201Arch.from_digits("012341")]
    cold = score_cells(archs, tmp_path / "cold", SETTINGS)
    warmed = score_cells(archs, tmp_path / "warm", SETTINGS.model_copy(update={"warmup": WarmNetwork(data_share=0.1)}))
    again = score_cells(
        archs, tmp_path / "two", SETTINGS.model_copy(update={"warmup": WarmNetwork(data_share=0.1)}), Execution(2)
    )
    for before, after, same in zip(cold, warmed, again):
        (zero,), (one,) = ([r.scores["sigeo"]] for r in (before, after))
        assert zero.value == pytest.approx(zero.terms["zico"] + zero.terms["fr"])
        assert one.value == pytest.approx(one.terms["zico"] + 50 * one.terms["fr"] - one.terms["loss"])
        assert after.facts["warmup"]["steps"] == 1
        assert same.scores == after.scores
    kept = [
        json.loads((tmp_path / run / "manifest.json").read_text())["settings"]["warmup"] for run in ("cold", "warm")
    ]
    assert [warmup["data_share"] for warmup in kept] == [0.0, 0.1]


def test_correlate_shows_every_level(tmp_path: Path, capsys):
    rng = np.random.default_rng(0)
    write_generated(tmp_path / "nb201.parquet", list({Nb201Space().sample(rng): None for _ in range(30)}))
    args = ["correlate", "nasbench201/correlate-warm", "--out", str(tmp_path / "run"), "--quiet", f"table={tmp_path}", "score.images.name=generated",
            "score.cells=1", "score.channels=2", "score.batch_size=8", "score.batches=2", "cells=5", "resamples=20", "datasets=[cifar10]",
            "shares=[0,0.1]"]  # fmt: skip
    assert main(args) == 0
    said = capsys.readouterr().out
    assert "sigeo@2, warm-up 10%" in said
    assert "change of Spearman" in said
    rows = json.loads((tmp_path / "run" / "correlation.json").read_text())["rows"]
    assert {(row["proxy"], row["share"]) for row in rows} >= {("sigeo@2", 0.0), ("sigeo@2", 0.1), ("zico@2", 0.1)}
    before, after = ({row["proxy"]: row for row in rows if row["share"] == share} for share in (0.0, 0.1))
    assert not any("change" in row for row in before.values())
    for name, row in after.items():
        assert row["change"] == pytest.approx(row["spearman"] - before[name]["spearman"])
        assert row["change_interval"][0] <= row["change_interval"][1]
    assert main(["report", str(tmp_path / "run" / "correlation.json"), "-o", str(tmp_path / "report.md")]) == 0
