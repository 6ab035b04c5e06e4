"""Every setting of a comparison reaches it, from the command and from Python alike."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import recnas
from recnas.cli.main import main
from recnas.jobs.compare.compare import compare
from recnas.searchers.settings import HalvingSettings
from recnas.train.settings import TrainSettings

GIVEN = {"reference": "lr", "seeds": 2, "seed": 5, "tune": 3, "latency_on": "auto"}


class Reached(Exception):
    pass


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `compare` is called with."""
    arguments: dict[str, Any] = {}

    def note(*args: Any, **kwargs: Any) -> None:
        arguments.update(inspect.signature(compare).bind(*args, **kwargs).arguments)
        raise Reached

    monkeypatch.setattr("recnas.jobs.compare.configured.compare", note)
    return arguments


@pytest.mark.parametrize("way", ["command", "python"])
def test_every_setting_arrives(criteo_data, tmp_path, reached: dict[str, Any], way: str):
    words = [
        *(f"{name}={value}" for name, value in GIVEN.items()),
        "lr=0.003",
        "options.dnn.dropout=0.1",
        "halving.eta=4",
    ]
    if way == "python":
        with pytest.raises(Reached):
            recnas.compare(["lr", "dnn"], tmp_path / "c", *words, data=criteo_data, keep=True)
    else:
        data = ["--data", str(criteo_data.path), "--out", str(tmp_path / "c"), "--keep"]
        assert main(["compare", *data, "--models", "lr", "dnn", *words, "--quiet"]) == 1
    assert list(reached["models"]) == ["lr", "dnn"]
    assert {name: reached["first_seed" if name == "seed" else name] for name in GIVEN} == GIVEN
    assert reached["settings"] == TrainSettings(lr=0.003)
    assert reached["options"] == {"dnn": {"dropout": 0.1}}
    assert reached["halving"] == HalvingSettings(eta=4)
    assert reached["keep"] is True
