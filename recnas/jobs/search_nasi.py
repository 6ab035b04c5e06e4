"""`recnas search` with `search.method: nasi`: a search at initialisation, on a supernet that is never trained.

    RUN/ledger.jsonl    random     T of a random architecture, for nu
                        candidate  a step: what was drawn, T, nu, R and the gradient of R by alpha, or (estimator: averages)
                                   the choices themselves
                        candidate  the last one, of origin "chosen": the outcome, measured on a batch of its own

Every step depends on the seed and its number alone, and what steps add up to is in the ledger: a search that was
stopped goes on where it stopped and ends the same.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from recnas.errors import RunError
from recnas.jobs.search_oneshot import THREADS, NasiConfig, batch_of, load_supernet, open_run, write_result
from recnas.progress import Progress
from recnas.run import RunDir
from recnas.searchers.nasi import Nasi, draw_noise, objective, slope
from recnas.space.registry import get_space
from recnas.threads import computing_with

STEP_STREAM, RANDOM_STREAM = 11, 12  # keep these draws apart from every other draw of a seed
OBJECTIVE = "nasi"


def search_nasi(config: NasiConfig, out: Path | str, progress: Progress | None = None) -> dict[str, Any]:
    """Run the search, or the rest of one that was interrupted."""
    images = config.images.load()
    run = open_run(config, out, images)
    with run.locked(), computing_with(THREADS):
        result = _NasiSearch(config, images, run, progress or Progress(quiet=True)).run()
    return result


class _NasiSearch:
    def __init__(self, config: NasiConfig, images: Any, run: RunDir, progress: Progress) -> None:
        self.config, self.images, self.folder, self.progress = config, images, run, progress
        self.settings = config.search.nasi
        self.supernet = load_supernet(config, images)
        self.plan = self.supernet.plan
        sizes = config.space.supernet if config.space.name == "mlp" else {}
        self.space = get_space(config.space.name, **sizes)
        self.state = Nasi(self.settings, [decision.size for decision in self.plan.decisions])
        self.chosen: dict[str, Any] | None = None
        self.failed, self.timed = 0, False
        for number, event in enumerate(run.ledger.read(), start=1):
            self._replay(number, event)

    def run(self) -> dict[str, Any]:
        started = time.monotonic()
        settings = self.settings
        total = settings.steps + (settings.nu_archs if settings.nu in ("mean", "median") else 0)
        self.progress.phase("search", total, "steps")
        self.progress.advance(len(self.state.random) + self.state.steps)
        while self.state.wants_random:
            trace = self._random(len(self.state.random))
            if not np.isfinite(trace):
                raise RunError(
                    "the gradient of a random architecture is not finite, so nu has no mean or median.", "Give search.nasi.nu a number, or another seed."
                )
            self.state.random.append(trace)
            self.folder.ledger.append({"event": "random", "index": len(self.state.random) - 1, "trace": trace})
            self.progress.advance(1)
        while not self.state.done:
            self._step()
            self.progress.advance(1)
        self.progress.end()
        if self.chosen is None:
            self.chosen = self._choose()
            self.folder.ledger.append(self.chosen)
        if not self.timed:
            self.folder.ledger.append({"event": "phase", "name": "search", "seconds": time.monotonic() - started, "workers": 1})
        arch = self.plan.arch(self.state.choices())
        facts: dict[str, Any] = {
            "method": "nasi",
            "objectives": {OBJECTIVE: "max"},
            "alpha": {d.name: part.tolist() for d, part in zip(self.plan.decisions, self.state.alpha())},
            "nu": self.state.nu(),
            "budgets": {
                "steps": self.state.steps, "proposed": self.state.steps + 1, "scored": 0, "failed": self.failed, "trained": 0, "epochs": 0, "test_read_by": 1,
            },
        }  # fmt: skip
        return write_result(self.folder, self.config, arch, self.images, self.supernet, self.chosen, facts)

    def _batch(self, stream: int, number: int) -> Any:
        chosen = self.settings
        return batch_of(self.images, chosen.batch_size, (self.config.seed, stream, number), chosen.labels, chosen.inputs)

    def _noise(self, stream: int, number: int) -> list[np.ndarray]:
        return draw_noise(self.state.sizes, np.random.default_rng([self.config.seed, stream, number]))

    def _trace(self, choices: list[int], batch: Any) -> float:
        from recnas.model.cell_supernet import one_hot
        from recnas.searchers.nasi_trace import trace

        return trace(self.supernet, self.plan.gates(one_hot(self.plan, choices)), batch).item()

    def _random(self, number: int) -> float:
        noise = self._noise(RANDOM_STREAM, number)
        return self._trace([int(np.argmax(part)) for part in noise], self._batch(RANDOM_STREAM, number))

    def _step(self) -> None:
        started = time.monotonic()
        number, nu, mu = self.state.steps, self.state.nu(), self.settings.mu
        noise = self._noise(STEP_STREAM, number)
        choices = [int(np.argmax(part)) for part in noise]
        line = self._line(number, choices, "drawn")
        if self.settings.estimator == "averages":
            trace = self._trace(choices, self._batch(STEP_STREAM, number))
            found: dict[str, Any] = {"choices": choices}
        else:
            trace, gradient = self._trace_gradient(noise, number)
            found = {"gradient": (gradient * slope(trace, mu, nu)).tolist()}
        if np.isfinite(trace) and np.isfinite(found.get("gradient", 0.0)).all():
            line |= {"values": {OBJECTIVE: objective(trace, mu, nu)}, "trace": trace, "nu": nu} | found
        else:
            line |= {"values": None, "failed": "the gradient is not finite"}
        self._tell(line)
        self.folder.ledger.append(line | {"seconds": time.monotonic() - started})

    def _trace_gradient(self, noise: list[np.ndarray], number: int) -> tuple[float, np.ndarray]:
        from recnas.searchers.nasi_trace import trace_gradient

        return trace_gradient(self.supernet, noise, self._batch(STEP_STREAM, number), self.settings.temperature)

    def _tell(self, line: dict[str, Any]) -> None:
        """What a step's line says, new or replayed."""
        if line["values"] is None:
            self.state.tell_failed()
            self.failed += 1
        elif self.settings.estimator == "averages":
            self.state.tell_drawn(line["choices"], float(line["trace"]))
        else:
            self.state.tell(float(line["trace"]), np.array(line["gradient"]))

    def _choose(self) -> dict[str, Any]:
        choices = self.state.choices()
        trace = self._trace(choices, self._batch(STEP_STREAM, self.state.steps))
        nu = self.state.nu()
        values = {OBJECTIVE: objective(trace, self.settings.mu, nu)} if np.isfinite(trace) else None
        return self._line(self.state.steps, choices, "chosen") | {"values": values}

    def _line(self, number: int, choices: list[int], origin: str) -> dict[str, Any]:
        arch = self.plan.arch(choices)
        return {
            "event": "candidate", "index": number, "key": self.space.key(arch), "arch": self.space.to_dict(arch),
            "origin": origin, "parents": [], "changes": 0,
        }  # fmt: skip

    def _replay(self, number: int, event: dict[str, Any]) -> None:
        kind = event.get("event")
        if kind == "random":
            self.state.random.append(float(event["trace"]))
        elif kind == "phase":
            self.timed = True
        elif kind == "candidate" and event.get("origin") == "chosen":
            self.chosen = event
        elif kind == "candidate":
            if event["index"] != self.state.steps:
                raise RunError(f"{self.folder.ledger.path} line {number} is step {event['index']} where {self.state.steps} belongs.", "Start a new run directory.")
            self._tell(event)
