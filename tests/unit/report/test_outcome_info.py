"""Tables of outcomes, verdicts, data and facts against values computed by hand."""

import json
import math
import shlex
import statistics
from pathlib import Path

import pytest
import yaml

from recnas.cli.main import main
from recnas.config import check_settings
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepared import PreparedData
from recnas.errors import RunError
from recnas.report import data_info, facts, outcome_info
from recnas.report.content import Code, Lines, all_files, make_report
from recnas.report.leaderboard import leaderboard
from recnas.report.not_done import not_done
from recnas.report.page import render
from recnas.report.table import Column, Table, two_digits
from recnas.report.verdict import verdict
from recnas.runs.checks import with_check
from recnas.runs.ledger import Ledger
from recnas.runs.read import read_inputs, read_run
from recnas.runs.records import Record, SeedTraining
from tests.unit.report.small_runs import (
    FINGERPRINT,
    add_lines,
    as_lines,
    candidate,
    search_manifest,
    trained,
    write_compare,
    write_data,
    write_run,
    write_search,
)


def judged(*paths):
    runs, tables = read_inputs(paths)
    points = outcome_info.truth(runs)
    return verdict(runs, leaderboard(runs), outcome_info.truth_summary(points, tables), tables)


def test_leaderboard_of_a_search_and_a_comparison(tmp_path: Path):
    runs, _ = read_inputs([write_search(tmp_path / "first"), write_compare(tmp_path / "compare")])
    table = leaderboard(runs)
    # The winner of the search and the model of the comparison are one network: one row, from both.
    assert [row["model"] for row in table.rows] == ["runs/first:best", "dcnv2", "deepfm"]
    assert table.rows[0]["where"] == "first, compare"
    assert table.rows[0]["seeds"] == 3  # the search's seeds 0, 1, 2 are those of the comparison
    assert table.rows[0]["test_logloss"] == pytest.approx(0.4994)
    assert table.rows[0]["delta_interval"] == pytest.approx([-0.0008, -0.0004])
    assert table.more["noise"] == pytest.approx([0.499, 0.501])  # dcnv2: 0.500 with a deviation of 0.001
    assert table.rows[1]["verdict"] == "reference"


def test_a_winner_that_was_not_compared_has_a_row_of_its_own(tmp_path: Path):
    (own,) = leaderboard([read_run(write_search(tmp_path / "first"))]).rows
    half = 4.303 * 0.01 / math.sqrt(3)
    assert own["model"] == "first: winner"
    assert own["test_logloss"] == 0.51
    assert own["test_logloss_std"] == 0.01
    assert own["interval"] == pytest.approx([0.51 - half, 0.51 + half])
    assert (own["seeds"], own["params"], own["flops"]) == (3, 60_000, 12_000)


def test_seeds_of_the_search_join_those_of_the_comparison(tmp_path: Path):
    first, compared = write_search(tmp_path / "first"), write_compare(tmp_path / "compare")
    ledger = first / "winner" / "ledger.jsonl"
    lines = [line | {"seed": 7 + number} for number, line in enumerate(Ledger(ledger).read())]
    ledger.write_text(as_lines([SeedTraining.model_validate(line) for line in lines]))
    row = leaderboard(read_inputs([first, compared])[0]).rows[-1]
    losses = [0.4994, 0.4984, 0.5004, 0.50, 0.51, 0.52]
    assert (row["model"], row["seeds"]) == ("runs/first:best", 6)
    assert row["test_logloss"] == pytest.approx(sum(losses) / 6)
    assert row["test_logloss_std"] == pytest.approx(statistics.stdev(losses))
    manifest = first / "winner" / "manifest.json"
    manifest.write_text(json.dumps(with_check(json.loads(manifest.read_text()) | {"on": "train+valid"})))
    table = leaderboard(read_inputs([first, compared])[0])
    assert (table.rows[0]["model"], table.rows[0]["seeds"]) == ("runs/first:best", 3)  # not trained alike
    assert "first trained its winner with other settings (test log loss 0.51000)" in table.note


def test_a_leaderboard_of_something_else_is_refused_by_name(tmp_path: Path):
    path = write_compare(tmp_path / "c")
    board = json.loads((path / "leaderboard.json").read_text())
    board["models"][1]["gauc"] = 0.61
    (path / "leaderboard.json").write_text(json.dumps(board))
    with pytest.raises(RunError, match=r"leaderboard.json is not what .* writes: models.1.gauc"):
        read_run(path)


