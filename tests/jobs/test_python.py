"""docs/python.md, executed on generated rows; and what its functions refuse."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import recnas
from recnas.cli.main import main
from recnas.data.prepared import PreparedData
from recnas.errors import ConfigError, DataError, RunError
from recnas.serve.predict import predict
from recnas.tasks.settings import CtrSearchConfig
from tests.jobs.search_helpers import as_yaml, small_search

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
QUICK, SCORED, OBJECTS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
COLUMNS = ["label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]
ONE_PASS = '"seeds=1", "epochs=1", "schedule=cosine", "stop.patience=null", workers=1'


def tiny(text: str, **changes: str) -> str:
    """The page's code with small settings; every one that is replaced must be there."""
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def work(short_file: Path, tmp_path_factory: pytest.TempPathFactory):
    """The folder in which the page's first two pieces of code were run, and what the first one left."""
    folder = tmp_path_factory.mktemp("python")
    shutil.copy(short_file, folder / "ads.tsv")
    config = as_yaml(small_search("elsewhere", final={"candidates": 1, "rows": 500}), folder / "small.yaml")
    small = "data=data, workers=1)\nprint(run"
    quick = tiny(
        QUICK, **{"data=data)\nprint(run": small, '"synthetic/laptop"': repr(str(config)), '"seeds=1"': ONE_PASS}
    )
    scored = tiny(SCORED, **{'["sigeo", "params"]': '["sigeo", "params"], "batches=2", "batch_size=64", workers=1'})
    scored = tiny(
        scored,
        **{
            '"runs/warm",': '"runs/warm", "space.blocks=3", "check.archs=1", "warmup.data_share=0.05", "warmup.least_steps=10",'
        },
    )
    names: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        # What takes longest and is tested elsewhere: seconds of timing, and a second process that scores raw rows.
        patch.setattr("recnas.train.latency.answer_times", lambda *_, on: {1: [0.001], 512: [0.001]})
        patch.setattr("recnas.serve.export.check_raw_rows", lambda *_: {})
        exec(compile(quick, str(PAGE), "exec"), names)
        exec(compile(scored, str(PAGE), "exec"), names)
    return folder, names


def test_the_page_begins_with_at_most_25_lines():
    assert len(QUICK.splitlines()) <= 25


def test_rows_of_a_frame_are_predicted_as_those_of_a_file(work):
    folder, _ = work
    model = recnas.load(folder / "runs/first", data=folder / "data/ads")
    predict(f"{folder}/runs/first", [folder / "ads.tsv"], folder / "file.csv", data=folder / "data/ads")
    wanted = pd.read_csv(folder / "file.csv")["probability"].to_numpy()
    frame = pd.read_csv(folder / "ads.tsv", sep="\t", names=COLUMNS, dtype=str)
    found = model.predict(frame)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert found.std() > 0
    # In another order, without the label, with numbers as numbers, some rows only, under their own index.
    some = frame.drop(columns="label").iloc[700:650:-1, ::-1]
    some = some.assign(I1=pd.to_numeric(some["I1"]), C3=some["C3"].astype("category"))
    again = model.predict(some)
    assert list(again.index) == list(range(700, 650, -1))
    np.testing.assert_allclose(again, found.loc[again.index], rtol=1e-6)
    assert model.predict(frame.iloc[:0]).empty


def test_frames_that_are_refused(work):
    model = recnas.load(work[0] / "runs/first", data=work[0] / "data/ads")
    frame = pd.read_csv(work[0] / "ads.tsv", sep="\t", names=COLUMNS, dtype=str, nrows=4)
    with pytest.raises(DataError, match=r"no column C7, which the model reads"):
        model.predict(frame.drop(columns="C7"))
    with pytest.raises(DataError, match=r"Row 2 of the frame, column I5: not a number \('many'\)"):
        model.predict(frame.assign(I5=["1", "2", "many", "4"]))
    with pytest.raises(DataError, match=r"C2 of the frame holds numbers.*\n.*dtype=\{\"C2\": str\}"):
        model.predict(frame.assign(C2=[10, 20, 30, 40]))
    with pytest.raises(DataError, match="holds values of several kinds"):
        model.predict(frame.assign(C2=["a", 1, 2.5, None]))
    with pytest.raises(DataError, match="more than one column C2"):
        model.predict(pd.concat([frame, frame[["C2"]]], axis=1))
    with pytest.raises(DataError, match="a ndarray alone"):
        model.predict(frame.to_numpy())


