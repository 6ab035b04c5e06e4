"""A search in which proxies vote is shown by the vote; what is called best never falls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recnas.report import facts, outcome_info
from recnas.report.content import make_report
from recnas.report.ranking import Ranking
from recnas.report.state import describe, state_of
from recnas.report.trajectory import trajectory
from recnas.runs.read import read_run
from tests.unit.report.small_runs import candidate, write_search

# Best by a: candidate 2. Best by b (low is good): candidate 3. Sums of ranks: 1 + 2, 0 + 3, 3 + 0, 2 + 1, 4 + 4:
# the first four are equal, and of equals the older comes first.
A = [30.0, 40.0, 10.0, 20.0, 0.0]
B = [3.0, 4.0, 1.0, 2.0, 9.0]


def voting(path: Path, a: list[float], b: list[float], **more: Any) -> Path:
    lines = []
    for index, (one, two) in enumerate(zip(a, b)):
        scores = {"sigeo": {"value": one, "terms": {"zico": one}}, "ntk_cond": {"value": two}}
        lines.append(candidate(index, one, values={"sigeo": one, "ntk_cond": two}, scores=scores))
    return write_search(path, lines=lines, objectives={"sigeo": "max", "ntk_cond": "min"}, combine="vote", **more)


def by_hand(a: list[float], b: list[float]) -> list[int]:
    """Places by the sum of ranks, computed the slow way; there are no ties within a proxy here."""
    sums = [sum(other > x for other in a) + sum(other < y for other in b) for x, y in zip(a, b)]
    order = sorted(range(len(a)), key=lambda i: sums[i])
    return [order.index(i) + 1 for i in range(len(a))]


def test_candidates_are_shown_by_their_place(tmp_path: Path):
    run = read_run(voting(tmp_path / "v", A, B, finished=False))
    ranking = Ranking(run)
    assert ranking.goal == ("place by vote", "min")
    assert [ranking.value(one) for one in run.candidates] == by_hand(A, B) == [1, 2, 3, 4, 5]
    assert ranking.best.index == 0  # neither the best by sigeo nor by ntk_cond
    table = outcome_info.candidates(run)
    assert [row["value"] for row in table.rows] == [1, 2, 3, 4, 5]
    assert "vote of sigeo, ntk_cond" in table.note
    known = {row["fact"]: row["value"] for row in facts.facts([run]).rows}
    assert known["ranked by"] == "vote of sigeo (max), ntk_cond (min)"


def test_the_best_place_so_far_never_falls(tmp_path: Path):
    a = [5.0, 9.0, 1.0, 7.0, 8.0, 3.0, 6.0, 2.0]
    b = [4.0, 8.0, 2.0, 1.0, 3.0, 9.0, 5.0, 7.0]
    table = trajectory([read_run(voting(tmp_path / "v", a, b, finished=False))])
    places = by_hand(a, b)
    best = [row["best"] for row in table.rows if row["series"] == "v"]
    assert best == [min(places[: n + 1]) for n in range(8)]
    assert best == sorted(best, reverse=True)
    assert best[-1] == 1
    assert table.title == "Best place so far"
    assert "The vote of sigeo, ntk_cond decides" in table.note


def test_searches_that_vote_alike_vote_together_in_one_figure(tmp_path: Path):
    """Alone, both would end at place 1; together it shows that the second found only worse ones."""
    good = voting(tmp_path / "good", [10.0, 9.0], [1.0, 2.0], finished=False)
    bad = voting(tmp_path / "bad", [1.0, 2.0], [9.0, 8.0], finished=False, seed=1, method="random")
    rows = trajectory([read_run(good), read_run(bad)]).rows
    assert [row["best"] for row in rows if row["series"] == "good"] == [1, 1]
    assert [row["best"] for row in rows if row["series"] == "bad"] == [4, 3]


def test_the_report_and_watch_name_the_leader_of_the_vote(tmp_path: Path):
    run = voting(tmp_path / "half", A, B, finished=False)
    said = make_report([run]).verdict.sentence
    assert "Candidate 1 leads the vote of sigeo, ntk_cond so far" in said
    assert "Best by sigeo" not in said
    state = state_of(run)
    assert (state.best["index"], state.best["place"], state.best["of"]) == (0, 1, 5)
    assert "best candidate: number 1, leads the vote of 2 proxies (sigeo, ntk_cond) over 5 candidates" in describe(
        state
    )


def test_what_was_trained_has_its_place_in_the_vote(tmp_path: Path):
    run = voting(tmp_path / "done", A, B, winner=2)
    report = make_report([run])
    tables = {table.name: table for table in report.tables()}
    assert "score" not in {column.name for column in tables["trained"].columns}
    assert "vote of sigeo, ntk_cond" in tables["trained"].note
    proxies = [row["proxy"] for row in tables["truth_summary"].rows]
    assert proxies == ["place by vote", "sigeo", "ntk_cond"]
    titles = {figure.stem: figure.title for figure in report.figures()}
    assert titles["trajectory_evaluations"] == "Best place so far, against candidates scored"
    assert titles["candidates_done"] == "Place by vote against cost: done"
    assert titles["truth_1"].startswith("place by vote")


def test_one_proxy_is_shown_by_its_value(tmp_path: Path):
    lines = [candidate(index, value) for index, value in enumerate([3.0, 5.0, 4.0])]
    run = read_run(write_search(tmp_path / "one", lines=lines, finished=False))
    assert Ranking(run).goal == ("sigeo", "max")
    assert not Ranking(run).is_vote
    assert "best candidate: number 2, sigeo 5, nasrec-0001" in describe(state_of(run.path))
