"""Searches and correlations on a generated table of cells, end to end, through the commands."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recnas.bench.nasbench201 import Nb201Table, write_generated
from recnas.bench.pack_scores import pack_scores
from recnas.bench.score_table import ScoreTable
from recnas.cli.main import main
from recnas.engines.execution import Execution
from recnas.errors import ConfigError, RunError
from recnas.jobs.score_cells import sample_cells
from recnas.jobs.search import search, search_task
from recnas.progress import Progress
from recnas.resources import resource_dir
from recnas.runs.ledger import Ledger
from recnas.space.nasbench201 import Nb201Space
from recnas.space.nasbench201.key import key
from recnas.space.nasbench201.skeleton import count
from recnas.space.networks import cost
from recnas.space.registry import get_space
from recnas.tasks.registry import load_search
from recnas.tasks.table import TableTask

NEEDS_SCORES = ("hnas", "eigen-nas", "naswot", "te-nas")
CELL = Nb201Space().from_text("222222")
METHODS = (*NEEDS_SCORES, "rea", "random", "reinforce", "bohb")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated table of all cells, and planted scores of all networks."""
    folder = tmp_path_factory.mktemp("tables")
    archs = list(Nb201Space().every())
    write_generated(folder / "nb201.parquet", archs)
    cells = {}
    for arch in archs:
        cells.setdefault(key(arch), arch)
    keys = tuple(sorted(cells))
    rng = np.random.default_rng(0)
    size = np.array([count(cells[k]).params for k in keys], dtype=float)
    columns = {
        "ntk_trace@16": np.sqrt(size) * rng.lognormal(0, 0.2, len(keys)),
        "ntk_cond@4": 1e9 / size * rng.lognormal(0, 0.5, len(keys)),
        "naswot@16": np.log(size),
    }
    columns["ntk_trace@16"][::97] = np.nan
    ScoreTable(keys, tuple(cells[k].text for k in keys), columns).write(folder / "scores.parquet")
    return folder


def config(tables: Path, name: str, *overrides: str):
    extra = [f"scores={tables / 'scores.parquet'}"] if name in NEEDS_SCORES else []
    small = {"hnas": ["search.pool=150"], "bohb": ["search.candidates=40", "search.draws=16"]}
    extra += small.get(name, [])
    return load_search(
        resource_dir("configs") / "nasbench201" / f"{name}.yaml", [f"table={tables}", *extra, *overrides]
    )


@pytest.fixture(scope="module")
def table(tables: Path) -> Nb201Table:
    return Nb201Table.read(tables)


def search_table(config, out, table=None):
    return search_task(TableTask(config, table), out)


def ledger(run: Path) -> list[dict]:
    lines = Ledger(run / "ledger.jsonl").read()
    return [line for line in lines if line["event"] == "candidate"]


@pytest.mark.parametrize("name", METHODS)
def test_every_shipped_search_finds_what_its_ledger_says(tables, table, tmp_path, name):
    result = search_table(config(tables, name), tmp_path, table=table)
    lines = [line for line in ledger(tmp_path) if line.get("values")]
    best = max(lines, key=lambda line: (line["values"]["valid_accuracy"], -line["index"]))
    assert result.winner.index == best["index"]
    cell = Nb201Space().from_dict(json.loads((tmp_path / "winner.json").read_text()))
    row = table.archs.index(cell)
    assert result.valid["accuracy"] == table.columns["cifar10_valid_12"][row]
    assert result.test == {
        data: table.columns[f"{data}_test_200"][row] for data in ("cifar10", "cifar100", "imagenet16")
    }
    assert result.extras["table_index"] == table.index[row]
    asked = [line for line in lines if "same_as" not in line]
    assert result.budget.scored == len(asked)
    assert result.budget.epochs == 12 * len(asked)


@pytest.mark.parametrize("name", ["hnas", "rea", "bohb"])
def test_a_ledger_cut_anywhere_gives_the_same_end(tables, table, tmp_path, name):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    expected = search_table(config(tables, name), whole, table=table)
    shutil.copytree(whole, cut)
    lines = (whole / "ledger.jsonl").read_text().splitlines(keepends=True)
    for keep in (0, 1, 7, 19):
        (cut / "ledger.jsonl").write_text("".join(lines[:keep]) + '{"event": "cand')
        (cut / "result.json").unlink()
        found = search_table(config(tables, name), cut, table=table)
        assert ledger(cut) == ledger(whole)
        assert found.model_copy(update={"seconds": {}}) == expected.model_copy(update={"seconds": {}})