def test_batches_are_the_rows_that_were_prepared(work):
    data = PreparedData.open(work[0] / "data/ads")
    ids = torch.cat([batch.ids for batch in data.batches("valid", 100)])
    assert torch.equal(ids, torch.from_numpy(np.asarray(data.array("valid", "ids"))).long())
    orders = [
        torch.cat([batch.ids for batch in data.batches("train", 100, shuffle=True, seed=1, epoch=epoch)])
        for epoch in (0, 0, 1)
    ]
    assert torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[0], orders[2])
    assert sorted(orders[0].tolist()) == sorted(orders[2].tolist())
    with pytest.raises(DataError, match="There is no split 'training'"):
        data.batches("training")


def test_scores_are_those_of_the_command(work, capsys):
    folder, names = work
    archs = folder / "archs.jsonl"
    archs.write_text("".join(json.dumps(names["warm"].space.to_dict(arch)) + "\n" for arch in names["archs"]))
    command = ["score", str(folder / "runs/warm"), "--archs", str(archs), "--proxies", "sigeo,params", "--json"]
    shutil.rmtree(folder / "runs/warm/scores")  # or they would be read, not computed
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main([*command, "--workers", "1", "--quiet", "batches=2", "batch_size=64"]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        again = recnas.score(3, "runs/warm", ["params"], "batches=2", "batch_size=64", workers=1)
        by_file = recnas.score(archs, names["warm"], ["params"], "batches=2", "batch_size=64", workers=1)
    assert [line["key"] for line in lines] == [arch.shared_key for arch in names["archs"]]
    assert lines[-1]["scores"]["sigeo"]["value"] == names["line"].scores["sigeo"].value
    assert len(again) == 3
    assert [line.key for line in by_file] == [line["key"] for line in lines]


def test_comparison_training_and_export_can_be_used(work):
    folder, names = work
    board, run = names["board"], names["run"]
    assert set(board.table()["model"]) == {"lr", "runs/first:best"}
    assert list(board.table()["logloss"]) == sorted(board.table()["logloss"])
    stored = list(csv.DictReader((folder / "runs/cmp/leaderboard.csv").open()))
    assert [row["model"] for row in stored] == list(board.table()["model"])
    assert (folder / "served" / "model.pt2").exists()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        trained = recnas.train_model(
            run.best.arch, "data/ads", "runs/one", "epochs=0.2", "schedule=cosine", "stop.patience=null", seed=3
        )
        batch = next(iter(PreparedData.open("data/ads").batches("test", 8)))
        assert torch.equal(
            trained.load().predict(batch.dense, batch.ids),
            recnas.load("runs/one:seed-3").predict(batch.dense, batch.ids),
        )


def test_objects_are_settings_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The page's third piece of code, as far as the search: what would be searched is what was said."""
    import recnas.jobs.search as job

    given: list[CtrSearchConfig] = []

    def only_look(config, out, how):
        given.append(config)
        assert how.workers == 2
        raise RunError("looked")

    monkeypatch.setattr(job, "search", only_look)
    with pytest.raises(RunError, match="looked"):
        exec(compile(OBJECTS, str(PAGE), "exec"), {"recnas": recnas})
    assert given[0].space.name == "nasrec-plus"
    assert given[0].search.generations == 50
    assert given[0].limits.params == 2e6
    with pytest.raises(ConfigError, match=r"search.generation.*did you mean 'generations'"):
        recnas.search(given[0], tmp_path, "search.generation=5")
    with pytest.raises(ConfigError, match="are texts"):
        recnas.search(given[0], tmp_path, {"data": 7})  # type: ignore[arg-type]


def test_what_is_refused(work, tmp_path: Path):
    folder, names = work
    with pytest.raises(ConfigError, match="no option 'min_counts'; did you mean 'min_count'"):
        recnas.prepare("criteo", folder / "ads.tsv", tmp_path / "data", min_counts=5)
    with pytest.raises(ConfigError, match="a list of names, not 'sigeo'"):
        recnas.score(2, names["warm"].path, "sigeo")
    with pytest.raises(RunError, match="is the folder of a search run, not of a warmup run"):
        recnas.score(2, folder / "runs/first")
    with pytest.raises(ConfigError, match="a prepared data set is needed"):
        recnas.compare(["lr"], tmp_path / "cmp")
    with pytest.raises(ConfigError, match="did you mean 'epochs'"):
        recnas.compare(["lr"], tmp_path / "cmp", "epoch=1", data=folder / "data/ads")
