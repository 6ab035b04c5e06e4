"""What every attacker has at hand: children, data and a trained model to work on, references, chance, and a tally."""

from __future__ import annotations

import random
import re
import shlex
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.attack.children import Children, Ended
from tests.attack.snapshot import Snapshot, different, snapshot, tree
from tests.attack.tally import Outcome, Tally, fault_of
from tests.attack.tiny import PREPARE, TRAIN_JOB, Base, Job

_MENDING = re.compile(r"recnas repair (\S+)|rm -r (\S+)")


@dataclass
class Bench:
    folder: Path
    children: Children
    tally: Tally
    rng: random.Random
    place: tuple[int, int] = (0, 1)  # which of how many processes this is: plans are dealt out among them
    until: float = float("inf")  # of `time.monotonic()`
    references: dict[str, Snapshot] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)  # that a job takes undisturbed
    calls: dict[str, dict[str, int]] = field(
        default_factory=dict
    )  # of the system, that a job makes undisturbed, by kind
    tries: int = 0
    leads_on: set[tuple[str, str]] = field(default_factory=set)  # jobs and states from which they reached the reference

    @property
    def late(self) -> bool:
        return time.monotonic() >= self.until

    @cached_property
    def base(self) -> Base:
        """Prepared data and a trained model."""
        base = Base(self.folder / "base")
        base.write()
        self.must(PREPARE.argv(base, base.data))
        self.must(TRAIN_JOB.argv(base, base.trained))
        return base

    def dealt(self, plan: list[Any]) -> list[Any]:
        """The part of a plan that is this process's, in chance's order."""
        number, processes = self.place
        mine = plan[number::processes]
        self.rng.shuffle(mine)
        return mine

    def must(self, argv: list[str]) -> Ended:
        ended = self.children.run(argv)
        if ended.code:
            raise AssertionError(f"an undisturbed command failed\n{ended}")
        return ended

    def reference(self, job: Job) -> Snapshot:
        """What the job gives when nobody disturbs it."""
        if job.name not in self.references:
            out, started = self.out(), time.monotonic()
            self.must(job.argv(self.base, out))
            self.seconds[job.name] = time.monotonic() - started
            self.references[job.name] = snapshot(out.parent)
            shutil.rmtree(out.parent)
            if job.like is not None:
                wrong = different(self.reference(job.like), self.references[job.name])
                outcome = Outcome.WRONG if wrong else Outcome.RIGHT
                self.tally.add(
                    "undisturbed runs", outcome, f"{job.name} is not {job.like.name}: {', '.join(wrong[:6])}"
                )
        return self.references[job.name]

    def out(self) -> Path:
        """A path for another try, which does not exist; its folder holds nothing else."""
        self.tries += 1
        place = self.folder / f"try-{self.tries}"
        place.mkdir()
        return place / "out"

    def judge(self, attack: str, job: Job, out: Path, ended: Ended, what: str) -> Outcome:
        """Was the job's command, as it ended, right? Else is it, or does what its message names lead to, the reference?"""
        outcome, detail = self.outcome(job, out, ended)
        self.tally.add(attack, outcome, f"{job.name}: {what}: {detail}")
        if outcome in (Outcome.RIGHT, Outcome.REFUSED):
            shutil.rmtree(out.parent, ignore_errors=True)
        return outcome

    def outcome(self, job: Job, out: Path, ended: Ended, but: tuple[str, ...] = ()) -> tuple[Outcome, str]:
        """`judge` without the tally; `but` are patterns of names that may differ."""
        refused, begin = ended.code != 0, (job.name, str({**tree(out.parent), "out/.lock": ""}))
        for _ in range(3):
            if (fault := fault_of(ended)) is not None:
                return fault, str(ended)
            if refused and begin in self.leads_on:
                return Outcome.REFUSED, ""
            if ended.code == 0:
                names = different(self.reference(job), snapshot(out.parent))
                if wrong := [name for name in names if not any(fnmatch(name, pattern) for pattern in but)]:
                    return Outcome.WRONG, f"{out} differs in {', '.join(wrong[:6])}"
                self.leads_on.add(begin)
                return (Outcome.REFUSED if refused else Outcome.RIGHT), ""
            said = self.mend(ended, out)
            if said is not None and (fault := fault_of(said)) is not None:
                return fault, str(said)
            ended = self.children.run(job.argv(self.base, out))
        return Outcome.STUCK, str(ended)

    def mend(self, ended: Ended, out: Path) -> Ended | None:
        """Do what the message of a command says: `recnas repair DIR`, or remove a folder of ours."""
        for match in _MENDING.finditer(ended.err):
            if match[1]:
                return self.children.run(["repair", match[1].rstrip(".")])
            path = Path(shlex.split(match[2])[0].rstrip("."))
            if path == out or out in path.parents:
                shutil.rmtree(path, ignore_errors=True)
                return None
        return None


Attack = Callable[[Bench], Any]
