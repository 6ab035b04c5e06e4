"""What jobs do with a second device: warm-up, evaluators, searches by gradients, image training, predictions, latency."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recnas.config import check_settings
from recnas.data.prepared import PreparedData
from recnas.devices import choose_device
from recnas.engines.execution import Execution
from recnas.errors import ConfigError
from recnas.evaluators.images import ImageTrainWork, VisionProxyEvaluator
from recnas.evaluators.proxy import ProxyEvaluator, freeze
from recnas.evaluators.settings import ScoreSettings, SharedWeightsSettings, VisionScoreSettings
from recnas.evaluators.shared_weights import SharedWeightsEvaluator
from recnas.evaluators.training import TrainRequest
from recnas.jobs.compare import compare
from recnas.jobs.search import search
from recnas.model.nasrec.subnet import new_subnet
from recnas.runs.folder import RunDir
from recnas.searchers.settings import LimitSettings
from recnas.serve.load import load_trained
from recnas.space.nasrec.cost import count
from recnas.space.settings import SpaceSettings
from recnas.tasks.settings import GradientSearchConfig
from recnas.train.images import ImageSource, ImageSplit, ImageTraining, WarmNetwork
from recnas.train.latency import answer_times
from recnas.train.settings import TrainSettings, WarmupConfig
from recnas.train.setup import net_shape
from recnas.train.standalone import train
from recnas.train.warmup import load_warmed, warmup
from tests.jobs.search_helpers import small_search
from tests.unit.device.second import NAME, second_device

SPACE = {"name": "nasrec-small", "blocks": 1}


def warm(data: PreparedData, device: str) -> WarmupConfig:
    return WarmupConfig.model_validate(
        {
            "data": str(data.path),
            "space": SPACE,
            "warmup": {"data_share": 0.01, "least_steps": 4},
            "supernet": {"batch_size": 32, "device": device, "embeddings": {"width": 8, "backend": "plain"}},
            "check": {"archs": 1, "rows": 100},
        }
    )


@pytest.fixture(scope="module")
def warmed(criteo_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warm-up that was made on the CPU."""
    out = tmp_path_factory.mktemp("warmed")
    warmup(warm(criteo_data, "cpu"), out)
    return out


def test_a_warm_up_on_the_device_ends_as_on_the_cpu(warmed: Path, criteo_data: PreparedData, tmp_path: Path):
    with second_device():
        warmup(warm(criteo_data, NAME.type), tmp_path)
        supernet, embeddings, _, _ = load_warmed(tmp_path)
        assert embeddings.device == NAME
        there = {name: storage.cpu() for name, storage in supernet.storages.items()}
    here, _, _, _ = load_warmed(warmed)
    for name, storage in here.storages.items():
        torch.testing.assert_close(there[name], storage, rtol=1e-3, atol=1e-5)


def arch_of(supernet: Any) -> dict[str, Any]:
    return supernet.space.to_dict(supernet.space.sample(np.random.default_rng(3)))


def test_shared_weights_and_batches_are_sent_once_for_all_candidates(warmed: Path, criteo_data: PreparedData):
    settings = ScoreSettings(proxies=("sigeo", "naswot"), batches=2, batch_size=16)
    supernet, embeddings, _, _ = load_warmed(warmed)
    described = arch_of(supernet)
    frozen = freeze(warmed / "frozen", supernet, embeddings, criteo_data, settings, {})
    space = SpaceSettings(**SPACE)
    here = ProxyEvaluator(str(frozen), space, supernet.shape, settings, True).open()(described)
    assert here.failed is None
    with second_device() as device:
        there_settings = settings.model_copy(update={"device": NAME.type})
        call = ProxyEvaluator(str(frozen), space, supernet.shape, there_settings, True).open()
        assert device.sent
        for _ in range(2):
            device.sent.clear()
            there = call(described)
            assert there.values == pytest.approx(dict(here.values), rel=1e-5)
        assert not device.sent


