"""Searches that train vision networks on images: same result however interrupted, parts kept apart, real learning."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from recnas.cli.main import main
from recnas.config import check_settings
from recnas.data.images.sets import generated_images
from recnas.engines.execution import Execution
from recnas.errors import ConfigError, DataError, RunError
from recnas.evaluators.images import ImageTrainWork
from recnas.evaluators.training import TrainRequest
from recnas.jobs.search import search as run_search
from recnas.resources import resource_dir
from recnas.runs.ledger import Ledger
from recnas.space.registry import get_space
from recnas.space.settings import SpaceSettings
from recnas.tasks.registry import load_search
from recnas.tasks.settings import ImageSearchConfig
from recnas.train.checkpoint import load_latest
from recnas.train.images import ImageSource, ImageSplit, ImageTraining, augmented

SIZES = {
    "darts": {"channels": 2, "cells": 2},
    "nasbench101": {"channels": 8, "cells": 1, "stacks": 2},
    "resnet-like": {"width": 0.125},
    "mlp": {},
}


def config(name="darts", seed=0, search=None, **more) -> ImageSearchConfig:
    data = {
        "space": {"name": name, "network": SIZES[name]},
        "seed": seed,
        "images": {"rows": 120, "side": 8},
        "score": {"batch_size": 8},
        "query_training": {"epochs": 1, "batch_size": 16},
        "search": search or {"method": "hnas", "candidates": 3, "pool": 5, "grow": False},
        "final": {"candidates": 2, "train": {"epochs": 2, "batch_size": 16}},
    } | more
    return check_settings(ImageSearchConfig, data, "the test")


def told(run):
    """The ledger without what a clock says."""
    lines = Ledger(run / "ledger.jsonl").read()
    return [
        {k: v for k, v in line.items() if k not in ("seconds", "workers")} for line in lines if line["event"] != "begin"
    ]


def result(run):
    found = json.loads((run / "result.json").read_text())
    found.pop("seconds")
    return found


def test_hnas_on_darts_is_the_same_however_interrupted(tmp_path):
    run_search(config(), tmp_path / "whole")
    lines = (tmp_path / "whole/ledger.jsonl").read_text().splitlines(keepends=True)
    assert [json.loads(line)["event"] for line in lines] == [
        "begin",
        *["candidate"] * 3,
        "phase",
        "begin",
        "trained",
        "trained",
        "phase",
        "begin",
        "test",
        "phase",
    ]
    assert len((tmp_path / "whole/pool.jsonl").read_text().splitlines()) == 5
    for cut in (2, 5, 8):
        run = tmp_path / f"cut-{cut}"
        shutil.copytree(tmp_path / "whole", run)
        (run / "ledger.jsonl").write_text("".join(lines[:cut]))
        (run / "result.json").unlink()
        run_search(config(), run)
        assert told(run) == told(tmp_path / "whole")
        assert result(run) == result(tmp_path / "whole")


def test_one_and_two_workers_give_the_same_ledger(tmp_path):
    random = {"method": "random", "candidates": 3}
    for workers in (1, 2):
        run_search(config(search=random), tmp_path / str(workers), Execution(workers=workers))
    assert told(tmp_path / "1") == told(tmp_path / "2")
    assert result(tmp_path / "1") == result(tmp_path / "2")


@pytest.mark.parametrize("name", ["nasbench101", "resnet-like", "mlp"])
def test_other_spaces_through_the_command(name, tmp_path, capsys):
    evolution = {"population": 2, "generations": 1, "children": 1, "tournament": 1}
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(config(name, search={"method": "evolution"} | evolution).model_dump(mode="json")))
    assert main(["search", str(path), "--out", str(tmp_path / "run"), "--workers", "1", "--quiet"]) == 0
    assert "test accuracy " in capsys.readouterr().out
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "report.html")]) == 0
    assert len(load_latest(tmp_path / "run/winner").tensors) > 2
    best = json.loads((tmp_path / "run/winner.json").read_text())
    assert get_space(name).key(get_space(name).from_dict(best)) == result(tmp_path / "run")["winner"]["key"]


def test_a_longer_training_learns_the_generated_images():
    images = ImageSource(rows=600, side=8)
    arch = get_space("darts").sample(np.random.default_rng(1))
    work = ImageTrainWork(
        SpaceSettings(name="darts"),
        {"channels": 8, "cells": 2},
        images,
        ImageSplit(),
        ImageTraining(epochs=12, lr=0.1, augment=False),
        ("valid", "test"),
    )
    found = work.open()(TrainRequest(0, get_space("darts").to_dict(arch)))
    assert found.metrics["valid"]["accuracy"] > 60
    assert found.metrics["test"]["accuracy"] > 60
    assert found.steps == 12 * (360 // 64)


def test_drop_path_and_second_classifier_train(tmp_path):
    training = ImageTraining(epochs=2, batch_size=16, drop_path=0.3, auxiliary=0.4)
    work = ImageTrainWork(
        SpaceSettings(name="darts"),
        {"channels": 4, "cells": 4},
        ImageSource(rows=120, side=32),
        ImageSplit(),
        training,
        ("valid",),
    )
    described = get_space("darts").to_dict(get_space("darts").sample(np.random.default_rng(0)))
    one, two = (work.open()(TrainRequest(3, described)) for _ in range(2))
    assert np.isfinite(one.train_loss)
    assert replace(one, seconds=0) == replace(two, seconds=0)


def test_parts_do_not_overlap_and_do_not_depend_on_the_search():
    parts = ImageSplit(valid=0.25, test=0.1)
    rows = {part: parts.rows(200, part) for part in ("train", "valid", "test")}
    assert {part: len(found) for part, found in rows.items()} == {"train": 130, "valid": 50, "test": 20}
    assert sorted(np.concatenate(list(rows.values()))) == list(range(200))
    with pytest.raises(DataError, match="three parts"):
        ImageSplit(valid=0.5, test=0.5).rows(10, "train")


def test_crops_and_mirrors_only_move_pixels():
    pixels, _ = generated_images(rows=6, side=16).take(np.arange(6))
    moved = augmented(pixels + 100, np.random.default_rng(0))
    assert moved.shape == pixels.shape
    for before, after in zip(pixels + 100, moved):
        kept = after[after > 50]
        assert len(kept) >= 3 * 12 * 12  # at most two rows and columns left the picture on each side
        assert np.isin(kept.numpy(), before.numpy()).all()


def test_mistakes_are_named(tmp_path):
    with pytest.raises(ConfigError, match="no setting depth"):
        config(space={"name": "darts", "network": {"depth": 3}})
    with pytest.raises(ConfigError, match="nasbench101"):
        check_settings(ImageSearchConfig, {"space": {"name": "nasrec-small"}}, "the test")


def test_a_run_on_other_images_is_refused(tmp_path):
    one = {"method": "random", "candidates": 1}
    for number in range(2):
        drawn = generated_images(rows=60, side=32, seed=number)
        np.savez(tmp_path / f"{number}.npz", images=drawn.images, labels=drawn.labels)
    given = [{"name": "cifar10", "path": str(tmp_path / f"{number}.npz")} for number in range(2)]
    run_search(config("mlp", search=one, images=given[0]), tmp_path / "run")
    shutil.copy(tmp_path / "0.npz", tmp_path / "moved.npz")
    run_search(config("mlp", search=one, images=given[0] | {"path": str(tmp_path / "moved.npz")}), tmp_path / "run")
    with pytest.raises(RunError, match="the data were"):
        run_search(config("mlp", search=one, images=given[1]), tmp_path / "run")


def test_the_shipped_config_is_for_this_search():
    shipped = load_search(resource_dir("configs") / "darts/hnas.yaml")
    assert isinstance(shipped, ImageSearchConfig)
    assert shipped.search.method == "hnas"


def test_a_search_of_cells_begins_with_seeds(tmp_path):
    """A cell in its notation and one in a file; both are queried, or are at least in the pool."""
    space, rng = get_space("nasbench101"), np.random.default_rng(3)
    first, second = space.sample(rng), space.sample(rng)
    (tmp_path / "cell.json").write_text(json.dumps(space.to_dict(second)))
    seeds = [first.text, str(tmp_path / "cell.json")]
    small = {"method": "random", "candidates": 2, "seeds": seeds}
    run_search(config("nasbench101", search=small), tmp_path / "random")
    lines = [line for line in told(tmp_path / "random") if line["event"] == "candidate"]
    assert [(line["key"], line["origin"]) for line in lines] == [
        (space.key(first), "seed"), (space.key(second), "seed")
    ]  # fmt: skip
    pooled = {"method": "rank-pool", "candidates": 1, "pool": 3, "by": {"params": "max"}, "seeds": seeds}
    run_search(config("nasbench101", search=pooled), tmp_path / "pool")
    keys = {line["key"] for line in map(json.loads, (tmp_path / "pool" / "pool.jsonl").open())}
    assert {space.key(first), space.key(second)} <= keys