def test_trained_candidates_and_truth(tmp_path: Path):
    run = read_run(write_search(tmp_path / "first"))
    table = outcome_info.trained_candidates([run])
    assert [(row["candidate"], row["score"], row["chosen"], row["rank"]) for row in table.rows] == [
        (6, 50, True, 1),
        (4, 40, False, 2),
        (2, 30, False, 3),
    ]
    assert [row["valid_logloss"] for row in table.rows] == pytest.approx([0.57, 0.61, 0.70])
    assert table.rows[0]["valid_logloss_std"] == pytest.approx(math.sqrt(0.0008))
    points = outcome_info.truth([run])
    assert sorted((row["score"], row["params"]) for row in points.rows) == [
        (30, 20_000),
        (40, 40_000),
        (50, 60_000),
    ]
    (row,) = outcome_info.truth_summary(points).rows
    assert (row["spearman"], row["kendall"], row["n"], row["share"]) == (None, None, 3, 0.01)
    assert row["reason"] == "3 networks: too few for a correlation"


def test_rank_correlation_from_eight_networks_on(tmp_path: Path):
    run = write_search(tmp_path / "first")
    for index in range(10, 15):  # five more: the higher the score, the lower the loss
        add_lines(run / "ledger.jsonl", [candidate(index, 100.0 + index), *trained(index, [0.5 - index / 100])])
    (row,) = outcome_info.truth_summary(outcome_info.truth([read_run(run)])).rows
    assert (row["n"], row["spearman"], row["kendall"]) == (8, 1, 1)
    assert row["spearman_interval"] == [1, 1]


def test_networks_for_images_are_judged_by_accuracy(tmp_path: Path):
    """The higher the score the higher the accuracy; and one proxy that is better when low."""
    lines: list[Record] = []
    for index in range(9):
        scores = {"sigeo": {"value": float(index)}, "ntk_cond": {"value": 100.0 - index}, "unheard": {"value": 1.0}}
        lines.append(candidate(index, float(index), scores=scores))
        lines.append(trained(index, [0.0])[0].model_copy(update={"valid": {"accuracy": 50.0 + index}}))
    manifest = search_manifest("images", {"final": {"candidates": 9, "seeds": 1}}) | {
        "task": "images",
        "phases": ["search", "finalists", "winner"],
        "directions": {"sigeo": "max", "ntk_cond": "min"},
        "metric": {"name": "accuracy", "direction": "max"},
    }
    report = make_report([write_run(tmp_path / "i", manifest, lines)])
    tables = {table.name: table for table in report.tables()}
    assert [row["valid_accuracy"] for row in tables["trained"].rows] == [58.0 - n for n in range(9)]
    assert {row["proxy"]: row["spearman"] for row in tables["truth_summary"].rows} == {"sigeo": 1, "ntk_cond": 1}
    assert tables["front"].title == "Best at their cost"
    assert len(tables["front"].rows) == 9  # more FLOPs, more accuracy
    assert "Accuracy against cost" in [section.title for section in report.sections]
    page = render(report, None)
    assert "log loss" not in page
    assert "FLOPs per image" in page


def test_a_finalist_that_failed_is_listed_with_the_reason(tmp_path: Path):
    run = write_search(tmp_path / "first")
    broken = trained(0, [0.5])[0].model_copy(update={"valid": {}, "failed": "the loss is not finite"})
    add_lines(run / "ledger.jsonl", [broken])
    report = make_report([run])
    rows = {table.name: table for table in report.tables()}["trained"].rows
    assert [row["candidate"] for row in rows] == [6, 4, 2, 1]  # last
    assert (rows[-1]["valid_logloss"], rows[-1]["failed"]) == (None, "the loss is not finite")
    assert "the loss is not finite" in render(report, None)


def test_correlations_from_a_file_join_the_summary(tmp_path: Path):
    row = {
        "run": "runs/warm",
        "share": 0.1,
        "proxy": "zico",
        "n": 50,
        "spearman": 0.4,
        "spearman_interval": [0.1, 0.6],
        "kendall": 0.3,
        "kendall_interval": [0.1, 0.4],
    }
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"table": "t", "rows": [row]}))
    runs, tables = read_inputs([path])
    assert outcome_info.truth_summary(outcome_info.truth(runs), tables).rows[0]["spearman"] == 0.4
    assert judged(path).sentence == (
        "zico ranks trained networks best at 10 % warm-up: Spearman +0.40 (95 % interval +0.10 to +0.60, 50 architectures); "
        "+1 is a perfect ranking."
    )
    path.write_text("{}")
    with pytest.raises(RunError, match="neither a run directory nor"):
        read_inputs([path])


