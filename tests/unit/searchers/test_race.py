"""Who enters a race, who goes on, what it may spend: with trainings that are arithmetic."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recnas.errors import ConfigError, RunError
from recnas.runs.records import Metrics, RungTraining
from recnas.searchers.course import Course
from recnas.searchers.entry import Contender, Entry, in_turns, root_of
from recnas.searchers.race import Lap, Race
from recnas.searchers.ranker import genes, predicted, ranked
from recnas.searchers.settings import RaceSettings

ROWS = 1000
Curve = Callable[[str, dict[str, Any], int], float]  # of a key, a recipe and the rows so far: the validation loss


def cost(metrics: Metrics) -> float:
    value = metrics.get("loss")
    return math.inf if value is None else value


def contenders(seeds: int, searched: int, families: int = 3) -> list[Contender]:
    found = [Contender(i, f"seed{i}", {}, i, "seed", f"model{i}", {"score": float(i)}) for i in range(seeds)]
    return found + [
        Contender(i, f"net{i}", {}, seeds + i % families, features={"score": float(i)})
        for i in range(seeds, seeds + searched)
    ]


def recipe(key: str, around: Any, number: int) -> dict[str, Any]:
    if around is None and number == 0:
        return {"batch_size": 100, "lr": 1.0}
    rng = random.Random(f"{key} {number} {sorted((around or {}).items())}")
    return {"batch_size": rng.choice([50, 100, 300]), "lr": rng.random()}


def mutated(parent: Contender, draw: int) -> Contender | None:
    if draw % 3 == 1:
        return None
    return Contender(parent.index, f"{parent.key}'{draw}", {}, parent.root, "mutation")


def race(known: list[Contender], epochs: float = 6, **settings: Any) -> Race:
    chosen = RaceSettings(**{"rungs": (0.25, 1), **settings})
    course = Course(chosen, ROWS, epochs, (50, 100, 300))
    course.check()
    return Race(course, Entry(chosen, known, recipe, mutated), cost, 5)


def run(one: Race, curve: Curve, ends_at: Callable[[str], int] = lambda key: 10**9) -> list[tuple[Lap, RungTraining]]:
    """Until its end; every training ends by itself after `ends_at` rows."""
    course, done, told = one.course, dict[tuple[int, int], RungTraining](), []
    while laps := one.ask():
        for lap in laps:
            batch, entrant = lap.entrant.recipe["batch_size"], lap.entrant
            last = done.get((entrant.number, lap.seed))
            limit = course.within(ends_at(entrant.key), batch)
            steps = min(lap.until, max(limit, 1)) if last is None or not last.ended else last.steps
            assert last is None or steps >= last.steps, "a training went backwards"
            rows = course.rows_at(steps, batch)
            loss = curve(entrant.key, entrant.recipe, rows)
            line = RungTraining(
                entrant=entrant.number,
                rung=lap.rung,
                seed=lap.seed,
                steps=steps,
                trained_rows=rows,
                valid={"loss": loss} if math.isfinite(loss) else {},
                failed=None if math.isfinite(loss) else "diverged",
                ended=steps >= min(limit, course.total(batch)) or lap.end,
            )
            done[entrant.number, lap.seed] = line
            one.tell(lap, line)
            told.append((lap, line))
    return told


def falling(key: str, recipe: dict[str, Any], rows: int) -> float:
    """Each falls to a floor of its own, at a speed of its own."""
    rng = random.Random(f"{key} {recipe}")
    return rng.uniform(0.4, 0.5) + rng.uniform(0.1, 0.5) / (1 + rows / 500)


@pytest.mark.parametrize("batch", [1, 7, 100, 300, 999, 1000, 5000])
def test_steps_and_rows_are_those_of_a_loader(batch: int):
    course = Course(RaceSettings(), ROWS, 20, (batch,))
    read = 0
    for step in range(1, 3 * course.steps(1, batch) + 1):
        place = (step - 1) % -(-ROWS // batch)
        read += min(batch, ROWS - place * batch)
        assert course.rows_at(step, batch) == read
        assert course.within(read, batch) >= step
        assert course.rows_at(course.within(read - 1, batch), batch) <= read - 1
    assert course.total(batch) == 20 * -(-ROWS // batch)


@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("brackets", [1, 2, 3])
@pytest.mark.parametrize("budget", [13, 20, 47.5])
def test_the_budget_is_never_exceeded_and_most_of_it_is_used(budget: float, brackets: int, seeds: int):
    one = race(contenders(5, 20), budget=budget, brackets=brackets, seeds=seeds)
    told = run(one, falling)
    by_training = {(line.entrant, line.seed): line.trained_rows for _, line in told}
    assert one.spent == sum(by_training.values()) <= budget * ROWS
    assert one.spent > 0.5 * budget * ROWS
    assert one.winner is not None
    assert all(line.ended for line in one.trainings_of(one.winner))
    assert len(one.trainings_of(one.winner)) == seeds


def test_further_brackets_have_whom_they_are_asked_for():
    only = race(contenders(4, 30), budget=60, brackets=3, later=("untrained", "recipe"))
    run(only, falling)
    later = [entrant for entrant in only.entrants if entrant.bracket > 0]
    assert {entrant.why for entrant in later} == {"search", "recipe"}
    first = {entrant.index for entrant in only.entrants if entrant.bracket == 0}
    untrained = [entrant.index for entrant in later if entrant.why == "search" and entrant.bracket == 1]
    families: dict[int, list[int]] = {}
    for index in (i for i in range(4, 34) if i not in first):
        families.setdefault(index % 3, []).append(index)
    near = sorted(i for some in families.values() for i in some[:2])  # in their order, two of a family before any third
    assert untrained[: len(near)] == near[: len(untrained)]
    none = race(contenders(6, 0), budget=60, brackets=2, recipes=1, later=("untrained",))
    run(none, falling)
    assert {entrant.bracket for entrant in none.entrants} == {0}


def test_promotion_is_by_validation_and_by_nothing_else():
    one = race(contenders(6, 20), budget=60, brackets=1, rungs=(0.25, 1), eta=3)
    told = run(one, falling)
    here = [entrant.number for entrant in one.entrants]
    for rung in (0, 1):
        values = {line.entrant: line.valid["loss"] for lap, line in told if lap.rung == rung}
        assert sorted(values) == here
        here = sorted(sorted(here, key=lambda number: (values[number], number))[: max(1, len(here) // 3)])
    finals = {line.entrant: line.valid["loss"] for _, line in told if line.entrant in here}
    assert one.winner is not None
    assert one.winner.number == min(finals, key=lambda number: (finals[number], number))
    assert one.dropped == {f"{e.number}-5" for e in one.entrants if e not in (one.winner, one.hand_crafted)}


def test_of_equals_the_first_goes_on_and_the_diverging_drop_out():
    def flat(key: str, recipe: dict[str, Any], rows: int) -> float:
        return math.inf if key in ("seed0", "net4") else 0.5

    one = race(contenders(4, 4), budget=30, brackets=1, recipes=1)
    told = run(one, flat)
    failed = {line.entrant for _, line in told if line.failed}
    assert {one.entrants[number].key for number in failed} == {"seed0", "net4"}
    sound = [e.number for e in one.entrants if e.number not in failed]
    assert one.winner is not None
    assert one.winner.number == sound[0]
    assert {lap.entrant.number for lap, _ in told if lap.rung > 0} == set(sound[: len(one.entrants) // 3])
    nobody = race(contenders(3, 3), budget=30)
    run(nobody, lambda key, recipe, rows: math.inf)
    assert nobody.winner is None


def test_several_seeds_on_the_last_rung_are_judged_by_their_mean():
    one = race(contenders(9, 9), budget=80, brackets=1, seeds=3, recipes=1)

    def told_by_seed() -> None:
        rng = random.Random(1)
        while laps := one.ask():
            for lap in laps:
                one.tell(lap, RungTraining(entrant=lap.entrant.number, rung=lap.rung, seed=lap.seed, steps=lap.until,
                         trained_rows=one.course.rows_at(lap.until, 100), valid={"loss": rng.random()}, ended=lap.rung > 1))  # fmt: skip

    told_by_seed()
    assert len(one.finalists) > 1
    means = {e.number: np.mean([line.valid["loss"] for line in one.trainings_of(e)]) for e in one.finalists}
    assert {line.seed for e in one.finalists for line in one.trainings_of(e)} == {5, 6, 7}
    assert one.winner is not None
    assert one.winner.number == min(means, key=lambda number: means[number])


def test_what_is_left_goes_to_the_best_that_have_not_ended():
    def seeds_lead(key: str, recipe: dict[str, Any], rows: int) -> float:
        return falling(key, recipe, rows) - 0.5 * key.startswith("seed")

    one = race(contenders(3, 20), epochs=20, budget=40, brackets=1, eta=2)
    told = run(one, seeds_lead, ends_at=lambda key: 2000 if key == "seed1" else 10**9)
    before = {line.entrant: line for lap, line in told if lap.rung == 2}
    after = {line.entrant: line for lap, line in told if lap.rung == 3}
    assert len(before) > 2
    assert all(line.trained_rows <= one.course.usual for line in before.values())
    assert after.keys() == {number for number, line in before.items() if not line.ended}
    further = {number: line.trained_rows - before[number].trained_rows for number, line in after.items()}
    best = min(after, key=lambda number: (before[number].valid["loss"], number))
    assert further[best] > 0
    whole = one.course.total(one.entrants[best].recipe["batch_size"])
    others = sum(rows for number, rows in further.items() if number != best)
    assert after[best].steps == whole or others < 300, "others got more than what was too little for a batch"


def test_who_enters_first():
    one = race(contenders(3, 20, families=2), budget=60, brackets=1, recipes=2, relatives=2)
    run(one, falling)
    number = len(one.entrants)
    archs = len({e.key for e in one.entrants})
    assert archs == max(math.ceil(number / 2), min(number, 6))
    assert [e.key for e in one.entrants[archs:]] == [e.key for e in one.entrants[: number - archs]]
    assert all(e.recipe == recipe(e.key, None, 0) for e in one.entrants[:archs])
    assert all(e.recipe == recipe(e.key, None, 1) for e in one.entrants[archs:])
    assert [e.key for e in one.entrants[:6]] == ["seed0", "seed1", "seed2", "net3", "net4", "net5"]
    # families are 3, 5, 7 ... and 4, 6, 8 ...: two of each, then the rest in order
    assert [e.key for e in one.entrants[6:8]] == ["net6", "net7"]
    assert {e.why for e in one.entrants} == {"seed", "search"}


def test_who_enters_later():
    one = race(contenders(3, 40), budget=80, brackets=2)
    run(one, falling)
    later = [e for e in one.entrants if e.bracket == 1]
    assert [e.why for e in later[:3]] == ["ranker", "mutation", "recipe"]
    first = {e.key: e for e in one.entrants if e.bracket == 0}
    assert not {e.key for e in later if e.why in ("ranker", "mutation")} & first.keys()
    assert all(e.key in first for e in later if e.why == "recipe")
    assert len({(e.key, str(e.recipe)) for e in one.entrants}) == len(one.entrants)
    leaders = [e for e in first.values() if len(one.trainings_of(e)) and any(x.key == e.key for x in one.finalists)]
    assert {e.recipe["lr"] for e in later if e.why == "mutation"} <= {e.recipe["lr"] for e in one.finalists}
    assert leaders


def test_nobody_enters_twice_with_one_recipe(monkeypatch: pytest.MonkeyPatch):
    few = {"batch_size": 100, "lr": 1.0}
    drawn = lambda key, around, number: few | {"lr": float(number % 3)}  # noqa: E731
    monkeypatch.setattr(f"{__name__}.recipe", drawn)
    one = race(contenders(3, 4), budget=80, brackets=3, recipes=4, later=("recipe",))
    run(one, falling)
    pairs = [(e.key, e.recipe["lr"]) for e in one.entrants]
    assert len(set(pairs)) == len(pairs) > 7
    assert len(pairs) <= 7 * 4


def test_to_ask_and_tell_again_is_the_same_race():
    told = run(race(contenders(5, 20), budget=50), falling)
    again = race(contenders(5, 20), budget=50)
    lines = {(line.entrant, line.seed, line.rung): line for _, line in told}
    asked = []
    while laps := again.ask():
        for lap in laps:
            asked.append(lap)
            again.tell(lap, lines[lap.entrant.number, lap.seed, lap.rung])
    assert asked == [lap for lap, _ in told]
    other = race(contenders(5, 20), budget=50)
    with pytest.raises(RunError, match="another race"):
        other.tell(other.ask()[0], told[1][1])


def test_settings_that_cannot_be():
    with pytest.raises(ConfigError, match=r"final\.race\.budget=12"):
        race(contenders(2, 2), budget=11, seeds=2)
    with pytest.raises(ConfigError, match="after 6 passes"):
        race(contenders(2, 2), rungs=(1, 6))
    with pytest.raises(ValueError, match="rising"):
        RaceSettings(rungs=(1, 0.5))
    least = race(contenders(2, 2), budget=6, brackets=3)
    run(least, falling)
    assert least.winner is not None


def test_the_ranker_is_ridge_regression_on_ranks():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(30, 4))
    features = [{f"f{i}": float(x) for i, x in enumerate(row)} for row in table]
    places = {row: float(rng.random()) for row in range(0, 30, 3)}
    x = np.array([ranked(column) for column in table.T]).T
    for column in x.T:  # ranks, without the library's own code
        assert column.argsort().tolist() == table.T[[c.tolist() for c in x.T].index(column.tolist())].argsort().tolist()
        assert (column.mean(), column.std()) == pytest.approx((0, 1))
    known = sorted(places)
    a, y = x[known] - x[known].mean(0), np.array([places[row] for row in known])
    weights = np.linalg.inv(a.T @ a + np.eye(4)) @ a.T @ (y - y.mean())  # the primal form
    assert predicted(features, places) == pytest.approx(list((x - x[known].mean(0)) @ weights + y.mean()))
    assert predicted([{}, {}], {0: 1.0}) == [0.0, 0.0]
    assert list(ranked(np.array([2.0, np.nan, 1.0, 2.0]))[[1]]) == [0.0]


def test_the_ranker_finds_the_one_feature_that_matters():
    rng = np.random.default_rng(1)
    features = [{"good": float(i), "noise": float(rng.random()), "has cross": float(i % 2)} for i in range(40)]
    found = predicted(features, {i: i / 40 for i in range(0, 40, 4)})
    assert min(range(40), key=lambda i: found[i]) in (0, 1, 2)


def test_short_rungs_are_judged_by_no_more_rows_than_were_trained_on():
    course = Course(RaceSettings(rungs=(0.01, 0.25, 1, 2)), 200_000, 20, (512,))
    assert [course.valid_rows(rung) for rung in range(5)] == [10_000, 50_000, None, None, None]


def test_small_parts():
    assert list(in_turns("abc", "1", "xy")) == ["a", "1", "x", "b", "y", "c"]
    assert root_of(7, {7: (5, 1), 5: (2,), 2: ()}) == 2
    assert genes({"blocks": [{"ops": ["cross", "deep"]}, {"ops": ["cross"]}], "n": 3}) == {"has cross": 2.0, "has deep": 1.0}  # fmt: skip


def test_whoever_was_trained_to_its_end_came_equally_far():
    """One that ends early needs one part of the last rung, one that does not has two."""
    one = race(contenders(6, 6), epochs=20, budget=40, brackets=1, eta=2)
    told = run(one, falling, ends_at=lambda key: 2500 if key < "seed" else 10**9)
    assert {line.rung for lap, line in told if lap.entrant in one.finalists} == {0, 1, 2, 3}
    assert one._by_progress()[: len(one.finalists)] == one.order(one.finalists)


def lagging_seeds(key: str, recipe: dict[str, Any], rows: int) -> float:
    return falling(key, recipe, rows) + 0.3 * key.startswith("seed")


@pytest.mark.parametrize("brackets", [1, 2, 3])
@pytest.mark.parametrize("budget", [25, 60])
def test_the_best_hand_crafted_model_is_trained_to_its_end_from_where_it_was(budget: float, brackets: int):
    one = race(contenders(4, 20), budget=budget, brackets=brackets, recipes=1, eta=2, seeds=2)
    told = run(one, lagging_seeds)
    known = one.hand_crafted
    assert known is not None
    assert known in one.finalists
    assert one.winner is not None
    assert one.winner.name is None
    lines = [line for _, line in told if line.entrant == known.number]
    dropped_out = [line for line in lines if line.rung < len(one.settings.rungs)]
    assert all(line.ended for line in one.trainings_of(known))
    assert [line.seed for line in one.trainings_of(known)] == [5, 6]
    # Of those that came as far as it did before the last place was given away, it was the best.
    others = [line for _, line in told if line.rung == dropped_out[-1].rung and line.entrant != known.number]
    names = {entrant.number: entrant.name for entrant in one.entrants}
    assert all(
        dropped_out[-1].valid["loss"] <= line.valid["loss"] for line in others if names[line.entrant] is not None
    )
    assert one.spent <= budget * ROWS


def test_a_hand_crafted_finalist_needs_no_place_and_the_next_best_gets_it():
    settings: dict[str, Any] = {"budget": 60, "brackets": 1, "recipes": 1, "eta": 2}
    leading = race(contenders(4, 20), **settings)
    told = run(leading, lambda key, recipe, rows: falling(key, recipe, rows) - 0.3 * key.startswith("seed"))
    last = [line.entrant for _, line in told if line.rung == len(leading.settings.rungs) - 1]
    places = leading.course.sizes(sum(line.rung == 0 for _, line in told))
    assert len(leading.finalists) == min(len(last), places[-1] + 1)
    assert leading.winner is not None
    assert leading.hand_crafted == leading.winner


def test_a_race_of_hand_crafted_models_alone_keeps_no_place():
    settings: dict[str, Any] = {"budget": 20, "brackets": 1, "recipes": 2, "later": ("recipe",)}
    one = race(contenders(9, 0), **settings)
    run(one, falling)
    assert len(one.entrants) == one.course.entrants(20 * ROWS, 18)
    mixed = race(contenders(9, 9), **settings)
    run(mixed, falling)
    assert len(mixed.entrants) < len(one.entrants)


def test_no_checkpoint_is_removed_that_is_still_needed():
    one, gone = race(contenders(6, 20), budget=80, brackets=3, recipes=1, eta=2), set[str]()
    tell = one.tell

    def checked(lap: Lap, done: RungTraining) -> None:
        assert lap.training not in gone
        tell(lap, done)
        gone.update(one.dropped)

    one.tell = checked  # type: ignore[method-assign]
    run(one, lagging_seeds)
    assert one.dropped == {f"{e.number}-5" for e in one.entrants if e not in (one.winner, one.hand_crafted)}


def test_what_a_race_says_of_its_end():
    one = race(contenders(4, 20), budget=60, brackets=1, recipes=1, eta=2)
    run(one, lagging_seeds)
    assert one.winner is not None
    assert one.hand_crafted is not None
    result = one.result(one.winner, {}, "loss")
    assert result.name is None
    assert result.searched_valid == pytest.approx(one.value(one.winner)) == one.valid(one.winner, "loss")
    assert one.value(one.hand_crafted) > one.value(one.winner)
