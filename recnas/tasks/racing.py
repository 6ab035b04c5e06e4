"""The race of a search on clicks: what its trainings are, and what becomes of its winner."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from recnas.bench.bootstrap import judge, paired_bootstrap
from recnas.data.prepared import PreparedData
from recnas.engines.execution import Execution
from recnas.evaluators.race import RungWork, scores_path
from recnas.runs.folder import RunDir
from recnas.runs.layout import RACE_FOLDER, WINNER_FOLDER
from recnas.runs.records import Entrant, Metrics, PairedDifference
from recnas.searchers.course import Course
from recnas.searchers.settings import RaceSettings
from recnas.space.nasrec.arch import NasrecArch
from recnas.tasks.base import Final
from recnas.tasks.settings import CtrSearchConfig
from recnas.train.logits import read_logits
from recnas.train.recipe import BATCH_SIZES, drawn_recipe, recipe_of, with_recipe
from recnas.train.standalone import train

KEEP, KEEP_OF_LEADER = 0.5, 0.67  # probability that a drawn recipe leaves a setting as it was


class Racing:
    """Made when the search is, so that a budget that does not suffice is refused before anything is spent.

    Attributes:
        first: the recipe that `final.train` is.
    """

    def __init__(self, config: CtrSearchConfig, settings: RaceSettings, data: PreparedData) -> None:
        self.config, self.settings, self.data = config, settings, data
        final = config.final
        self.first: dict[str, Any] = json.loads(json.dumps(recipe_of(final.train)))
        rows = min(final.rows or data.rows("train"), data.rows("train"))
        # A batch that is longer than the first rung would make a rung of every step.
        batches = {size for size in BATCH_SIZES if size <= rows * settings.rungs[0]} if settings.recipes > 1 else set()
        self.course = Course(settings, rows, final.train.epochs, (*sorted(batches | {final.train.batch_size}),))
        self.course.check()

    def recipe(self, key: str, around: Mapping[str, Any] | None, number: int) -> dict[str, Any]:
        """Number 0 around nothing is the default; all others are drawn from the shared grid."""
        if around is None and number == 0:
            return dict(self.first)
        keep = KEEP if around is None else KEEP_OF_LEADER
        train, seed = self.config.final.train, self.config.seed
        return drawn_recipe(train, around or self.first, keep, seed, key, number, self.course.batches)

    def changed(self, recipe: Mapping[str, Any]) -> dict[str, Any]:
        """What a recipe has beside the default."""
        return {name: value for name, value in recipe.items() if value != self.first[name]}

    def work(self, run: RunDir) -> RungWork:
        config, final = self.config, self.config.final
        return RungWork(config.data, config.space, final.train, final.rows, str(run.path / RACE_FOLDER))

    def difference(self, run: RunDir, one: Sequence[str], other: Sequence[str]) -> PairedDifference:
        """Of two entrants on the rows of validation, by the names of their trainings."""
        data, folder = self.data, run.path / RACE_FOLDER
        judged = judge(data, "valid")
        first, second = ([judged(read_logits(scores_path(folder, name))) for name in names] for names in (one, other))
        return paired_bootstrap(first, second)

    def finish(self, arch: NasrecArch, winner: Entrant, run: RunDir, how: Execution) -> Final:
        """The winner as the race left it is the model, unless another training is asked for; test is read once."""
        config, final = self.config, self.config.final
        as_it_is = not final.retrains
        settings, _ = with_recipe(final.retrain_settings or final.train, self.changed(winner.recipe))
        seeds = range(config.seed, config.seed + self.settings.seeds)
        folder = run.path / RACE_FOLDER
        result = train(
            arch,
            self.data,
            run.path / WINNER_FOLDER,
            settings.model_copy(update={"threads": how.threads}),
            max(final.retrain_seeds, len(seeds)) if as_it_is else final.retrain_seeds,
            config.seed,
            how.progress,
            on=final.retrain_on,
            trained={seed: folder / f"{winner.number}-{seed}" for seed in seeds} if as_it_is else None,
        )
        test: Metrics = {name: spread.mean for name, spread in result.test.items()}
        return Final(test, result.test["logloss"].std)
