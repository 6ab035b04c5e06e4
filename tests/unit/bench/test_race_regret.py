"""Races simulated on a table with learning curves: against a race written down by hand, and against what must be."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recnas.bench.ctr_table import CtrTable, write_table
from recnas.bench.race_regret import RaceRegretSettings, loss_at, race_regret
from recnas.cli.main import main
from recnas.errors import ConfigError, DataError
from recnas.runs.records import Trained
from recnas.seeds import stream
from recnas.space.plus import PlusSpace

RUNGS = (1 / 16, 1 / 4)


def trainings(n: int = 60, noise: float = 0.002) -> list[Trained]:
    """Curves that fall to a floor; early rungs tell of it under noise. Smaller networks are better."""
    space, rng, found = PlusSpace(blocks=2), np.random.default_rng(0), {}
    while len(found) < n:
        arch = space.sample(rng)
        if space.key(arch) in found:
            continue
        size = float(len(found))
        floor = 0.45 + 0.001 * size / n * 10 + 0.001 * rng.random()
        curve = tuple(floor + 0.05 * (1 - share) + noise * rng.standard_normal() for share in RUNGS)
        metrics = {"logloss": floor, "auc": 0.7}
        found[space.key(arch)] = Trained(
            index=len(found), seed=0, key=space.key(arch), arch=space.to_dict(arch), train_loss=0.4, seconds=1.0,
            cost={"params": 10 + size, "macs": 20 + size}, valid=metrics, test=metrics, curve=curve,
        )  # fmt: skip
    return list(found.values())


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("table") / "table.parquet"
    write_table(file, trainings(), "nasrec-plus", "f" * 64, {"rungs": list(RUNGS)})
    return file


@pytest.fixture(scope="module")
def table(path: Path) -> CtrTable:
    return CtrTable.read(path)


def by_hand(table: CtrTable, pool: list[str], budget: float, eta: int) -> float:
    """One bracket: as many enter as the budget allows if the last are trained to their end, one in eta goes on; what is
    left over goes to the next best of the last rung, as far as it suffices."""

    def sizes(n: int) -> list[int]:
        found = [n]
        for _ in RUNGS:
            found.append(max(1, found[-1] // eta))
        return found

    def cost(n: int) -> float:
        a, b, c = sizes(n)
        return a / 16 + b * (1 / 4 - 1 / 16) + c * (1 - 1 / 4)

    entrants = max(n for n in range(len(pool) + 1) if cost(n) <= budget)
    assert entrants
    alive, losses = pool[:entrants], {}
    for rung in range(2):
        losses = {key: table.curves[key][rung] for key in alive}
        alive = sorted(alive, key=losses.__getitem__)[: sizes(entrants)[rung + 1]]
    return min(table.valid[key] for key in alive)


@pytest.mark.parametrize(("budget", "eta"), [(2, 2), (3, 3), (5.5, 3), (8, 4)])
def test_a_race_is_the_one_written_down_by_hand(table: CtrTable, budget: float, eta: int):
    settings = RaceRegretSettings(budgets=(budget,), eta=eta, brackets=1, pool=40)
    found = {one.method: one for one in race_regret(table, settings, 12)}
    expected, random = [], []
    for number in range(12):
        keys = sorted(table.curves)
        rng = stream(0, "race-regret", number)
        pool = [keys[int(i)] for i in rng.choice(len(keys), 40, replace=False)]
        best = min(table.valid[key] for key in pool)
        expected.append(by_hand(table, pool, budget, eta) - best)
        random.append(min(table.valid[key] for key in pool[: int(budget)]) - best)
    assert found["race, random order"].regret == pytest.approx(np.mean(expected))
    assert found["race, random order, ranker"].regret == pytest.approx(np.mean(expected))  # one bracket: nobody to rank
    mine = found["random"]
    assert mine.regret == pytest.approx(np.mean(random))
    assert mine.high - mine.regret == pytest.approx(1.96 * np.std(random, ddof=1) / math.sqrt(12))
    assert found["race, random order"].change == pytest.approx(np.mean(expected) - np.mean(random))
    assert (mine.change, mine.change_low, mine.change_high) == (0, 0, 0)


def test_what_knows_more_has_less_regret(table: CtrTable):
    """Early rungs tell much here: races are ahead of whole trainings; a perfect score leaves no regret; a ranker sees the size."""
    perfect = {key: -loss for key, loss in table.valid.items()}
    settings = RaceRegretSettings(budgets=(4, 8), pool=50)
    found = {(one.method, one.budget): one for one in race_regret(table, settings, 40, {"oracle": perfect})}
    methods = {method for method, _ in found}
    assert methods == {
        "random", "by oracle", "race, random order", "race, random order, ranker", "race, by oracle", "race, by oracle, ranker",
    }  # fmt: skip
    for budget in (4, 8):
        assert found["by oracle", budget].regret == 0
        assert found["race, by oracle", budget].regret < 0.0005  # a rung under noise may drop the best
        race, random = found["race, random order", budget], found["random", budget]
        assert race.high < random.low
        assert race.change == pytest.approx(race.regret)  # against the last order by scores, which has none
        assert found["race, random order, ranker", budget].regret < race.regret
    assert found["random", 8].regret < found["random", 4].regret


def test_draws_repeat_themselves_and_all_trained_leaves_no_regret(table: CtrTable):
    settings = RaceRegretSettings(budgets=(10,), pool=10)
    once = race_regret(table, settings, 5)
    assert race_regret(table, settings, 5) == once
    assert race_regret(table, settings, 5, seed=1) != once
    assert next(one for one in once if one.method == "random").regret == 0


def test_between_rungs_a_curve_is_straight_in_the_logarithm_of_rows():
    rungs, curve = (1 / 16, 1 / 4, 1.0), (0.6, 0.5, 0.44)
    assert [loss_at(rungs, curve, share) for share in rungs] == list(curve)
    assert loss_at(rungs, curve, 1 / 8) == pytest.approx(0.55)
    assert loss_at(rungs, curve, 1 / 2) == pytest.approx(0.47)
    assert loss_at(rungs, curve, 1 / 64) == 0.6


def test_what_cannot_be_simulated_is_refused(table: CtrTable):
    with pytest.raises(DataError, match="no learning curves"):
        race_regret(replace(table, rungs=()), RaceRegretSettings(), 2)
    with pytest.raises(DataError, match="has 60 architectures, and pool is 61"):
        race_regret(table, RaceRegretSettings(pool=61), 2)
    with pytest.raises(ConfigError, match=r"budget=0\.5 is too small"):
        race_regret(table, RaceRegretSettings(budgets=(0.5,)), 2)


def test_the_command_compares_at_equal_rows(path: Path, tmp_path: Path, capsys):
    command = ["bench", "regret", str(path), "--methods", "random", "--seeds", "3", "--candidates", "5"]
    assert main([*command, "budgets=[2,4]", "eta=2"]) == 0
    shown = capsys.readouterr().out
    assert "equal training rows" in shown
    assert "race, random order, ranker" in shown
    assert main([*command, "--json"]) == 0
    assert '"method": "race, random order"' in capsys.readouterr().out
    assert main([*command, "budget=[2]"]) == 2
    assert "did you mean 'budgets'" in capsys.readouterr().err
    plain = tmp_path / "plain.parquet"
    write_table(plain, trainings(10), "nasrec-plus", "f" * 64)
    assert main(["bench", "regret", str(plain), "--seeds", "2", "eta=2"]) == 2
    assert "has no learning curves" in capsys.readouterr().err