def test_pareto_front(tmp_path: Path):
    runs, _ = read_inputs([write_search(tmp_path / "first"), write_compare(tmp_path / "compare")])
    table = outcome_info.pareto(runs)
    front = [(row["model"], row["what"]) for row in table.rows if row["front"]]
    # FLOPs and loss: 4k .70, 8k .61, 40k .4994 (searched, and the winner), 80k .5001, 100k .5000: the last two are beaten.
    assert front == [
        ("nasrec-0001", "candidate"),
        ("nasrec-0003", "candidate"),
        ("runs/first:best", "searched"),
    ]
    assert {row["model"] for row in table.rows if row["what"] == "baseline"} == {"dcnv2", "deepfm"}


def test_candidates_and_their_front(tmp_path: Path):
    table = outcome_info.candidates(read_run(write_search(tmp_path / "first")))
    assert [(row["number"], row["front"]) for row in table.rows] == [
        (1, True),
        (2, True),
        (3, False),
        (4, True),
        (5, False),
        (6, True),
    ]
    assert "6 different candidates; 1 failed, 1 had no live path" in table.note


def test_verdict_of_a_comparison(tmp_path: Path):
    said = judged(write_search(tmp_path / "first"), write_compare(tmp_path / "compare"))
    assert said.sentence == (
        "runs/first:best beats dcnv2, the best of the 2 other models, by 0.00060 test log loss (95 % interval 0.00040 to 0.00080), "
        "at 0.4× its FLOPs (7.2 ms against 18 ms for a batch of 512)."
    )
    assert "No real difference to dcnv2: deepfm." in said.more
    near = judged(write_compare(tmp_path / "near", delta=-0.0001))
    assert near.sentence.startswith(
        "There is no real difference between runs/first:best and dcnv2, the best of the 2 other models: -0.00010 test log loss "
        "(95 % interval -0.00030 to +0.00010), at 0.4× its FLOPs"
    )
    worse = judged(write_compare(tmp_path / "worse", delta=0.001))
    assert worse.sentence.startswith(
        "runs/first:best is worse than dcnv2, the best of the 2 other models, by 0.00100 test log loss (95 % interval 0.00080 to 0.00120)"
    )


def test_a_model_that_only_guesses_is_called_that_whatever_it_beats(tmp_path: Path):
    both = judged(write_compare(tmp_path / "both", entropies=(1.03, 1.2, 0.9)))
    assert both.sentence == (
        "runs/first:best is not better than always predicting the click rate (test log loss 0.49940; the best constant guess has 0.48485), "
        "and neither is dcnv2, the best of the 2 other models."
    )
    assert (
        "runs/first:best, dcnv2: not better than always predicting the click rate (test log loss 0.48485)." in both.more
    )
    assert "The reference dcnv2 is among them: being better than it says little." in both.more
    one = judged(write_compare(tmp_path / "one", entropies=(1.0, 0.9, 0.9)))
    assert one.sentence.startswith("runs/first:best is not better than always predicting the click rate")
    assert one.sentence.endswith("; dcnv2, the best of the 2 other models, is, and has 0.00060 more test log loss.")
    # A real difference to guessing is asked for: an interval that reaches zero is none.
    unsure = judged(write_compare(tmp_path / "unsure", entropies=(0.995, 0.9, 0.9)))
    assert unsure.sentence.startswith(
        "runs/first:best is not better than always predicting the click rate by more than chance "
        "(test log loss 0.49940; the best constant guess has 0.50191); dcnv2"
    )
    assert (
        "runs/first:best: better than always predicting the click rate (test log loss 0.50191) by no more than chance."
        in unsure.more
    )
    neither = judged(write_compare(tmp_path / "neither", entropies=(1.03, 0.995, 1.03)))
    assert neither.sentence.endswith("and neither is dcnv2, the best of the 2 other models, by more than chance.")
    assert "dcnv2: better than always predicting the click rate by no more than chance." in neither.more
    other = judged(write_compare(tmp_path / "other", entropies=(0.9, 1.5, 0.9)))
    assert other.sentence.startswith("runs/first:best beats dcnv2, the best of the 2 other models, by 0.00060")
    assert other.sentence.endswith(
        "But dcnv2 is itself not better than always predicting the click rate, so this says little."
    )


