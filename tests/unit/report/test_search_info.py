"""Tables of a search against values computed by hand from `small_runs.small_ledger`."""

from pathlib import Path

import pytest

from recnas.report import search_info
from recnas.report.ranking import Ranking
from recnas.report.state import state_of
from recnas.report.trajectory import trajectory
from recnas.runs.read import read_run
from tests.unit.report.small_runs import arch, candidate, write_search


@pytest.fixture
def run(tmp_path: Path):
    return read_run(write_search(tmp_path / "first"))


def series(table, name):
    return [(row["evaluations"], row["seconds"], row["best"]) for row in table.rows if row["series"] == name]


def test_trajectory_and_the_random_line(run):
    table = trajectory([run])
    # Scores 10 30 20 40 35 50 (50 again) degenerate failed, half a second each.
    assert [best for _, _, best in series(table, "first")] == [10, 30, 30, 40, 40, 50, 50, 50, 50]
    assert [seconds for _, seconds, _ in series(table, "first")] == [0.5 * n for n in range(1, 10)]
    random = series(table, "random (expected)")
    assert [best for _, _, best in random] == pytest.approx([25, 200 / 6, 37.5, 40])
    assert [seconds for _, seconds, _ in random] == [0.5, 1, 1.5, 2]
    assert table.more == {"goal": "sigeo", "way": "max"}


def test_a_random_search_that_was_given_takes_the_place_of_the_expectation(tmp_path: Path, run):
    other = read_run(write_search(tmp_path / "drawn", method="random", lines=[candidate(0, 20.0), candidate(1, 25.0)]))
    table = trajectory([run, other])
    assert {row["series"]: row["random"] for row in table.rows} == {"first": False, "drawn": True}
    assert "random search" in table.note


def test_runs_that_differ_by_seed_are_averaged(tmp_path: Path):
    one = read_run(write_search(tmp_path / "a", lines=[candidate(0, 10.0), candidate(1, 30.0)], seed=0))
    two = read_run(write_search(tmp_path / "b", lines=[candidate(0, 20.0), candidate(1, 20.0)], seed=1))
    table = trajectory([one, two])
    mean = [(row["best"], row["low"], row["high"]) for row in table.rows if row["series"] == "mean of 2 (evolution)"]
    assert mean == [(15, 10, 20), (25, 20, 30)]


def test_an_objective_to_minimise(tmp_path: Path):
    lines = [candidate(index, 0.0, values={"train_loss": value}) for index, value in enumerate([3.0, 5.0, 1.0])]
    half = read_run(write_search(tmp_path / "half", lines=lines, finished=False, objectives={"train_loss": "min"}))
    table = trajectory([half])
    assert [best for _, _, best in series(table, "half")] == [3, 3, 1]
    assert Ranking(half).best.index == 2
    assert state_of(tmp_path / "half").best["index"] == 2


def test_terms_along_the_search(run):
    rows = [row for row in search_info.terms(run).rows if row["term"] == "zico"]
    assert [row["median"] for row in rows] == [
        11,
        31,
        21,
        41,
        36,
        51,
    ]  # value + 1, the degenerate one left out
    assert [row["evaluations"] for row in rows] == [1, 2, 3, 4, 5, 6]
    summary = {row["term"]: row for row in search_info.term_summary(run).rows}
    assert summary["zico"]["spearman"] is None  # six candidates are too few
    assert summary["zico"]["first"] == 11
    assert summary["zico"]["last"] == 51
    assert summary["loss"]["spearman"] is None  # always 0.5
    assert summary["loss"]["std"] == 0


def test_long_searches_are_summarised_in_stretches(tmp_path: Path):
    lines = [candidate(index, float(index)) for index in range(100)]
    summary = {
        row["term"]: row for row in search_info.term_summary(read_run(write_search(tmp_path / "s", lines=lines))).rows
    }
    assert summary["zico"]["spearman"] == pytest.approx(1)
    rows = [
        row
        for row in search_info.terms(read_run(write_search(tmp_path / "r", lines=lines))).rows
        if row["term"] == "zico"
    ]
    assert len(rows) == 34  # stretches of three, the last of one
    assert (rows[0]["low"], rows[0]["median"], rows[0]["high"], rows[0]["n"]) == (1.5, 2, 2.5, 3)
    assert (rows[-1]["median"], rows[-1]["n"]) == (100, 1)


def test_family_of_the_winner(run):
    table = search_info.family(run)
    assert [(row["number"], row["value"], row["gain"]) for row in table.rows] == [(4, 40, None), (6, 50, 10)]
    assert table.rows[1]["what"] == "block 1: dense_dim 64 to 128; block 2: dense_dim 64 to 128"
    assert table.rows[1]["every_change"] == table.rows[1]["what"]
    others = search_info.siblings(run, table)
    # Candidate 5 is the other child of 4; 7 repeats the winner (its child); 8 and 9 have no score.
    assert [(row["generation"], row["number"], row["parent"], row["value"]) for row in others.rows] == [
        (1, 5, 4, 35),
        (2, 7, 6, 50),
    ]


def test_differences_leave_out_genes_that_nothing_reads():
    one, other = arch(), arch(fm=True)
    other["blocks"][0] = other["blocks"][0] | {"left": [5]}
    assert search_info.differences(one, other) == ["block 1: fm off to on", "block 2: fm off to on"]
    assert search_info.differences(one, arch(blocks=3))[-1] == "block 3 added"
    assert search_info.differences(one, one) == []
    assert search_info.differences({"arch": "a"}, {"arch": "b"}) == ["a to b"]


def test_training_curve(run):
    rows = search_info.curves([run]).rows
    assert [(row["series"], row["step"], row["loss"]) for row in rows][:2] == [
        ("first, seed 0", 10, 0.7),
        ("first, seed 0", 20, 0.6),
    ]


def test_a_long_list_of_changes_is_cut_on_the_page_and_whole_in_the_file():
    from recnas.report.search_info import _in_short

    assert _in_short(["a", "b", "c", "d"]) == "a; b; c; d"
    assert _in_short(["a", "b", "c", "d", "e", "f"]) == "a; b; c; d; and 2 more"
