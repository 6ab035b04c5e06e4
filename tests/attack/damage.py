"""Bytes of finished and unfinished folders are flipped, cut, zeroed or gone: that is said by name, or does not matter.

Every kind of folder has a use: data are trained on, a warm-up scores, a run predicts, an export scores rows, what is
unfinished goes on. What comes of the use is compared byte for byte with what comes of the undamaged folder.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.attack.bench import Bench
from tests.attack.children import Ended
from tests.attack.faults import calls
from tests.attack.shim import KILL, Fault
from tests.attack.snapshot import different, snapshot
from tests.attack.tally import Outcome, fault_of
from tests.attack.tiny import COMPARE, EXPORT, PREPARE, SEARCH_JOB, TRAIN, WARMUP, Base, Job

HOW = ("flip", "flip", "cut", "zeros", "empty", "longer", "gone")


@dataclass(frozen=True)
class Victim:
    """A kind of folder, made as `make` says into `folder`, and what it is used for."""

    name: str
    make: Callable[[Bench, Path], None]
    use: Callable[[Base, Path], list[str]]  # given the folder; what it writes is `beside`
    goes_on: Job | None = None  # whose command goes on in the folder
    but: tuple[str, ...] = ()  # patterns of files that may differ then, and of those that are not damaged

    def result(self, folder: Path, ended: Ended) -> dict[str, str]:
        """What came of the use: files beside the folder, what a job wrote, and what was printed without times."""
        lines = []
        for line in ended.out.splitlines():
            if line.startswith("{"):
                line = json.dumps({name: part for name, part in json.loads(line).items() if name != "seconds"})
            lines.append(line)
        beside = {
            name: digest for name, digest in snapshot(folder.parent / "beside").items() if name != "manifest.json"
        }
        return {"stdout": "\n".join(lines).replace(str(folder.parent), ""), **beside}


def _copy(of: Callable[[Base], Path]) -> Callable[[Bench, Path], None]:
    return lambda bench, folder: shutil.copytree(of(bench.base), folder) and None


def _finished(job: Job) -> Callable[[Bench, Path], None]:
    return lambda bench, folder: bench.must(job.argv(bench.base, folder)) and None


def _unfinished(job: Job, kind: str, share: float) -> Callable[[Bench, Path], None]:
    """Killed before a call in the middle."""

    def make(bench: Bench, folder: Path) -> None:
        at = max(1, int(share * calls(bench, job, kind)))
        ended = bench.children.run(job.argv(bench.base, folder), fault=Fault(kind, at, KILL), below=bench.folder)
        assert ended.killed, ended

    return make


def _predict(model: str) -> Callable[[Base, Path], list[str]]:
    return lambda base, folder: ["predict", f"{folder}{model}", "--raw", str(base.log), "--data", str(base.data), "--quiet",
                                 "--out", str(folder.parent / "beside" / "p.csv")]  # fmt: skip


def _train_on(base: Base, folder: Path) -> list[str]:
    return ["train", str(base.arch), "--data", str(folder), "--out", str(folder.parent / "beside"), "--quiet", *TRAIN]


def _score(base: Base, folder: Path) -> list[str]:
    return ["score", str(folder), "--random", "2", "--workers", "1", "--quiet", "--json", "batches=2", "batch_size=32"]


def _again(job: Job) -> Callable[[Base, Path], list[str]]:
    return lambda base, folder: job.argv(base, folder)


VICTIMS = (
    Victim("prepared data", _copy(lambda base: base.data), _train_on),
    Victim("unfinished preparation", _unfinished(PREPARE, "fsync", 0.4), _again(PREPARE), PREPARE),
    Victim("warm-up", _finished(WARMUP), _score),
    Victim("unfinished search", _unfinished(SEARCH_JOB, "rename", 0.7), _again(SEARCH_JOB), SEARCH_JOB),
    Victim("trained run", _copy(lambda base: base.trained), _predict("")),
    Victim("search", _finished(SEARCH_JOB), _predict(":best")),
    # A training that is repeated has another line in the ledger, with the same figures.
    Victim("comparison", _finished(COMPARE), _again(COMPARE), COMPARE, ("out/ledger.jsonl",)),
    Victim("export", _finished(EXPORT), lambda base, folder: ["python", str(folder / "score_row.py")]),
)


def pristine(bench: Bench, victim: Victim) -> Path:
    """The undamaged folder, made once."""
    folder = bench.folder / f"victim {victim.name}" / "it"
    if not folder.exists():
        folder.parent.mkdir(parents=True)
        victim.make(bench, folder)
    return folder


def use(bench: Bench, victim: Victim, folder: Path) -> Ended:
    shutil.rmtree(folder.parent / "beside", ignore_errors=True)
    (folder.parent / "beside").mkdir() if victim.name != "prepared data" else None
    return bench.children.run(victim.use(bench.base, folder), stdin=bench.base.log)


def whole_result(bench: Bench, victim: Victim) -> dict[str, str]:
    key = f"victim {victim.name}"
    if key not in bench.references:
        folder = bench.out()
        shutil.copytree(pristine(bench, victim), folder)
        ended = use(bench, victim, folder)
        assert ended.code == 0, ended
        bench.references[key] = victim.result(folder, ended)
        shutil.rmtree(folder.parent)
    return bench.references[key]


def files_of(folder: Path) -> list[Path]:
    """All but the lock, and the program of an export: what is damaged there, `recnas verify` finds and no program itself."""
    spared = (".lock", "score_row.py")
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.name not in spared)


def spoil(path: Path, how: str, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if how == "gone":
        path.unlink()
        return
    if how == "flip" and data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del data[rng.randrange(len(data) + 1) :]
    elif how == "zeros":
        start = rng.randrange(len(data) + 1)
        data[start : start + 512] = bytes(len(data[start : start + 512]))
    elif how == "empty":
        data = bytearray()
    elif how == "longer":
        data += rng.choice([b"\n", b"{}\n", b"\0" * 64, bytes(data[-64:])])
    path.write_bytes(data)


def damage(bench: Bench, victim: Victim, name: Path, how: str) -> None:
    """One file of a copy is damaged, and the copy used."""
    folder = bench.out()
    if victim.goes_on is None:
        whole_result(bench, victim)
    shutil.copytree(pristine(bench, victim), folder)
    spoil(folder / name, how, bench.rng)
    ended = use(bench, victim, folder)
    outcome, said = _judge(bench, victim, folder, ended, name)
    bench.tally.add(f"damaged {victim.name}", outcome, f"{how} {folder / name}: {said}")
    if outcome in (Outcome.RIGHT, Outcome.REFUSED):
        shutil.rmtree(folder.parent)


def _judge(bench: Bench, victim: Victim, folder: Path, ended: Ended, name: Path) -> tuple[Outcome, str]:
    if victim.name == "export" and ended.code == 2 and ended.err.startswith("score_row.py: "):
        return Outcome.REFUSED, ""
    if (fault := fault_of(ended)) is not None:
        return fault, str(ended)
    if ended.code and str(folder) not in ended.err:
        return Outcome.STUCK, f"the message names nothing\n{ended}"
    if victim.goes_on is not None and not any(way_out in ended.err for way_out in _OTHERWISE):
        # A file that is not used any more stays as it is, for whoever uses it next to find.
        return bench.outcome(victim.goes_on, folder, ended, (f"{folder.name}/{name}", "*.damaged-*", *victim.but))
    refused = ended.code != 0
    if refused:
        said = bench.mend(ended, folder)
        if said is None:
            return Outcome.REFUSED, ""
        if (fault := fault_of(said)) is not None:
            return fault, str(said)
        ended = use(bench, victim, folder)
        if (fault := fault_of(ended)) is not None or ended.code:
            return fault or Outcome.REFUSED, str(ended)
    if wrong := different(whole_result(bench, victim), victim.result(folder, ended)):
        return Outcome.WRONG, f"differs in {', '.join(wrong[:5])}"
    return (Outcome.REFUSED if refused else Outcome.RIGHT), ""


# Without a manifest nobody can tell what a folder is; of an end that is gone, only a copy helps.
_OTHERWISE = ("Restore it from a copy; without it", "is not a recnas run")


def attack(bench: Bench, victims: Sequence[Victim] = VICTIMS) -> None:
    while not bench.late:
        for victim in victims:
            if not bench.late:
                damage(bench, victim, bench.rng.choice(files_of(pristine(bench, victim))), bench.rng.choice(HOW))
