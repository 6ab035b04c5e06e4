"""Scoring lists of architectures, building a small table, and comparing proxies with it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from recnas.bench.build_settings import BenchSettings
from recnas.cli.main import main
from recnas.engines.execution import Execution
from recnas.errors import DataError, RunError, SpaceError
from recnas.evaluators.settings import ScoreSettings
from recnas.jobs.bench import bench_build
from recnas.jobs.score import draw_archs, score_archs
from recnas.space.settings import SpaceSettings
from recnas.train.settings import CheckSettings, OnePass, WarmupConfig, WarmupShare
from recnas.train.warmup import load_warmed, warmup

SPACE = SpaceSettings(blocks=3)
SETTINGS = ScoreSettings(proxies=("sigeo", "naswot", "params"), batches=2, batch_size=64)


@pytest.fixture(scope="module")
def warm(criteo_data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("warm") / "run"
    share = WarmupShare(data_share=0.05, least_steps=10)
    warmup(WarmupConfig(data=str(criteo_data.path), space=SPACE, warmup=share, check=CheckSettings(archs=0)), out)
    return out


@pytest.fixture(scope="module")
def bench(criteo_data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bench") / "run"
    bench_build(criteo_data, out, 5, 1, BenchSettings(space=SPACE, rows=1500, eval_rows=500))
    return out


def without_clock(results) -> list[dict]:
    return [{name: value for name, value in line.to_json().items() if name != "seconds"} for line in results]


def test_scores_come_in_order_once_per_network_and_resume(warm: Path):
    space = load_warmed(warm)[0].space
    archs = draw_archs(space, 0, 4)
    archs.append(archs[1])
    first = list(score_archs(warm, archs, SETTINGS))
    assert [line.arch for line in first] == archs
    assert first[4].scores == first[1].scores
    assert first[4].seconds == first[1].seconds, "the same network was scored again"
    assert set(first[0].scores) == {"sigeo", "naswot", "params"}
    assert set(first[0].scores["sigeo"].terms) == {"zico", "fr", "loss"}
    assert list(score_archs(warm, archs, SETTINGS)) == first, "not read back from the file"
    (file,) = (warm / "scores").glob("*.jsonl")
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:2]) + lines[2][:10])  # a crash in the middle of the third
    assert without_clock(score_archs(warm, archs, SETTINGS)) == without_clock(first)


def test_the_number_of_workers_changes_nothing(warm: Path):
    archs = draw_archs(load_warmed(warm)[0].space, 7, 4)
    one = without_clock(score_archs(warm, archs, SETTINGS))
    for file in (warm / "scores").glob("*.jsonl"):
        file.unlink()
    assert without_clock(score_archs(warm, archs, SETTINGS, Execution(workers=2))) == one


def test_scoring_leaves_the_warmed_weights_alone(warm: Path):
    (checkpoint,) = (warm / "supernet").glob("step-*/tensors.safetensors")
    before = checkpoint.read_bytes()
    list(score_archs(warm, 2, ScoreSettings(proxies=("sigeo", "grasp", "synflow", "zen"), batches=2, batch_size=32)))
    assert checkpoint.read_bytes() == before


def test_the_command_prints_json_lines(warm: Path, tmp_path: Path, capsys):
    assert (
        main(
            [
                "score",
                str(warm),
                "--random",
                "2",
                "--proxies",
                "sigeo,params",
                "--json",
                "--quiet",
                "--workers",
                "1",
                "batches=2",
                "batch_size=64",
            ]
        )
        == 0
    )
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [set(line) for line in lines] == [{"event", "key", "arch", "scores", "seconds"}] * 2
    file = tmp_path / "archs.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    assert (
        main(["score", str(warm), "--archs", str(file), "--workers", "1", "--quiet", "batches=2", "batch_size=64"]) == 0
    )
    assert lines[0]["key"] in capsys.readouterr().out
    assert main(["score", str(warm), "--random", "2", "--proxies", "sigio,narwot"]) == 2
    message = capsys.readouterr().err
    assert "sigeo" in message
    assert "naswot" in message
    assert main(["score", str(warm)]) == 2
    assert "--archs FILE.jsonl or --random N" in capsys.readouterr().err


def test_architectures_that_do_not_fit_are_all_named(warm: Path):
    good = draw_archs(load_warmed(warm)[0].space, 0, 1)[0]
    with pytest.raises(SpaceError, match=r"2 of 3 architectures do not fit nasrec-small:\n  line 2: .*\n  line 3: "):
        list(score_archs(warm, [good, {}, {**good, "blocks": good["blocks"][:1]}], SETTINGS))


def test_a_table_continues_and_does_not_depend_on_workers(criteo_data, bench: Path, tmp_path: Path):
    from recnas.bench.ctr_table import CtrTable

    table = CtrTable.read(bench)
    assert len(table.valid) == 5
    settings = BenchSettings(space=SPACE, rows=1500, eval_rows=500)
    bench_build(criteo_data, tmp_path / "other", 2, 1, settings, how=Execution(workers=2))
    assert bench_build(criteo_data, tmp_path / "other", 5, 1, settings)["trained"] == 3
    assert CtrTable.read(tmp_path / "other").valid == table.valid


def test_a_table_is_continued_from_its_file_alone(criteo_data, bench: Path, tmp_path: Path):
    settings = BenchSettings(space=SPACE, rows=1500, eval_rows=500)
    kept = tmp_path / "kept.parquet"
    kept.write_bytes((bench / "table.parquet").read_bytes())
    assert bench_build(criteo_data, tmp_path / "more", 6, 1, settings, start=kept)["trained"] == 1
    whole = bench_build(criteo_data, tmp_path / "whole", 6, 1, settings)
    columns = ["index", "key", "seed", "arch", "valid_logloss", "test_auc", "train_loss"]
    assert pq.read_table(tmp_path / "more" / "table.parquet", columns=columns).equals(
        pq.read_table(whole["table"], columns=columns)
    )
    with pytest.raises(RunError, match="made with other settings"):
        bench_build(criteo_data, tmp_path / "no", 6, 1, settings.model_copy(update={"rows": 1400}), start=kept)


def test_correlate_and_regret(bench: Path, warm: Path, tmp_path: Path, capsys):
    command = ["correlate", str(warm), "--table", str(bench), "--proxies", "sigeo,params", "--batches", "2", "--batch-size", "64",
               "--shared-rows", "200", "--quiet"]  # fmt: skip
    assert main([*command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    by_name = {row["proxy"]: row for row in rows}
    assert set(by_name) == {
        "sigeo",
        "sigeo.zico",
        "sigeo.fr",
        "sigeo.loss",
        "params",
        "shared_logloss",
        "params (table)",
        "macs (table)",
    }
    assert by_name["params"]["spearman"] == pytest.approx(by_name["params (table)"]["spearman"])
    assert all(row["n"] == 5 and -1 <= row["spearman"] <= 1 for row in rows)
    assert main([*command[:4], "--vote", "params,naswot", *command[6:-3], "--quiet", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {"vote", "params", "naswot"} < {row["proxy"] for row in rows}
    assert main(["bench", "regret", str(bench), "--seeds", "3", "--candidates", "4"]) == 0
    assert "evolution" in capsys.readouterr().out
    ordered = [
        "bench",
        "regret",
        str(bench),
        "--methods",
        "random",
        "--seeds",
        "2",
        "--supernet",
        str(warm),
        "--proxies",
        "params,flops",
    ]
    assert main([*ordered, "--candidates", "5", "--workers", "1", "--quiet", "--json"]) == 0
    curves = {curve["method"]: curve["mean"] for curve in json.loads(capsys.readouterr().out)["curves"]}
    assert set(curves) == {"random", "by params", "by flops", "by vote"}
    assert curves["by params"][-1] == 0  # all five were trained by then
    assert main(["bench", "build", "--archs", "2"]) == 2
    assert "a prepared data set is needed" in capsys.readouterr().err


def test_a_second_warm_up_is_laid_beside_the_first(bench: Path, warm: Path, criteo_data, tmp_path: Path, capsys):
    cold = tmp_path / "cold"
    warmup(
        WarmupConfig(
            data=str(criteo_data.path), space=SPACE, warmup=WarmupShare(data_share=0), check=CheckSettings(archs=0)
        ),
        cold,
    )
    command = [
        "correlate",
        str(cold),
        str(warm),
        "--table",
        str(bench),
        "--proxies",
        "sigeo,params",
        "--batches",
        "2",
        "--batch-size",
        "64",
        "--quiet",
    ]
    assert main([*command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    before, after = ({row["proxy"]: row for row in rows if row["run"] == str(run)} for run in (cold, warm))
    assert not any("change" in row for row in before.values())
    assert after["sigeo"]["change"] == pytest.approx(after["sigeo"]["spearman"] - before["sigeo"]["spearman"])
    assert (after["params"]["change"], after["params"]["change_interval"]) == (0, [0, 0]), "sizes do not learn"
    assert main(command) == 0
    assert "change of Spearman" in capsys.readouterr().out


def test_a_warm_up_of_other_data_is_refused(bench: Path, warm: Path):
    from dataclasses import replace

    from recnas.bench.ctr_table import CtrTable
    from recnas.jobs.correlate import correlate

    with pytest.raises(DataError, match="the table was trained on 000000000000"):
        correlate([warm], replace(CtrTable.read(bench), data="0" * 64), SETTINGS)


def test_a_table_with_learning_curves_is_the_training_looked_at_in_between(criteo_data, tmp_path: Path):
    from recnas.bench.ctr_table import CtrTable

    train = OnePass(schedule="constant")
    settings = BenchSettings(space=SpaceSettings(name="nasrec-plus", blocks=3), rows=2048, eval_rows=500, train=train)
    rungs = settings.model_copy(update={"rungs": (0.25, 0.5)})
    bench_build(criteo_data, tmp_path / "plain", 3, 1, settings)
    bench_build(criteo_data, tmp_path / "curves", 2, 1, rungs)
    bench_build(criteo_data, tmp_path / "curves", 3, 1, rungs)  # goes on
    plain, curves = CtrTable.read(tmp_path / "plain"), CtrTable.read(tmp_path / "curves")
    assert (curves.rungs, plain.rungs, plain.curves) == ((0.25, 0.5, 1.0), (), {})
    assert curves.valid == plain.valid  # a look changes nothing
    assert {key: curve[-1] for key, curve in curves.curves.items()} == curves.valid
    # The same training, ended at the first rung: 512 of its rows.
    short = settings.model_copy(update={"rows": 2048, "train": train.model_copy(update={"epochs": 0.25})})
    bench_build(criteo_data, tmp_path / "short", 3, 1, short)
    quarter = CtrTable.read(tmp_path / "short").valid
    assert {key: curve[0] for key, curve in curves.curves.items()} == pytest.approx(quarter, abs=1e-6)
    # Continued from its file alone.
    kept = tmp_path / "curves" / "table.parquet"
    assert bench_build(criteo_data, tmp_path / "more", 3, 1, rungs, start=kept)["trained"] == 0
    assert CtrTable.read(tmp_path / "more").curves == curves.curves


def test_rungs_that_no_race_has_are_refused(criteo_data, tmp_path: Path, capsys):
    build = [
        "bench",
        "build",
        "--data",
        str(criteo_data.path),
        "--archs",
        "1",
        "--out",
        str(tmp_path / "no"),
        "rows=500",
    ]
    for setting, why in (
        ("rungs=[0.25]", "train.schedule=constant"),
        ("rungs=[0.5,0.25]", "rising"),
        ("rungs=[1]", "rising"),
    ):
        assert main([*build, setting]) == 2
        assert why in capsys.readouterr().err