def test_long_looks_are_charged_and_decide(tables, table, tmp_path):
    result = search_table(
        config(tables, "bohb", "query.levels=[12,200]", "search.candidates=40"), tmp_path, table=table
    )
    lines = ledger(tmp_path)
    assert {line["arch"]["level"] for line in lines} == {0, 1}
    assert result.budget.epochs == sum(line["facts"]["epochs"] for line in lines if "same_as" not in line)
    chosen = next(line for line in lines if line["index"] == result.winner.index)
    assert chosen["arch"]["level"] == 1
    with pytest.raises(ConfigError, match="for bohb"):
        search_table(config(tables, "random", "query.levels=[12,200]"), tmp_path / "other", table=table)


def test_limits_hold_and_count(tables, table, tmp_path):
    search_table(config(tables, "hnas", "limits.params=5e5"), tmp_path, table=table)
    assert all(line["cost"]["params"] <= 5e5 for line in ledger(tmp_path))


def test_another_table_or_another_setting_is_refused(tables, table, tmp_path):
    search_table(config(tables, "random"), tmp_path / "run", table=table)
    with pytest.raises(RunError, match="another run"):
        search_table(config(tables, "random", "seed=1"), tmp_path / "run", table=table)
    write_generated(tmp_path / "nb201.parquet", table.archs, seed=1)
    with pytest.raises(RunError, match="holds another run: the data were"):
        search_table(config(tables, "random"), tmp_path / "run", table=Nb201Table.read(tmp_path))
    (tmp_path / "nb201.parquet").write_bytes((tables / "nb201.parquet").read_bytes())  # the same table elsewhere
    assert search(config(tmp_path, "random"), tmp_path / "run").budget.proposed == 100


def test_the_commands_search_watch_resume_and_report(tables, tmp_path, capsys):
    run, extra = str(tmp_path / "run"), [f"table={tables}", f"scores={tables / 'scores.parquet'}", "search.pool=150"]
    assert main(["search", "nasbench201/hnas", "--out", run, "--quiet", *extra]) == 0
    said = capsys.readouterr().out
    assert "query" in said
    assert "240 epochs" in said
    assert "weights" not in said
    assert main(["search", "--resume", run, "--quiet"]) == 0
    assert main(["watch", run]) == 0
    assert "retrain" not in capsys.readouterr().out
    assert main(["search", "nasbench201/random", "--out", str(tmp_path / "random"), "--quiet", extra[0]]) == 0
    assert main(["report", run, str(tmp_path / "random"), "-o", str(tmp_path / "report.html")]) == 0
    assert "Mean test accuracy on cifar10" in capsys.readouterr().out
    assert main(["report", run, "-o", str(tmp_path / "report.md")]) == 0
    text = (tmp_path / "report.md").read_text()
    assert "log loss" not in text.split("<details>")[0]


