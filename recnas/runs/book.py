"""The ledger of a search while it is written: records in order, and phases with all the time they took.

A phase that a crash cut short has begun and not ended. When the run goes on, the time from its beginning to the
last line before the crash counts too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from recnas.runs.folder import RunDir
from recnas.runs.records import PhaseBegun, PhaseDone, Record, read_lines

R = TypeVar("R", bound=Record)


class Book:
    """Args:
    run: whose ledger it is; locked by the caller.
    workers: noted with every phase.
    """

    def __init__(self, run: RunDir, workers: int = 1) -> None:
        self._run, self._workers = run, workers
        self.records: list[Record] = read_lines("search", run.ledger.read(), str(run.ledger.path))
        self._last_write = run.ledger.path.stat().st_mtime if self.records else time.time()

    def append(self, record: Record) -> None:
        """Add a record; it is on disk when this returns."""
        self._run.ledger.append(record.to_json())
        self.records.append(record)

    def of(self, kind: type[R]) -> list[R]:
        return [record for record in self.records if isinstance(record, kind)]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Around what a phase does, also if nothing is left of it to do."""
        if any(done.name == name for done in self.of(PhaseDone)):
            yield
            return
        earlier = self._earlier_parts(name)
        self.append(PhaseBegun(name=name, at=time.time(), earlier=earlier))
        started = time.monotonic()
        yield
        spent = earlier + time.monotonic() - started
        self.append(PhaseDone(name=name, seconds=spent, workers=self._workers))

    @property
    def seconds(self) -> dict[str, float]:
        """By phase that ended."""
        return {done.name: done.seconds for done in self.of(PhaseDone)}

    def _earlier_parts(self, name: str) -> float:
        """Seconds that earlier starts of this phase took, as far as the ledger tells."""
        begun = [record for record in self.of(PhaseBegun) if record.name == name]
        if not begun:
            return 0.0
        last = begun[-1]
        return last.earlier + max(0.0, self._last_write - last.at)  # clocks can be set back
