"""Proxies that read the loss count an example as often as it weighs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from recnas.evaluators.proxy import ProxyEvaluator, evaluate_by_proxies, freeze, scoring_batches
from recnas.evaluators.settings import ScoreSettings
from recnas.model.nasrec.scorable import ScoredNasrec
from recnas.model.nasrec.supernet import Supernet
from recnas.proxies.network import ScoringBatch, mean_loss, sample_losses
from recnas.proxies.registry import get_proxies
from recnas.space.settings import SpaceSettings, make_ctr_space
from recnas.train.settings import TrainSettings
from recnas.train.setup import make_embeddings, net_shape

LOSS_PROXIES = ("grad_norm", "snip", "grasp", "fisher")
SPACE = SpaceSettings(name="nasrec-small", blocks=2)


@pytest.fixture(scope="module")
def supernet(weighted_data):
    generator = torch.Generator().manual_seed(0)
    return Supernet(make_ctr_space(SPACE), net_shape(weighted_data.schema, TrainSettings()), generator)


def repeated(batch: ScoringBatch) -> ScoringBatch:
    assert batch.weights is not None
    times = batch.weights.long()
    return ScoringBatch(
        tuple(x.repeat_interleave(times, 0) for x in batch.inputs), batch.labels.repeat_interleave(times)
    )


def test_scores_are_those_of_repeated_examples(weighted_data, supernet):
    embeddings = make_embeddings(weighted_data.schema, TrainSettings(), 0, torch.device("cpu"))
    settings = ScoreSettings(batches=2, batch_size=64, proxies=LOSS_PROXIES)
    batches = scoring_batches(weighted_data, embeddings, settings)
    assert all(batch.weights is not None and len(batch.weights) == 64 for batch in batches)
    arch = make_ctr_space(SPACE).sample(np.random.default_rng(1))
    network, proxies = ScoredNasrec.of(supernet.candidate(arch)), get_proxies(LOSS_PROXIES)

    def scores(some: list[ScoringBatch]) -> dict[str, float]:
        return evaluate_by_proxies(network, some, proxies, 0).values

    found, expected = scores(batches), scores([repeated(batch) for batch in batches])
    plain = scores([ScoringBatch(batch.inputs, batch.labels) for batch in batches])
    for name in LOSS_PROXIES:
        assert found[name] != pytest.approx(plain[name], rel=1e-3), name
        if name == "grasp":  # m times a figure of the mean loss, m the number of examples
            expected[name] *= len(batches[0]) / len(repeated(batches[0]))
        if name != "fisher":  # a sum over examples of squares, where twice an example is not one of twice the weight
            assert found[name] == pytest.approx(expected[name], rel=1e-3), name


def test_frozen_batches_keep_their_weights(weighted_data, criteo_data, supernet, tmp_path: Path):
    embeddings = make_embeddings(weighted_data.schema, TrainSettings(), 0, torch.device("cpu"))
    settings = ScoreSettings(batches=2, batch_size=64, proxies=("grad_norm",))
    frozen = freeze(tmp_path, supernet, embeddings, weighted_data, settings, {})
    arch = make_ctr_space(SPACE).sample(np.random.default_rng(1))
    work = ProxyEvaluator(str(frozen), SPACE, supernet.shape, settings, warmed=False)
    found = work.open()(make_ctr_space(SPACE).to_dict(arch)).values["grad_norm"]
    batches = scoring_batches(weighted_data, embeddings, settings)
    network = ScoredNasrec.of(supernet.candidate(arch))
    assert found == evaluate_by_proxies(network, batches, get_proxies(("grad_norm",)), 0).values["grad_norm"]


def test_examples_without_any_weight_have_no_loss():
    logits, labels = torch.randn(5), torch.tensor([0.0, 1, 1, 0, 1])
    assert mean_loss(logits, ScoringBatch((), labels, torch.zeros(5))) == 0
    assert torch.equal(mean_loss(logits, ScoringBatch((), labels)), sample_losses(logits, labels).mean())