def test_a_search_whose_winner_only_guesses(tmp_path: Path):
    def with_entropy(path: Path, entropy: float | None) -> Path:
        result = json.loads((write_search(path) / "result.json").read_text())
        result["test"]["normalized_entropy"] = entropy
        (path / "result.json").write_text(json.dumps(result))
        return path

    said = judged(with_entropy(tmp_path / "a", 1.024)).sentence
    assert said.startswith(
        "The winner of a is not better than always predicting the click rate (1.024 times that loss). It reaches test"
    )
    said = judged(with_entropy(tmp_path / "b", None)).sentence  # all rows have one label
    assert said.startswith(
        "The winner of b is not better than always predicting the click rate: all rows have the same label. It"
    )
    several = judged(tmp_path / "a", write_search(tmp_path / "c")).sentence
    assert several.endswith("The winner of a is not better than always predicting the click rate.")


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(4.191, "4.2"), (35_884, "36,000"), (1.93e6, "1,900,000"), (0.0314, "0.031"), (1.0, "1"), (99.6, "100")],
)
def test_ratios_have_two_digits(ratio: float, shown: str):
    assert two_digits(ratio) == shown


def test_verdict_of_one_search(tmp_path: Path):
    said = judged(write_search(tmp_path / "first")).sentence
    half = 4.303 * 0.01 / math.sqrt(3)
    assert (
        f"test log loss 0.51000 (95 % interval {0.51 - half:.5f} to {0.51 + half:.5f} over 3 training seeds), AUC 0.75000 (95 % interval"
        in said
    )
    assert "over 1,000 test rows), better than always predicting the click rate (0.900 times that loss)." in said


def test_verdict_of_several_searches(tmp_path: Path):
    one, two = write_search(tmp_path / "a"), write_search(tmp_path / "b", shift=0.02, seed=1)
    said = judged(one, two).sentence
    half = 12.706 * math.sqrt(2) * 0.01 / math.sqrt(2)
    assert (
        said
        == f"The winners of 2 searches reach test log loss 0.52000 on average (95 % interval {0.52 - half:.5f} to {0.52 + half:.5f}); the lowest is 0.51000 (a)."
    )
    drawn = write_search(tmp_path / "r", method="random", shift=0.03)
    assert judged(one, drawn).sentence == (
        "Searched winners beat those of random search: -0.03000 mean test log loss (no interval: 1 and 1 searches); the lowest is 0.51000 (a)."
    )
    again = write_search(tmp_path / "r2", method="random", shift=0.05)
    half = 12.706 * math.sqrt(2 * 0.0002 / 2)  # variances of two values 0.02 apart, twice
    assert (
        f"-0.03000 mean test log loss (95 % interval {-0.03 - half:+.5f} to {-0.03 + half:+.5f}; 2 and 2 searches)"
        in judged(one, two, drawn, again).sentence
    )


def test_verdict_of_a_run_that_stopped(tmp_path: Path):
    said = judged(write_search(tmp_path / "half", finished=False)).sentence
    assert said.startswith(
        "half stopped before its end, so there is no verdict: 5 of 9 candidates were done, 0 of 4 trainings, test was not read."
    )
    assert "Best by sigeo so far: candidate 4, 40" in said
    assert judged(write_search(tmp_path / "empty", lines=[], finished=False)).sentence.endswith("test was not read.")
    assert "no verdict" in judged(write_run(tmp_path / "w", {"kind": "warmup"}, [])).sentence


def test_runs_on_different_data_are_refused(tmp_path: Path):
    other = write_run(tmp_path / "other", {"kind": "bench", "data": {"path": "x", "fingerprint": "0" * 64}}, [])
    with pytest.raises(RunError, match="different data"):
        read_inputs([write_search(tmp_path / "first"), other])


