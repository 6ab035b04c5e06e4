"""What came of every try, counted by attack; what is wrong is kept with enough to repeat it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from tests.attack.children import Ended


class Outcome(StrEnum):
    RIGHT = "right"  # the reference result, at once or after the same command again
    REFUSED = "refused"  # exit code 2 and a sentence
    WRONG = "wrong, exit 0"
    OUTSIDE = "files outside"
    HUNG = "hung"
    TRACEBACK = "traceback"
    STUCK = "stuck"  # neither the same command nor the one that the message names leads to the reference


GOOD = (Outcome.RIGHT, Outcome.REFUSED)


@dataclass
class Tally:
    counts: dict[str, Counter[Outcome]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)  # by attack: what else is to be known

    def add(self, attack: str, outcome: Outcome, what: str = "", number: int = 1) -> None:
        self.counts.setdefault(attack, Counter())[outcome] += number
        if outcome not in GOOD:
            self.faults.append(f"[{attack}] {outcome}: {what}")

    def merge(self, other: Tally) -> None:
        """Add what another process counted."""
        for attack, counts in other.counts.items():
            self.counts.setdefault(attack, Counter()).update(counts)
        self.faults += other.faults
        for attack, note in other.notes.items():
            self.notes[attack] = f"{self.notes[attack]}; {note}" if attack in self.notes else note

    @property
    def well(self) -> bool:
        return not self.faults

    def tried(self, attack: str) -> int:
        return self.counts.get(attack, Counter()).total()

    def table(self) -> str:
        head = ["attack", "tried", *Outcome]
        rows = [
            [attack, f"{found.total():,}", *(f"{found[outcome]:,}" for outcome in Outcome)]
            for attack, found in self.counts.items()
        ]
        widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(width) if not place else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths))
            )
            for row in [head, *rows]
        ]
        return "\n".join([*lines, *(f"{attack}: {note}" for attack, note in self.notes.items())])


def fault_of(ended: Ended) -> Outcome | None:
    """What is wrong with how a command ended, whatever it did; None for success, a sentence, or our own kill."""
    if ended.hung:
        return Outcome.HUNG
    if ended.traceback:
        return Outcome.TRACEBACK
    return None if ended.code == 0 or ended.refused or ended.killed else Outcome.STUCK
