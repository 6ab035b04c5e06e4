"""Three days of a log: the first is prepared and trained, the second extended and gone on with, the third scored."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from recnas.cli.main import main
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepared import PreparedData
from recnas.errors import ConfigError, DataError
from recnas.files import read_json, write_json
from recnas.runs.checks import with_check
from recnas.serve.load import TrainedModel, load_trained
from recnas.space.nasrec.json import dump_arch
from recnas.space.registry import get_space
from recnas.tasks.models import resolve
from tests.unit.report.small_runs import write_search

RECIPE = """
name: days
separator: ","
header: true
label: {column: y}
dense: [{columns: [price], transform: quantile, embed: true, buckets: 4}, {columns: [views], transform: standardise, indicator: true}]
sparse: [{columns: [user]}, {columns: [item], kind: int, min_count: 2}, {columns: [word], hash: 50},
  {columns: [at], kind: time, format: epoch-seconds, zone: "+02:00", derive: {hour: hour, weekday: weekday}}]
"""


def write_day(folder: Path, day: int, rows: int = 900) -> Path:
    """Users and items come and go: each day has some that no day before had."""
    rng = np.random.default_rng(day)
    lines = ["y,price,views,user,item,word,at"]
    for _ in range(rows):
        user, item = int(rng.integers(10 * day, 40 + 20 * day)), int(rng.integers(5 * day, 30 + 10 * day))
        at = 1_709_251_200 + 86400 * day + int(rng.integers(86400))
        y = int(rng.random() < (0.7 if user % 3 == 0 else 0.2))
        lines.append(f"{y},{rng.lognormal(day):.3f},{rng.integers(9) or ''},u{user},{item},w{rng.integers(200)},{at}")
    (folder / f"day{day}.csv").write_text("\n".join(lines) + "\n")
    return folder / f"day{day}.csv"


@pytest.fixture(scope="module")
def days(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("days")
    (folder / "r.yaml").write_text(RECIPE)
    for day in (1, 2, 3):
        write_day(folder, day)
    prepare(str(folder / "r.yaml"), [folder / "day1.csv"], folder / "d1", threads=1)
    extended = PrepareOptions(extend=str(folder / "d1"))
    prepare(None, [folder / "day2.csv"], folder / "d2", extended, threads=1)
    return folder


def values(data: PreparedData, column: str) -> list[str]:
    return pq.read_table(data.path / "vocab" / f"{column}.parquet")["value"].to_pylist()


def test_old_ids_stay_and_new_values_follow(days: Path):
    one, two = PreparedData.open(days / "d1"), PreparedData.open(days / "d2")
    for column in ("user", "item"):
        before, after = values(one, column), values(two, column)
        assert after[: len(before)] == before
        assert len(after) > len(before)
        assert len(set(after)) == len(after)
    assert two.schema.dense == one.schema.dense  # statistics and quantiles of the first day
    assert two.schema.sparse[0].edges == one.schema.sparse[0].edges
    assert two.keeps_ids_of(one.fingerprint)
    assert not two.same_vocabulary_as(one.fingerprint)
    ids = {field.name: place for place, field in enumerate(two.schema.sparse)}
    assert two.summary()["first_day"] == one.fingerprint
    users = values(two, "user")
    text = (days / "day2.csv").read_text().splitlines()[1:]
    seen = sorted(
        users[i - 2] for s in ("train", "valid", "test") for i in two.array(s, "ids")[:, ids["user"]] if i > 1
    )
    known = set(users)
    assert seen == sorted(u for u in (line.split(",")[3] for line in text) if u in known)


def test_like_is_the_same_rows_with_the_same_ids(days: Path, tmp_path: Path):
    """The first day, encoded again like itself: nothing differs."""
    one = PreparedData.open(days / "d1")
    again = prepare(None, [days / "day1.csv"], tmp_path / "again", PrepareOptions(like=str(days / "d1")), threads=1)
    assert again.fingerprint == one.fingerprint
    other = prepare(None, [days / "day3.csv"], tmp_path / "d3", PrepareOptions(like=str(days / "d1")), threads=1)
    assert other.vocabulary == one.vocabulary
    assert other.same_vocabulary_as(one.fingerprint)
    assert other.schema == one.schema
    assert other.fingerprint != one.fingerprint
    assert other.manifest["unknown"]["train"]["user"] > 0  # new users have no id


def run(*args: object) -> int:
    return main([str(arg) for arg in args])


def test_a_training_goes_on_with_grown_tables(days: Path, tmp_path: Path, capsys):
    arch = get_space("nasrec-small", blocks=1, dense_dims=(16,), sparse_dims=(16,)).sample(np.random.default_rng(1))
    (tmp_path / "arch.json").write_text(dump_arch(arch))
    sizes = ["batch_size=64", "embeddings.width=4", "epochs=1", "schedule=constant", "stop.patience=null"]
    one, two = tmp_path / "one", tmp_path / "two"
    assert run("train", tmp_path / "arch.json", "--data", days / "d1", "--out", one, *sizes) == 0
    assert run("train", "lr=2e-8", "embeddings.lr=2e-8", "--from", one, "--data", days / "d2", "--out", two) == 0
    before, after = load_trained(one), load_trained(two)
    assert after.settings.embeddings.width == 4
    assert json.loads((two / "manifest.json").read_text())["from"]["data"] == before.fingerprint
    # With a rate of almost nothing the weights are those of the first day, and tables have rows behind them.
    for (name, old), new in zip(tables(before).items(), tables(after).values()):
        assert len(new) >= len(old)
        np.testing.assert_allclose(new[: len(old)], old, atol=1e-5, err_msg=name)
    assert sum(map(len, tables(after).values())) > sum(map(len, tables(before).values()))
    weights = dict(before.network.named_parameters())
    for name, parameter in after.network.named_parameters():
        np.testing.assert_allclose(parameter.detach(), weights[name].detach(), atol=1e-5, err_msg=name)
    # What is exported reads raw rows of every kind of column as `prepare` does, which `export` itself checks.
    assert run("export", two, "--to", "pt2", "--out", tmp_path / "served") == 0
    checked = json.loads((tmp_path / "served" / "model.json").read_text())["program"]["check"]["raw"]
    assert checked["from_file"] > 0
    assert checked["rebuilt"] > 0
    # The third day is scored with the vocabulary of the second.
    assert run("predict", two, "--raw", days / "day3.csv", "--out", tmp_path / "p.csv") == 0
    capsys.readouterr()
    write_day(tmp_path, 7)
    (tmp_path / "r.yaml").write_text(RECIPE)
    prepare(str(tmp_path / "r.yaml"), [tmp_path / "day7.csv"], tmp_path / "d7", threads=1)
    assert run("train", "--from", one, "--data", tmp_path / "d7", "--out", tmp_path / "x") == 2
    assert "recnas prepare --extend" in capsys.readouterr().err
    assert run("predict", one, "--raw", days / "day3.csv", "--data", days / "d2", "--out", tmp_path / "q.csv") == 2
    assert run("train", "--from", one, "--data", days / "d2", "--out", tmp_path / "y", "embeddings.width=8") == 2
    assert "cannot be taken over" in capsys.readouterr().err
    prepare(None, [days / "day3.csv"], tmp_path / "d3", PrepareOptions(like=str(days / "d1")), threads=1)
    assert run("predict", one, "--raw", days / "day3.csv", "--data", tmp_path / "d3", "--out", tmp_path / "q.csv") == 0


def test_a_winner_can_be_compared_on_data_that_keep_its_ids(days: Path, tmp_path: Path):
    run_folder = write_search(tmp_path / "search", days / "d1")
    manifest = {key: value for key, value in read_json(run_folder / "manifest.json").items() if key != "check"}
    manifest["data"]["fingerprint"] = PreparedData.open(days / "d1").fingerprint
    write_json(run_folder / "manifest.json", with_check(manifest))
    for folder in ("d1", "d2"):
        (winner,) = resolve([f"{run_folder}:best"], PreparedData.open(days / folder))
        assert winner.label.endswith("search:best")
    (tmp_path / "r.yaml").write_text(RECIPE)
    prepare(str(tmp_path / "r.yaml"), [days / "day3.csv"], tmp_path / "other", threads=1)
    with pytest.raises(ConfigError, match="was searched on other data"):
        resolve([f"{run_folder}:best"], PreparedData.open(tmp_path / "other"))


def tables(model: TrainedModel) -> dict[str, np.ndarray]:
    rows, (stack,) = model.tables.row_map, model.tables.stacks
    return {name: stack[start : start + n].numpy() for name, start, n in zip(rows.names, rows.starts, rows.rows)}


@pytest.mark.parametrize(
    ("recipe", "options", "says"),
    [
        ("r.yaml", {"like": "d1"}, "Leave the recipe out"),
        (None, {"like": "d1", "extend": "d1"}, "Give one of them"),
        (None, {}, "There is no recipe"),
        (None, {"like": "d1", "with_columns": ("x",)}, "--with cannot be given"),
        (None, {"like": "nothing"}, "is not a prepared data set"),
    ],
)
def test_mistakes_are_told(days: Path, tmp_path: Path, recipe: str | None, options: dict, says: str):
    given = {k: str(days / v) if k in ("like", "extend") else v for k, v in options.items()}
    with pytest.raises((ConfigError, DataError)) as caught:
        prepare(recipe and str(days / recipe), [days / "day2.csv"], tmp_path / "x", PrepareOptions(**given))
    assert says in f"{caught.value}"