def test_data_tables(tmp_path: Path):
    run = read_run(write_search(tmp_path / "first", write_data(tmp_path / "data")))
    splits, columns = data_info.data_tables([run])
    assert [(row["split"], row["rows"], row["click_rate"]) for row in splits.rows] == [
        ("train", 800, 0.25),
        ("valid", 100, 0.5),
        ("test", 100, 0.2),
    ]
    assert splits.rows[1]["interval"] == pytest.approx((0.4038, 0.5962), abs=1e-4)
    first = columns.rows[0]
    assert (first["column"], first["rows"], first["bytes"]) == (
        "C1",
        1000,
        1000 * 8 * 4,
    )  # width 8, four bytes
    assert (first["unknown_train"], first["unknown_test"], first["missing_train"]) == (0.1, 0.25, 0.01)
    assert (
        data_info.prepare_command(run, "report_files/recipe.yaml")
        == f"recnas prepare criteo --raw train.txt --out {tmp_path}/data --protocol random-8-1-1 --seed 2018 --min-count 5"
    )
    assert data_info.own_recipe(run) is None


@pytest.mark.parametrize("name", ["mine", "csv"])
def test_the_recipe_of_own_data_is_among_the_files(tmp_path: Path, name: str):
    """Also where the name of the template was never changed; and it is one that `prepare` takes."""
    (tmp_path / "log.csv").write_text("y,price,user\n" + "".join(f"{n % 2},{n % 9},{n % 5}\n" for n in range(300)))
    recipe = f"name: {name}\nseparator: ','\nheader: true\nlabel: {{column: y}}\nsparse: [{{columns: [user], missing: ['São']}}]\n"
    (tmp_path / "r.yaml").write_text(recipe)
    data = prepare(str(tmp_path / "r.yaml"), [tmp_path / "log.csv"], tmp_path / "data", threads=1)
    report = make_report([write_search(tmp_path / "first", data.path)], "beside")
    (command,) = [
        item.text
        for section in report.sections
        for item in section.items
        if isinstance(item, Code) and "prepare" in item.text
    ]
    assert command.startswith("recnas prepare beside/recipe.yaml --raw log.csv --out ")
    (tmp_path / "again.yaml").write_text(all_files(report)["recipe.yaml"])
    again = prepare(str(tmp_path / "again.yaml"), [tmp_path / "log.csv"], tmp_path / "again", threads=1)
    assert again.fingerprint == data.fingerprint


def test_the_command_of_data_that_extend_others_makes_them_again(tmp_path: Path, monkeypatch):
    for day in (1, 2):
        rows = "".join(f"{n % 2},{n % 9},u{n % (40 * day)}\n" for n in range(300))
        (tmp_path / f"day{day}.csv").write_text("y,price,user\n" + rows)
    recipe = "name: mine\nseparator: ','\nheader: true\nlabel: {column: y}\nsparse: [{columns: [user]}]\n"
    (tmp_path / "r.yaml").write_text(recipe)
    prepare(str(tmp_path / "r.yaml"), [tmp_path / "day1.csv"], tmp_path / "one", threads=1)
    options = PrepareOptions(extend=str(tmp_path / "one"), protocol="random", shares=(0.7, 0.2, 0.1))
    data = prepare(None, [tmp_path / "day2.csv"], tmp_path / "two", options, threads=1)
    command = data_info.prepare_command(read_run(write_search(tmp_path / "first", data.path)), "recipe.yaml")
    assert command is not None
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command.replace(f"--out {data.path}", "--out again"))
    assert words[:2] == ["recnas", "prepare"]
    assert main(words[1:]) == 0
    assert PreparedData.open("again").fingerprint == data.fingerprint


def test_warnings_about_the_data_are_listed_first(tmp_path: Path):
    data = write_data(tmp_path / "data")
    run = write_search(tmp_path / "first", data)
    assert data_info.data_warnings([read_run(run)]) == []  # a manifest without any
    manifest = json.loads((data / "manifest.json").read_text())
    manifest["warnings"] = [{"kind": "few-rows", "message": "test has 2 rows: too few to judge a model."}]
    (data / "manifest.json").write_text(json.dumps(with_check(manifest)))
    section = next(section for section in make_report([run, run]).sections if section.id == "data")
    assert section.items[0] == Lines(["Warning: test has 2 rows: too few to judge a model."])
    text = render(make_report([run]), None)
    assert text.index("too few to judge a model") < text.index("fig-click_rate")


def test_what_is_read_of_columns_of_several_values(bagged_data):
    said = data_info._bags_note(bagged_data.summary())
    facts, rows = bagged_data.manifest["bags"]["train"], bagged_data.rows("train")
    assert (
        f"genres {facts['genres']['values'] / rows:.2f} (pooled by sum; {facts['genres']['cut']:,} more were cut off)"
        in said
    )
    assert "(pooled by attention, in the table of item;" in said
    assert data_info._bags_note({**bagged_data.summary(), "bags": None}) == ""