def test_what_is_missing_is_said(tables, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("RECNAS_TABLES", raising=False)
    assert main(["search", "nasbench201/random", "--out", str(tmp_path / "a"), "--quiet"]) == 2
    assert "NATS-Bench" in capsys.readouterr().err
    assert (
        main(["search", "nasbench201/hnas", "--out", str(tmp_path / "b"), "--quiet", f"table={tables}", "scores=null"])
        == 2
    )
    assert "score table" in capsys.readouterr().err
    assert (
        main(
            [
                "search",
                "nasbench201/hnas",
                "--out",
                str(tmp_path / "c"),
                f"table={tables}",
                f"scores={tmp_path}/no.parquet",
            ]
        )
        == 2
    )
    assert "recnas bench pack" in capsys.readouterr().err


def test_scoring_packing_and_correlating_are_one_chain(tables, table, tmp_path, capsys):
    common = [
        f"table={tables}",
        "score.images.name=generated",
        "score.cells=1",
        "score.batch_size=8",
        "cells=60",
        "resamples=5",
    ]
    for width, proxies in ((2, "[ntk_trace,ntk_cond,knas,params]"), (3, "[ntk_trace,naswot]")):
        args = ["correlate", "nasbench201/correlate", "--out", str(tmp_path / f"c{width}"), "--quiet", *common]
        assert main([*args, f"score.channels={width}", f"score.proxies={proxies}", "datasets=[cifar10]"]) == 0
    capsys.readouterr()
    packed = tmp_path / "scores.parquet"
    assert main(["bench", "pack", str(tmp_path / "c2"), str(tmp_path / "c3"), "--out", str(packed)]) == 0
    networks = {key(table.archs[row]) for row in sample_cells(table, 60)}
    assert len(networks) < 60, "some of these cells are one network"
    assert f"{len(networks)} networks" in capsys.readouterr().out
    scores = ScoreTable.read(packed, key)
    assert set(scores.columns) == {
        "ntk_trace@2",
        "ntk_cond@2",
        "knas@2",
        "knas_root@2",
        "params@2",
        "ntk_trace@3",
        "naswot@3",
    }
    np.testing.assert_allclose(scores.columns["knas_root@2"] ** 2, scores.columns["knas@2"])
    lines = Ledger(tmp_path / "c3" / "ledger.jsonl").read()
    for line in lines:  # a degenerate network is a gap, any other is its score
        value = scores.columns["ntk_trace@3"][scores.keys.index(line["key"])]
        score = line["scores"]["ntk_trace"]
        assert np.isnan(value) if "reason" in score else value == score["value"]
    assert (
        main(
            [
                "correlate",
                "nasbench201/correlate-all",
                "--out",
                str(tmp_path / "all"),
                "--json",
                f"table={tables}",
                f"scores={packed}",
                "cells=60",
                "resamples=5",
            ]
        )
        == 0
    )
    rows = {row["proxy"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["params@2"]["spearman"] > 0.5, "generated accuracy grows with size"
    assert (
        rows["non-realizable ntk_trace@3, ntk_cond@2"]["spearman"]
        >= rows["kappa/M ntk_trace@3, ntk_cond@2"]["spearman"]
    )
    kept = json.loads((tmp_path / "all" / "correlation.json").read_text())
    assert {row["proxy"] for row in kept["rows"]} == set(rows)
    pairs = {(pair["first"], pair["second"]) for pair in kept["pairs"]}
    assert pairs == {("ntk_trace@3", "knas_root@2"), ("ntk_trace@3", "naswot@3"), ("knas_root@2", "naswot@3")}
    assert main(["report", str(tmp_path / "all" / "correlation.json"), "-o", str(tmp_path / "r.md")]) == 0


@pytest.mark.parametrize(
    ("space", "kind", "epochs"), [("nasbench101", "nasbench101", 108), ("darts", "nasbench301", 98)]
)
def test_cells_of_other_tables_are_correlated_too(space, kind, epochs, tmp_path, capsys):
    rng, cells = np.random.default_rng(0), get_space(space)
    archs = {cells.key(arch): arch for arch in (cells.sample(rng) for _ in range(8))}
    size = [cost(space, arch, image=8, channels=6, cells=1).params for arch in archs.values()]
    if space == "darts":
        named = {"genotype": [arch.text for arch in archs.values()]}
    else:
        both = [arch.text.split("/") for arch in archs.values()]
        named = {"adjacency": [matrix for matrix, _ in both], "ops": [ops for _, ops in both]}
    accuracy = 90 + np.argsort(np.argsort(size)) / 10  # as good as large
    pq.write_table(pa.table({**named, f"val_{epochs}": accuracy}), tmp_path / "t.parquet")
    args = [
        "correlate",
        f"{space}/correlate",
        "--out",
        str(tmp_path / "run"),
        "--json",
        "--quiet",
        f"table={tmp_path}/t.parquet",
        f"epochs={epochs}",
    ]
    args += [
        "cells=8",
        "resamples=5",
        "score.images.name=generated",
        "score.batch_size=8",
        "score.channels=6",
        "score.cells=1",
        "pairs=[naswot,params]",
    ]
    assert main([*args, "score.proxies=[params,naswot,ntk_trace,ntk_cond]"]) == 0
    rows = {row["proxy"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["params@6"]["n"] == len(archs)
    assert rows["params@6"]["spearman"] == pytest.approx(1.0, abs=0.05), "sizes may tie"
    assert "non-realizable ntk_trace@6, ntk_cond@6" in rows
    assert main(["bench", "pack", str(tmp_path / "run"), "--out", str(tmp_path / "scores.parquet")]) == 0
    capsys.readouterr()
    assert main([*args, f"scores={tmp_path}/scores.parquet", "score.proxies=[params]"]) == 0, (
        "the same from the packed table"
    )
    again = {row["proxy"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert again["naswot@6"]["spearman"] == rows["naswot@6"]["spearman"]
    assert main([*args, "datasets=[cifar100]"]) != 0
    assert f"{kind} was trained on cifar10 alone" in capsys.readouterr().err
    assert main(["correlate", f"{space}/correlate", "--out", str(tmp_path / "x"), "table=null"]) != 0
    assert f"recnas bench import {kind}" in capsys.readouterr().err


def test_two_different_spaces_in_a_config_are_refused(capsys, tmp_path):
    assert main(["correlate", "nasbench101/correlate", "--out", str(tmp_path / "x"), "score.space.name=darts"]) == 2
    assert "say it in space.name alone" in capsys.readouterr().err


def test_a_slip_in_the_name_of_a_config_is_answered_with_the_nearest(capsys):
    assert main(["correlate", "nasbench101/corelate", "--out", "x"]) == 2
    assert "nasbench101/correlate" in capsys.readouterr().err


def test_runs_that_overlap_or_hold_nothing_are_refused(tmp_path, tables):
    args = [
        "correlate",
        "nasbench201/correlate",
        "--out",
        str(tmp_path / "c2"),
        "--quiet",
        f"table={tables}",
        "score.images.name=generated",
    ]
    assert (
        main(
            [
                *args,
                "score.cells=1",
                "score.batch_size=8",
                "score.channels=2",
                "score.proxies=[params]",
                "cells=3",
                "resamples=0",
                "datasets=[cifar10]",
            ]
        )
        == 0
    )
    with pytest.raises(RunError, match="so does one before"):
        pack_scores([tmp_path / "c2", tmp_path / "c2"])
    (tmp_path / "c2" / "ledger.jsonl").write_text("")
    with pytest.raises(RunError, match="no network that all"):
        pack_scores([tmp_path / "c2"])


def test_a_packed_table_takes_further_scores(tmp_path, tables, capsys):
    args = ["correlate", "nasbench201/correlate", "--quiet", f"table={tables}", "score.images.name=generated", "score.cells=1", "score.batch_size=8",
            "score.channels=2", "resamples=0", "datasets=[cifar10]"]  # fmt: skip
    assert main([*args, "--out", str(tmp_path / "old"), "score.proxies=[params]", "cells=6"]) == 0
    assert main([*args, "--out", str(tmp_path / "new"), "score.proxies=[flops]", "cells=3"]) == 0
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    assert main(["bench", "pack", str(tmp_path / "old"), "--out", str(first)]) == 0
    assert main(["bench", "pack", str(first), str(tmp_path / "new"), "--out", str(second)]) == 0
    both, alone = ScoreTable.read(second), ScoreTable.read(first)
    assert set(both.columns) == {"params@2", "flops@2"}
    assert 0 < len(both) < len(alone)
    np.testing.assert_array_equal(both.columns["params@2"], alone.columns["params@2"][alone.rows_of(both.keys)])
    assert [run["proxies"] for run in both.facts["runs"]] == [["params"], ["flops"]]
    assert main(["bench", "pack", str(second), str(tmp_path / "new"), "--out", str(first)]) == 2
    assert "flops@2, and so does one before it" in capsys.readouterr().err
    assert main(["bench", "pack", str(tmp_path / "nothing"), "--out", str(first)]) == 2
    assert "no score table" in capsys.readouterr().err


def test_a_forecast_says_what_it_is_for(capsys):
    assert main(["forecast", "nasbench201/random"]) != 0
    assert "searches nasbench201; a forecast is for searches on prepared ad data" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["hnas", "naswot", "rea", "random", "reinforce", "bohb"])
def test_a_search_of_cells_begins_with_seeds(tables, table, tmp_path, name):
    best = table.archs[int(np.nanargmax(table.columns["cifar10_valid_12"]))]
    (tmp_path / "best.json").write_text(json.dumps(Nb201Space().to_dict(best)))
    seeds = f"search.seeds=['222222',{tmp_path / 'best.json'}]"
    heard = io.StringIO()
    how = Execution(progress=Progress(heard))
    result = search_task(TableTask(config(tables, name, seeds), table), tmp_path / "run", how=how)
    origins = {line["key"]: line["origin"] for line in ledger(tmp_path / "run")}
    if name in ("hnas", "naswot"):  # members of the pool, which their scores may pass over
        asked = {one for one, origin in origins.items() if origin == "seed"}
        assert asked <= {key(best), key(CELL)}
        notes = [line for line in heard.getvalue().splitlines() if "not proposed" in line]
        assert len(notes) == (len(asked) < 2)
        assert all(("222222" in line) == (key(CELL) not in asked) for line in notes)
    else:
        assert [(line["key"], line["origin"]) for line in ledger(tmp_path / "run")[:2]] == [
            (key(CELL), "seed"), (key(best), "seed")
        ]  # fmt: skip
        assert result.winner.key == key(best)


def test_seeds_that_are_no_cells_are_refused_by_name(tables, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "other.json").write_text('{"arch": "no cell"}')
    wrong = {"list.json": "holds no architecture", "other.json": "not a NAS-Bench-201"}
    for name, why in {"dcn-v2": "six digits", "nowhere.json": "cannot be read", **wrong}.items():
        with pytest.raises(ConfigError, match=f"search.seeds: {name} is no architecture of nasbench201") as error:
            TableTask(config(tables, "random", f"search.seeds=[{name}]"), table)
        assert why in error.value.what + error.value.fix
    with pytest.raises(ConfigError, match="begins with 1 at most") as error:
        TableTask(config(tables, "random", "search.candidates=1", "search.seeds=['341311','222222']"), table)
    assert "search.candidates=2" in error.value.fix