def test_the_one_shot_evaluator_tunes_and_validates_on_the_device(warmed: Path, criteo_data: PreparedData):
    supernet, embeddings, _, _ = load_warmed(warmed)
    described = arch_of(supernet)
    frozen = SharedWeightsEvaluator.freeze(warmed / "frozen-tables", supernet, embeddings, {})
    values = []
    for name in ("cpu", NAME.type):
        with second_device():
            evaluator = SharedWeightsEvaluator(
                str(frozen), str(criteo_data.path), SpaceSettings(**SPACE), warm(criteo_data, name).supernet,
                SharedWeightsSettings(steps=3, batch_size=16, valid_rows=100), 0,
            )  # fmt: skip
            assert evaluator.device == name
            values.append(evaluator.open()(described).values["valid_logloss"])
    assert values[1] == pytest.approx(values[0], rel=1e-6)


def test_a_model_trained_on_the_device_predicts_there_and_on_the_cpu(criteo_data: PreparedData, tmp_path: Path):
    rng = np.random.default_rng(0)
    space = SpaceSettings(name="nasrec-small", blocks=2).make()
    arch = min((space.sample(rng) for _ in range(20)), key=lambda one: count(one, criteo_data.schema, width=8).params)
    given = {"batch_size": 4000, "epochs": 1, "schedule": "constant", "stop": {"patience": 1}, "eval_batch_size": 4000}
    given |= {"device": NAME.type, "embeddings": {"width": 8, "backend": "plain"}}
    with second_device():
        settings = TrainSettings.model_validate(given)
        result = train(arch, criteo_data, tmp_path, settings)
        there = load_trained(tmp_path, device=NAME)
        dense, ids = torch.rand(4, criteo_data.schema.n_dense), torch.zeros(4, criteo_data.schema.n_sparse).long()
        assert there.logits(dense, ids).device == NAME
        shown = there.predict(dense, ids).cpu()
        torch.testing.assert_close(load_trained(tmp_path).predict(dense, ids), shown)
    assert result.valid["logloss"].mean is not None


@pytest.mark.parametrize(
    ("space", "sizes", "settings"),
    [
        ("nasbench201", {"channels": 2, "cells": 1}, {"method": "nasi", "steps": 2, "nu_archs": 1}),
        ("mlp", {"layers": 4, "width": 8}, {"method": "nasi", "steps": 2, "nu_archs": 1, "estimator": "averages"}),
        ("nasbench1shot1-1", {"channels": 6, "cells": 1, "stacks": 1}, {"method": "darts", "epochs": 1, "order": 2}),
        ("mlp", {"layers": 4, "width": 8}, {"method": "darts", "epochs": 2, "order": 2, "hessian": "exact"}),
    ],
)
def test_searches_by_gradients_choose_on_the_device_what_they_choose_on_the_cpu(
    tmp_path: Path, space: str, sizes: dict[str, int], settings: dict[str, Any]
):
    found = []
    for name in ("cpu", NAME.type):
        config = {
            "space": {"name": space, "supernet": sizes},
            "images": {"rows": 16, "side": 8},
            "search": {"batch_size": 8, "device": name, **settings},
        }
        with second_device():
            result = search(check_settings(GradientSearchConfig, config, "the test"), tmp_path / name, Execution())
        found.append((result.winner.key, [line.get("values") for line in RunDir(tmp_path / name).ledger.read()]))
    assert found[0][0] == found[1][0]
    for one, other in zip(found[0][1], found[1][1], strict=True):
        assert other == (None if one is None else pytest.approx(one, rel=1e-4))