def test_threads_are_a_fact_if_the_run_knows_them(tmp_path: Path):
    run = write_search(tmp_path / "first")
    assert "torch threads" not in {row["fact"] for row in facts.facts([read_run(run)]).rows}
    manifest = json.loads((run / "manifest.json").read_text()) | {"threads": 2}
    (run / "manifest.json").write_text(json.dumps(with_check(manifest)))
    assert ("torch threads", "2") in {(row["fact"], row["value"]) for row in facts.facts([read_run(run)]).rows}


def test_data_that_are_gone_or_changed(tmp_path: Path):
    path = write_search(tmp_path / "first", tmp_path / "data")
    splits, columns = data_info.data_tables([read_run(path)])
    assert not splits
    assert "not here any more" in splits.note
    assert not columns
    schema = {"dense": [], "sparse": [{"name": "C1", "rows": 1000}]}
    (path / "winner" / "schema.json").write_text(json.dumps(schema))
    assert data_info.data_tables([read_run(path)])[1].rows == [{"column": "C1", "rows": 1000, "bytes": 32000}]
    manifest = json.loads((write_data(tmp_path / "data") / "manifest.json").read_text()) | {"fingerprint": "0" * 64}
    (tmp_path / "data" / "manifest.json").write_text(json.dumps(with_check(manifest)))
    assert "prepared anew" in data_info.data_tables([read_run(path)])[0].note


def test_facts_and_what_was_not_done(tmp_path: Path):
    run = read_run(write_search(tmp_path / "first"))
    known = {row["fact"]: row["value"] for row in facts.facts([run]).rows}
    assert known["data fingerprint"] == FINGERPRINT
    assert known["candidates"] == "9 of 9 proposed, 8 scored"
    assert known["limits"] == "flops at most 1,000,000 (rejected 55.0 % of draws)"
    assert known["warm-up"] == "1 % of the training rows, 80 rows in 5 steps"
    assert known["training seeds"] == "2 per candidate, 3 for the winner"
    assert [row["seconds"] for row in facts.phases([run]).rows] == [10, 20, 30, 40]
    said = " ".join(not_done([run]))
    for part in (
        "best 2 of 9 candidates",
        "1 % of the training rows",
        "only the winner was evaluated on test",
        "No hand-crafted model",
        "one seed; another",
    ):
        assert part in said
    assert "one seed, so" not in said  # two seeds per candidate
    half = " ".join(not_done([read_run(write_search(tmp_path / "half", finished=False))]))
    assert "did not reach its end" in half
    assert "evaluated on test" not in half


def test_the_config_in_a_report_can_be_run_again(tmp_path: Path):
    from recnas.tasks.settings import CtrSearchConfig

    wanted = CtrSearchConfig(data="somewhere", supernet={"eps": 1e-5}, search={"method": "random", "candidates": 7})
    path = write_run(tmp_path / "r", search_manifest("somewhere", wanted.identity()), [])
    run = read_run(path)
    assert check_settings(CtrSearchConfig, yaml.safe_load(facts.config_text(run)), "the report") == wanted
    assert facts.commands(run, "report_files/config_r.yaml") == [
        f"recnas search --resume {path}",
        "recnas search report_files/config_r.yaml --out runs/again",
    ]


def test_tables_as_csv_and_markdown():
    columns = (Column("a", "A"), Column("b", "B", "loss", "b_std"), Column("c", "C", "int"))
    table = Table(
        "t",
        "T",
        columns,
        [{"a": "x|y", "b": 0.5, "b_std": 0.01, "c": 12345}, {"a": "z", "b": None, "c": None}],
    )
    assert table.csv() == "a,b,c,b_std\nx|y,0.5,12345,0.01\nz,,,\n"
    assert table.markdown().splitlines() == [
        "| A | B | C |",
        "| --- | ---: | ---: |",
        "| x\\|y | 0.50000 ± 0.01000 | 12,345 |",
        "| z | – | – |",
    ]


def test_one_candidate(tmp_path: Path):
    run = read_run(write_search(tmp_path / "one", lines=[candidate(0, 1.0)], finished=False))
    assert outcome_info.candidates(run).rows[0]["front"]
    assert outcome_info.truth_summary(outcome_info.truth([run])).rows == []
