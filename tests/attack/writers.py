"""Two that begin at one moment in one folder: one writes, the other is refused or finds what it would have made."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Sequence

from tests.attack.bench import Bench
from tests.attack.children import Children
from tests.attack.snapshot import different
from tests.attack.tally import Outcome, fault_of
from tests.attack.tiny import PREPARE, SEARCH_JOB, TRAIN_JOB, WARMUP, Job

_MARK = "7712"  # of the second one's settings
_OTHERS = {
    PREPARE.name: ["--seed", _MARK],
    TRAIN_JOB.name: [f"lr=0.0{_MARK}"],
}  # other seeds may be added to a training
JOBS = (PREPARE, TRAIN_JOB, WARMUP, SEARCH_JOB)


def two_at_once(bench: Bench, other: Children, job: Job, apart: float = 0.0) -> None:
    """The same folder, two sets of settings; then the winner's command once more."""
    reference, out = bench.reference(job), bench.out()
    mine = job.argv(bench.base, out)
    theirs = [*mine, *_OTHERS.get(job.name, [f"seed={_MARK}"])]
    begin = time.monotonic() + 0.1
    first = bench.children.begin(mine, at=begin)
    second = other.begin(theirs, at=begin + apart)
    ended = [first.wait(), second.wait()]
    outcome, said = Outcome.REFUSED, ""
    for one in ended:
        if (fault := fault_of(one)) is not None:
            outcome, said = fault, str(one)
    done = [one.code == 0 for one in ended]
    if outcome is Outcome.REFUSED and sum(done) != 1:
        outcome, said = (Outcome.WRONG if all(done) else Outcome.STUCK), "\n".join(map(str, ended))
    elif outcome is Outcome.REFUSED and done[0]:
        outcome, said = bench.outcome(job, out, ended[0])
        outcome = Outcome.REFUSED if outcome is Outcome.RIGHT else outcome
    elif outcome is Outcome.REFUSED:
        manifest = json.loads((out / "manifest.json").read_text())
        again = bench.children.run(theirs)
        wrong = again.code != 0 or not different(reference, _of(out)) or _MARK not in json.dumps(manifest)
        outcome, said = (Outcome.WRONG, f"{out} is not the second one's\n{again}") if wrong else (Outcome.REFUSED, "")
    bench.tally.add("two writers", outcome, f"{job.name}: {said}")
    if outcome is Outcome.REFUSED:
        shutil.rmtree(out.parent)


def _of(out: object) -> dict[str, str]:
    from tests.attack.snapshot import snapshot

    return snapshot(out.parent)  # type: ignore[attr-defined]


def attack(bench: Bench, jobs: Sequence[Job] = JOBS) -> None:
    rng: random.Random = bench.rng
    with Children(bench.children.folder.with_name(f"{bench.children.folder.name}-other"), None) as other:
        while not bench.late:
            two_at_once(bench, other, rng.choice(list(jobs)), rng.choice([0.0, 0.0, rng.uniform(0, 0.2)]))
