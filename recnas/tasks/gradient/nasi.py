"""`recnas search` with `search.method: nasi`: a search at initialisation, on a supernet that is never trained.

    RUN/ledger.jsonl    random     T of a random architecture, for nu
                        candidate  a step: what was drawn, T, nu, R and the gradient of R by alpha, or (estimator:
                                   averages) the choices themselves
                        candidate  the last one, of origin "chosen": the outcome, measured on a batch of its own

Every step depends on the seed and its number alone, and what steps add up to is in the ledger: a search that was
stopped goes on where it stopped and ends the same.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from recnas.errors import RunError
from recnas.model.supernets.supernet import one_hot
from recnas.runs.records import Candidate, RandomTrace
from recnas.runs.search_result import Budget
from recnas.searchers.gradient.nasi import Nasi, draw_noise, objective, slope
from recnas.searchers.gradient.nasi_trace import trace, trace_gradient
from recnas.searchers.gradient.settings import NasiSettings
from recnas.seeds import stream
from recnas.tasks.gradient.base import Chosen, GradientSearch
from recnas.tasks.settings import GradientSearchConfig

_STEP, _RANDOM = "nasi-step", "nasi-random"  # random streams


class NasiSearch(GradientSearch):
    objective = "nasi"
    settings: NasiSettings

    @staticmethod
    def total(config: GradientSearchConfig) -> int:
        return int(config.search.steps)  # type: ignore[union-attr]

    def steps(self) -> Chosen:
        assert isinstance(self.config.search, NasiSettings)
        self.settings = settings = self.config.search
        self.state = Nasi(settings, [decision.size for decision in self.plan.decisions])
        self.failed = 0
        chosen = self._replay()
        total = settings.steps + (settings.nu_archs if settings.nu in ("mean", "median") else 0)
        self.progress.phase("search", total, "steps")
        self.progress.advance(len(self.state.random) + self.state.steps)
        while self.state.wants_random:
            self._random()
            self.progress.advance(1)
        while not self.state.done:
            self._step()
            self.progress.advance(1)
        self.progress.end()
        if chosen is None:
            chosen = self._choose()
            self.book.append(chosen)
        alpha = {d.name: part.tolist() for d, part in zip(self.plan.decisions, self.state.alpha())}
        budget = Budget(proposed=self.state.steps + 1, failed=self.failed, steps=self.state.steps)
        extras = {"alpha": alpha, "nu": self.state.nu()}
        return Chosen(self.plan.arch(self.state.choices()), chosen, budget, extras)

    def _images(self, name: str, number: int) -> Any:
        settings = self.settings
        return self.batch(name, number, settings.batch_size, settings.labels, settings.inputs)

    def _noise(self, name: str, number: int) -> list[np.ndarray]:
        return draw_noise(self.state.sizes, stream(self.config.seed, name, number))

    def _trace(self, choices: list[int], batch: Any) -> float:
        return trace(self.supernet, self.plan.gates(one_hot(self.plan, choices)), batch).item()

    def _random(self) -> None:
        number = len(self.state.random)
        choices = [int(np.argmax(part)) for part in self._noise(_RANDOM, number)]
        value = self._trace(choices, self._images(_RANDOM, number))
        if not np.isfinite(value):
            raise RunError(
                "the gradient of a random architecture is not finite, so nu has no mean or median.",
                "Give search.nu a number, or another seed.",
            )
        self.state.random.append(value)
        self.book.append(RandomTrace(index=number, trace=value))

    def _step(self) -> None:
        started = time.monotonic()
        number, nu, mu = self.state.steps, self.state.nu(), self.settings.mu
        noise = self._noise(_STEP, number)
        choices = [int(np.argmax(part)) for part in noise]
        images = self._images(_STEP, number)
        if self.settings.estimator == "averages":
            value = self._trace(choices, images)
            facts: dict[str, Any] = {"choices": choices}
        else:
            value, gradient = trace_gradient(self.supernet, noise, images, self.settings.temperature)
            facts = {"gradient": (gradient * slope(value, mu, nu)).tolist()}
        update: dict[str, Any]
        if np.isfinite(value) and np.isfinite(facts.get("gradient", 0.0)).all():
            update = {
                "values": {self.objective: objective(value, mu, nu)},
                "facts": {"trace": value, "nu": nu, **facts},
            }
        else:
            update = {"failed": "the gradient is not finite"}
        line = self.candidate(number, self.plan.arch(choices), "drawn").model_copy(
            update=update | {"seconds": time.monotonic() - started}
        )
        self._tell(line)
        self.book.append(line)

    def _tell(self, line: Candidate) -> None:
        """What a step's line says, new or replayed."""
        if line.values is None:
            self.state.tell_failed()
            self.failed += 1
        elif self.settings.estimator == "averages":
            self.state.tell_drawn(line.facts["choices"], float(line.facts["trace"]))
        else:
            self.state.tell(float(line.facts["trace"]), np.array(line.facts["gradient"]))

    def _choose(self) -> Candidate:
        choices = self.state.choices()
        value = self._trace(choices, self._images(_STEP, self.state.steps))
        nu = self.state.nu()
        values = {self.objective: objective(value, self.settings.mu, nu)} if np.isfinite(value) else None
        line = self.candidate(self.state.steps, self.plan.arch(choices), "chosen")
        return line.model_copy(update={"values": values})

    def _replay(self) -> Candidate | None:
        """Take up what the ledger holds; the line of the outcome, if it is there."""
        for number, record in enumerate(self.book.records, start=1):
            if isinstance(record, RandomTrace):
                self.state.random.append(record.trace)
            elif isinstance(record, Candidate) and record.origin == "chosen":
                return record
            elif isinstance(record, Candidate):
                if record.index != self.state.steps:
                    raise RunError(
                        f"{self.folder.ledger.path} line {number} is step {record.index} where {self.state.steps} "
                        "belongs.",
                        "Start a new run directory.",
                    )
                self._tell(record)
        return None
