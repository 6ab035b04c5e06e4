"""Any of these samplers of Optuna as a searcher: it asks the sampler, and tells it what became of its trials.

The study is kept in memory and made again by replay, as the state of every searcher is: given the seed and the values told, these
samplers propose the same. (Others of Optuna were left out: those that read a clock or other processes, and those that make nothing of
choices without an order.) What the limits exclude, or was proposed before, is a failed trial, and the sampler is asked again.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from recnas.errors import ConfigError
from recnas.searchers.base import Searcher
from recnas.searchers.decisions import decisions_of
from recnas.searchers.pool import PoolScores
from recnas.searchers.proposal import Proposal
from recnas.searchers.settings import OptunaSettings
from recnas.seeds import SEARCHER, stream
from recnas.space.base import ArchT
from recnas.track.optuna import import_optuna

_CLASSES = {
    "tpe": "TPESampler",
    "nsga2": "NSGAIISampler",
    "nsga3": "NSGAIIISampler",
    "qmc": "QMCSampler",
    "random": "RandomSampler",
}


class OptunaSampler(Searcher[ArchT]):
    """`settings` are explained in `OptunaSettings`."""

    name = "optuna"
    settings_class = OptunaSettings
    settings: OptunaSettings

    def _begin(self, pool_scores: PoolScores | None) -> None:
        self.optuna = import_optuna()
        self.decisions = decisions_of(self.space, self.name)
        self.distributions = {
            f"{place:02d}": self.optuna.distributions.CategoricalDistribution(range(size))
            for place, size in enumerate(self.decisions.sizes)
        }
        verbosity = self.optuna.logging.get_verbosity()
        self.optuna.logging.set_verbosity(self.optuna.logging.WARNING)
        try:
            ways = ["minimize"] * len(self.objectives)
            self.study = self.optuna.create_study(sampler=self._sampler(), directions=ways)
        finally:
            self.optuna.logging.set_verbosity(verbosity)
        self._trials: dict[int, Any] = {}  # by index of the proposal; those that are none of the sampler's are missing

    def _sampler(self) -> Any:
        seed = int(stream(self.seed, f"{SEARCHER}{self.name}-sampler").integers(2**31))
        made = getattr(self.optuna.samplers, _CLASSES[self.settings.sampler])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", self.optuna.exceptions.ExperimentalWarning)
                return made(seed=seed, **self.settings.options)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"search.options do not fit the sampler {self.settings.sampler}: {error}.",
                f"They are arguments of optuna.samplers.{made.__name__}.",
            ) from None

    @property
    def total(self) -> int:
        return self.settings.candidates

    def _batches(self) -> Iterator[list[Proposal[ArchT]]]:
        if seeds := self._seeded(self.total):
            yield seeds
            self._teach(seeds)
        while len(self._made) < self.total:
            size = min(self.settings.block, self.total - len(self._made))
            batch = [self._next() for _ in range(size)]
            yield batch
            self._teach(batch)

    def _next(self) -> Proposal[ArchT]:
        trial: Any = None

        def make() -> ArchT:
            nonlocal trial
            self._fail(trial)
            trial = self.study.ask(self.distributions)
            return self._arch(trial)

        arch = self.gate.attempt(make)
        if arch is not None:
            arch, _ = self._until_new(arch, lambda _: make())
        sampled = arch is not None and self._is_new(arch) and self._arch(trial) == arch
        if not sampled:  # it proposes what it proposed before, or what is excluded
            self._fail(trial)
            arch = self._sample_new()
        assert arch is not None
        proposal = self._propose(arch, "sampler" if sampled else "random")
        if sampled:
            self._trials[proposal.index] = trial
        return proposal

    def _fail(self, trial: Any) -> None:
        if trial is not None:
            self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)

    def _arch(self, trial: Any) -> ArchT:
        arch: ArchT = self.decisions.arch([trial.params[name] for name in self.distributions])
        return arch

    def _teach(self, batch: list[Proposal[ArchT]]) -> None:
        states = self.optuna.trial.TrialState
        for proposal in batch:
            told = self.history[proposal.index]
            state = states.FAIL if told.values is None else states.COMPLETE
            values = None if told.values is None else [float(cost) for cost in told.costs]
            trial = self._trials.pop(proposal.index, None)
            if trial is not None:
                self.study.tell(trial, values, state=state)
            elif not proposal.known:  # what is known taught its lesson already
                choices = self.decisions.choices(proposal.arch)
                self.study.add_trial(
                    self.optuna.trial.create_trial(
                        state=state,
                        values=values,
                        params=dict(zip(self.distributions, map(int, choices))),
                        distributions=self.distributions,
                    )
                )
