"""A race in sentences: how far it is, what it spent, what its winner was trained with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from recnas.report.table import Column, Row, Table
from recnas.runs.records import Entrant
from recnas.runs.run import Run
from recnas.runs.search_result import RaceResult, SearchResult


def race_so_far(run: Run) -> str:
    """Entrants and the rungs they are on."""
    entrants = {one.number: one for one in run.of(Entrant)}
    bracket = max(one.bracket for one in entrants.values())
    rungs = Counter(line.rung for line in run.race_lines if entrants[line.entrant].bracket == bracket)
    shown = ", ".join(f"{count} came to rung {rung + 1}" for rung, count in sorted(rungs.items()))
    failed = sum(line.failed is not None for line in run.race_lines)
    return (
        f"race: {len(entrants)} entrants in {bracket + 1} bracket{'s' * (bracket > 0)}; of the trainings in the last one "
        f"{shown}" + (f"; {failed} failed" if failed else "")
    )


def recipe_of_the_winner(race: RaceResult) -> str:
    changed = ", ".join(f"{name}={value}" for name, value in race.changed.items())
    return f"the winner was trained with {changed or 'the settings of final.train as they are'}"


def came_from(result: SearchResult) -> str:
    """How the winner of a race entered it."""
    race, number = result.race, result.winner.index + 1
    assert race is not None
    known = f", which is {race.name}" if race.name is not None else ""
    ways = {
        "seed": f"a seed{known}",
        "search": f"candidate {number}",
        "ranker": f"candidate {number}, chosen by the ranker",
        "mutation": f"a mutation in the line of candidate {number}",
        "recipe": f"candidate {number}{known} with a further recipe",
    }
    return ways[race.why]


def raced_both(run: Run) -> Table:
    """The winner of a race beside the best hand-crafted model."""
    columns = (
        Column("model", "model"), Column("valid", "validation log loss", "loss"), Column("flops", "FLOPs per row", "num"),
        Column("params", "parameters", "int"), Column("latency_ms_1", "ms for 1 row", "time"),
        Column("latency_ms_512", "ms for 512 rows", "time"), Column("embedding_mb", "MB of tables", "num"), Column("recipe", "recipe"),
    )  # fmt: skip
    result = run.result
    race = result.race if result is not None else None
    rows: list[Row] = []
    if result is not None and race is not None and race.hand_crafted is not None and race.name is None:
        known = race.hand_crafted
        for name, valid, cost, latency, changed in (
            ("the winner", result.valid.get("logloss"), result.winner.cost, race.latency, race.changed),
            (known.name, known.valid, known.cost, known.latency, known.changed),
        ):
            recipe = ", ".join(f"{key}={value}" for key, value in changed.items()) or "as in the config"
            rows.append({"model": name, "valid": valid, "recipe": recipe, **cost, **latency})
    return Table("raced_both", "The winner and the best hand-crafted model of its race", columns, rows)


def race_lines(result: SearchResult) -> Iterator[str]:
    """What it spent and what it gave, for the end of a search."""
    race = result.race
    assert race is not None
    yield (
        f"race: {race.entrants} entrants ({race.architectures} architectures), {race.whole} trained to the end, "
        f"{race.trained_rows:,} of {race.budget_rows:,} rows"
        + (f", {race.failed} failed" if race.failed else "")
        + (f"; the budget ended {race.cut} of them" if race.cut else "")
    )
    yield f"the winner is {came_from(result)}, and {recipe_of_the_winner(race).removeprefix('the winner ')}"
    if race.verdict is not None:
        yield f"verdict: {race.verdict}"
