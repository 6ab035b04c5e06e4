"""The n-th write, fsync, rename, open or read below a folder fails, for n = 1, 2, 3 ... until no call is left to fail.

Afterwards the command has either ended well with the right result, or said in a sentence what the machine refused; and the
same command without the fault gives the reference.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.attack.bench import Bench
from tests.attack.shim import Fault
from tests.attack.tiny import Job

# What the system says of which calls. Too many open files and files too large are for the large run.
MEANS = {
    "EIO": ("write", "fsync", "rename", "open", "read"),
    "ENOSPC": ("write", "fsync", "rename", "open"),
    "EMFILE": ("open",),
    "EFBIG": ("write",),
}
ALWAYS = ("EIO", "ENOSPC")


def calls(bench: Bench, job: Job, kind: str) -> int:
    """How many calls of a kind an undisturbed job makes."""
    if job.name not in bench.calls:
        out = bench.out()
        ended = bench.children.run(job.argv(bench.base, out), fault=Fault("write", 0, "EIO"), below=bench.folder)
        bench.judge("undisturbed runs", job, out, ended, "counting calls")
        bench.calls[job.name] = ended.calls
    return bench.calls[job.name][kind]


def one_fault(bench: Bench, job: Job, fault: Fault) -> None:
    """A run with a fault, and what came of it. What the job reads may fail too: the data, the model."""
    out = bench.out()
    bench.reference(job)
    ended = bench.children.run(job.argv(bench.base, out), fault=fault, below=bench.folder)
    bench.judge(f"faults: {fault.error}", job, out, ended, str(fault))


def all_faults(bench: Bench, job: Job, errors: tuple[str, ...] = ALWAYS, sticky: bool = False) -> Iterator[Fault]:
    """Every call of a job, with every error that it can meet."""
    for kind in ("write", "fsync", "rename", "open", "read"):
        if names := [error for error in errors if kind in MEANS[error]]:
            for at in range(1, calls(bench, job, kind) + 1):
                for error in names:
                    yield Fault(kind, at, error, sticky)


def attack(bench: Bench, jobs: tuple[Job, ...]) -> None:
    """Every position of every job, in chance's order so that a short run sees all kinds; then rarer faults."""
    plan = bench.dealt([(job, fault) for job in jobs for fault in all_faults(bench, job)])
    rare = [(job, fault) for job in jobs for fault in all_faults(bench, job, ("EMFILE", "EFBIG"))]
    rare += [(job, fault) for job in jobs for fault in all_faults(bench, job, ("ENOSPC",), sticky=True)]
    done = 0
    for job, fault in plan + bench.dealt(rare):
        if bench.late:
            break
        one_fault(bench, job, fault)
        done += 1
    bench.tally.notes["faults"] = (
        f"{min(done, len(plan)):,} of {len(plan):,} positions for EIO and ENOSPC, {max(0, done - len(plan)):,} others"
    )
