"""The power fails: what was not forced to disk is gone, or half there, in every mixture that a file system may leave.

A job's changes of its folder are recorded in order. For a prefix of that record a folder is built as it could be found
after a power cut at that moment; the same command, or the one that its message names, must lead to the reference.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.attack.bench import Bench
from tests.attack.shim import Change, changes_of
from tests.attack.tiny import Job

# strict: only what was forced to disk, names too. names: all names, but of contents only that. mixed: of every file and
# folder either, by chance. all: everything, as after a kill.
MODES = ("strict", "names", "mixed", "all")


@dataclass
class _File:
    data: bytearray = field(default_factory=bytearray)
    safe: bytes = b""  # when it was last forced to disk


@dataclass
class _Folder:
    names: dict[str, _File | _Folder] = field(default_factory=dict)
    safe: dict[str, _File | _Folder] = field(default_factory=dict)


class Disk:
    """What a folder holds, and what of it is sure to be on disk."""

    def __init__(self, path: Path) -> None:
        self._path, self._root = path, _Folder()

    def apply(self, change: Change) -> None:
        folder, name = self._parent(change.path)
        node = folder.names.get(name) if name else self._root
        if change.what == "M":
            folder.names[name] = _Folder()
        elif change.what == "C":
            folder.names[name] = _File()
        elif change.what == "U":
            folder.names.pop(name, None)
        elif change.what == "R":
            there, new = self._parent(change.data.decode())
            there.names[new] = folder.names.pop(name)
        elif change.what == "F" and isinstance(node, _Folder):
            node.safe = dict(node.names)
        elif isinstance(node, _File):  # not one that was removed while it was open
            if change.what == "F":
                node.safe = bytes(node.data)
            elif change.what == "T":
                del node.data[change.offset :]
                node.data.extend(bytes(change.offset - len(node.data)))
            elif change.what == "W":
                end = change.offset + len(change.data)
                node.data.extend(bytes(max(0, end - len(node.data))))
                node.data[change.offset : end] = change.data

    def _parent(self, path: str) -> tuple[_Folder, str]:
        parts = Path(path).relative_to(self._path).parts
        folder = self._root
        for part in parts[:-1]:
            step = folder.names[part]
            assert isinstance(step, _Folder)
            folder = step
        return folder, parts[-1] if parts else ""

    def write(self, out: Path, mode: str, rng: random.Random) -> None:
        """Build the folder as it could be found. That the job's own folder exists is not in question."""
        self._write(self._root, out, mode, rng, True)

    def _write(self, folder: _Folder, out: Path, mode: str, rng: random.Random, is_root: bool = False) -> None:
        out.mkdir(exist_ok=True)
        kept = mode in ("names", "all") or is_root or (mode == "mixed" and rng.random() < 0.5)
        for name, node in (folder.names if kept else folder.safe).items():
            if isinstance(node, _Folder):
                self._write(node, out / name, mode, rng)
            else:
                (out / name).write_bytes(_content(node, mode, rng))


def _content(file: _File, mode: str, rng: random.Random) -> bytes:
    data = bytes(file.data)
    if mode == "all" or data == file.safe:
        return data
    if mode == "strict":
        return file.safe
    same = len(file.safe) if data.startswith(file.safe) else 0
    cut = rng.randint(same, len(data))
    zeros = data[:cut] + bytes(len(data) - cut)  # the length was written and the blocks were not
    return rng.choice([file.safe, data[:cut], zeros, data])


def record(bench: Bench, job: Job) -> tuple[Path, list[Change]]:
    """What an undisturbed job does to the folder it is in."""
    out, place = bench.out(), bench.folder / "record"
    ended = bench.children.run(job.argv(bench.base, out), record=place, below=out.parent)
    assert ended.code == 0, ended
    changes = list(changes_of(place))
    shutil.rmtree(out.parent)
    return out.parent, changes


def cut_at(bench: Bench, job: Job, where: Path, changes: Sequence[Change], at: int, mode: str) -> None:
    """The power fails after the first `at` changes."""
    disk, out = Disk(where), bench.out()
    for change in changes[:at]:
        disk.apply(change)
    disk.write(out.parent, mode, bench.rng)
    ended = bench.children.run(job.argv(bench.base, out))
    bench.judge("power cuts", job, out, ended, f"after {at} of {len(changes)} changes, {mode}")


def moments(changes: Sequence[Change]) -> list[int]:
    """After every change but for writes in a row to one file, of which the last stands for all."""
    return [
        number
        for number, (change, after) in enumerate(zip(changes, [*changes[1:], None]), start=1)
        if after is None or not (change.what == after.what == "W" and change.path == after.path)
    ]


def all_cuts(bench: Bench, jobs: Sequence[Job]) -> Iterator[tuple[Job, Path, list[Change], int, str]]:
    for job in jobs:
        bench.reference(job)
        where, changes = record(bench, job)
        for at in moments(changes):
            for mode in MODES:
                yield job, where, changes, at, mode


def attack(bench: Bench, jobs: Sequence[Job]) -> None:
    plan = bench.dealt(list(all_cuts(bench, jobs)))
    done = 0
    for job, where, changes, at, mode in plan:
        if bench.late:
            break
        cut_at(bench, job, where, changes, at, mode)
        done += 1
    bench.tally.notes["power cuts"] = f"{done:,} of {len(plan):,} (every change, {', '.join(MODES)})"
