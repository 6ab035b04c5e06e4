from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from recnas.baselines.zoo import ZOO, check_model_settings
from recnas.bench.entrants import Architecture, Entrant, HandCrafted, OtherLibrary
from recnas.bench.other_models import OTHER_MODELS
from recnas.data.prepare.prepare import prepare
from recnas.data.schema import Schema
from recnas.errors import ConfigError
from recnas.jobs.compare import compare
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.cost import count
from recnas.space.nasrec.json import to_dict
from recnas.tasks.archs import named_arch
from recnas.tasks.models import resolve
from recnas.train.recipe import LEARNING_RATES, with_recipe
from recnas.train.settings import TrainSettings

SCHEMA = Schema.of_shape(3, [20, 30, 5])


def arch_entrant(**options) -> Architecture:
    arch = NasrecSpace("nasrec-small", blocks=2).sample(np.random.default_rng(3))
    return Architecture(arch.key, "mine", to_dict(arch), tuple(options.items()))


ENTRANTS = [
    *(HandCrafted(name, name) for name in ZOO),
    *(OtherLibrary(name, name) for name in OTHER_MODELS),
    arch_entrant(),
]


def test_a_model_that_the_data_do_not_fit_is_refused_before_a_run_is_made(tmp_path: Path):
    (tmp_path / "log.csv").write_text("y,price\n" + "".join(f"{n % 2},{n}\n" for n in range(300)))
    (tmp_path / "r.yaml").write_text(
        "name: mine\nseparator: ','\nheader: true\nlabel: {column: y}\ndense: [{columns: [price]}]\n"
    )
    data = prepare(str(tmp_path / "r.yaml"), [tmp_path / "log.csv"], tmp_path / "data", threads=1)
    with pytest.raises(ConfigError, match=r"lr needs categorical columns, and this data set has none\. \(Use dnn\.\)"):
        compare(data, tmp_path / "run", ["dnn", "lr"])
    assert not (tmp_path / "run").exists()
    assert [entrant.id for entrant in resolve(["all"], data)] == ["dnn", "sklearn-lr"]


@pytest.mark.parametrize("entrant", ENTRANTS, ids=lambda e: e.label)
@pytest.mark.parametrize("optimizer", ["adagrad", "adamw"])
def test_trials_start_with_the_defaults_and_more_are_the_same_and_more(entrant: Entrant, optimizer):
    settings = TrainSettings(optimizer=optimizer, lr=0.0123)
    few, many = (entrant.choices(settings, n, seed=4) for n in (3, 9))
    assert many[:3] == few
    assert len({json.dumps(choice, sort_keys=True) for choice in many}) == 9
    assert few == json.loads(json.dumps(few))
    assert entrant.choices(settings, 0, 4) == entrant.choices(settings, 1, 4) == few[:1]
    assert entrant.choices(settings, 9, seed=5)[1:] != many[1:]
    if not isinstance(entrant, OtherLibrary):
        assert few[0]["lr"] == 0.0123
        assert {choice["lr"] for choice in many[1:]} <= set(LEARNING_RATES[optimizer])
    if isinstance(entrant, HandCrafted):
        for choice in many:
            check_model_settings(entrant.id, with_recipe(settings, choice)[1])


@pytest.mark.parametrize(("name", "width", "padded"), [("lr", 1, 4), ("deepfm", 9, 12), ("dnn", 8, 8)])
@pytest.mark.parametrize("backend", ["plain", "fused"])
def test_tables_are_as_wide_as_the_model_needs(name: str, width: int, padded: int, backend):
    settings = TrainSettings(embeddings={"width": 8, "backend": backend})
    entrant = HandCrafted(name, name)
    choice = {**entrant.default(settings), "lr": 0.05}
    built = entrant.build(choice, SCHEMA, settings, 0, torch.device("cpu"))
    assert built.embeddings.width == (padded if backend == "fused" else width)
    assert built.cost["embedding_params"] == 55 * width
    assert built.settings.lr == 0.05
    ids = torch.ones(4, 3, dtype=torch.int64)
    lookup = built.embeddings.begin(ids)
    built.network(torch.rand(4, 3), lookup.leaf).sum().backward()
    lookup.apply()
    table = built.embeddings.weights["C1"]
    assert (table[1, :width] != 0).all()
    assert (table[:, width:] == 0).all()


def test_published_architectures_have_names(criteo_data):
    (found,) = resolve(["nasrec-full-avazu"], criteo_data)
    assert isinstance(found, Architecture)
    assert (found.label, found.id) == ("nasrec-full-avazu", named_arch("nasrec-full-avazu").key)


def test_a_searched_network_is_built_as_its_search_built_it():
    settings = TrainSettings(embeddings={"width": 8})
    for layernorm in (True, False):
        entrant = arch_entrant(layernorm=layernorm)
        built = entrant.build(entrant.default(settings), SCHEMA, settings, 0, torch.device("cpu"))
        expected = count(built.network.arch, SCHEMA, width=8, layernorm=layernorm)  # type: ignore[arg-type]
        assert built.cost["params"] == expected.params
        assert built.cost["macs"] == expected.macs