def test_image_networks_are_trained_on_the_device_without_waiting_for_every_loss():
    arch = SpaceSettings(name="nasbench201").make().sample(np.random.default_rng(5))
    described, losses = SpaceSettings(name="nasbench201").make().to_dict(arch), []
    for name in ("cpu", NAME.type):
        with second_device() as device:
            work = ImageTrainWork(
                SpaceSettings(name="nasbench201"), {"channels": 2, "cells": 1}, ImageSource(rows=40, side=8),
                ImageSplit(), ImageTraining(epochs=2, batch_size=8, device=name), ("valid",),
            )  # fmt: skip
            done = work.open()(TrainRequest(0, described))
            if name == NAME.type:
                assert len(device.reads) == 3  # the first loss, the others, the right answers
        losses.append(done.train_loss)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_cells_are_warmed_and_scored_on_the_device():
    space = SpaceSettings(name="darts")
    described = space.make().to_dict(space.make().sample(np.random.default_rng(5)))
    values = []
    for name in ("cpu", NAME.type):
        with second_device():
            settings = VisionScoreSettings(
                proxies=("ntk_trace", "grad_norm"), batch_size=8, channels=2, cells=2, device=name,
                warmup=WarmNetwork(data_share=0.5, batch_size=8),
            )  # fmt: skip
            work = VisionProxyEvaluator(space, {}, ImageSource(rows=32, side=8), None, settings)
            scored = work.open()(described)
        assert scored.failed is None
        assert scored.extras["warmup"]["steps"] == 2
        values.append(dict(scored.values))
    assert values[1] == pytest.approx(values[0], rel=1e-3)


def test_latency_is_measured_where_it_is_asked_for(criteo_data: PreparedData):
    space = SpaceSettings(name="nasrec-small", blocks=1).make()
    shape = net_shape(criteo_data.schema, TrainSettings())
    network = new_subnet(space.sample(np.random.default_rng(0)), shape, 0)
    with second_device() as device:
        times = answer_times(network, shape.n_dense, shape.n_sparse, shape.width, 0.0, 1, (2,), on=NAME.type)
        assert len(times[2]) == 1
        assert device.operations > 10
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("asked", ["gpu", "cuda:x", "cpu:1", "mps", "meta"])
def test_a_device_that_is_none_is_refused_where_it_is_typed(asked: str):
    with pytest.raises(ConfigError, match="write auto, cpu, cuda or cuda:N"):
        check_settings(TrainSettings, {"device": asked}, "the test")
    with pytest.raises(ConfigError, match="write auto, cpu, cuda or cuda:N"):
        choose_device(asked)


def test_a_run_may_go_on_elsewhere(tmp_path: Path):
    made = {"config": {"score": {"device": "cuda:1", "batches": 4}, "final": {"train": {"device": "cpu"}}}}
    RunDir.create(tmp_path, "search", threads=1, **made)
    RunDir.create(tmp_path, "search", threads=1, **json.loads(json.dumps(made).replace("cuda:1", "cpu")))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    "asked",
    [
        {"score": {"device": "cuda"}},
        {"limits": {"latency_on": "cuda"}},
        {"supernet": {"device": "cuda"}},
        {"final": {"train": {"device": "cuda"}}},
        {"evaluator": "training", "query_training": {"train": {"device": "cuda:3"}}},
    ],
)
def test_a_gpu_that_is_missing_is_noticed_before_the_search_begins(
    asked: dict[str, Any], criteo_data: PreparedData, tmp_path: Path
):
    (section,) = (name for name in asked if name != "evaluator")
    with pytest.raises(
        ConfigError, match=rf"The setting {section}\.\S+ is cuda\S*, but torch sees no CUDA device here"
    ):
        search(small_search(criteo_data.path, **asked), tmp_path / "run", Execution())
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_comparison_asks_for_the_serving_gpu_before_it_trains(criteo_data: PreparedData, tmp_path: Path):
    with pytest.raises(ConfigError, match="The setting latency_on is cuda"):
        compare(criteo_data, tmp_path / "run", ["lr"], latency_on="cuda")
    assert not (tmp_path / "run").exists()


def test_a_setting_that_says_nothing_new_leaves_a_config_as_it_was():
    """Runs that were begun without it go on."""
    assert "latency_on" not in LimitSettings(params=3).model_dump(mode="json")
    assert LimitSettings(latency_on="cuda").model_dump(mode="json")["latency_on"] == "cuda"
    assert LimitSettings.model_validate(LimitSettings(latency_on="cuda:1").model_dump()).latency_on == "cuda:1"
