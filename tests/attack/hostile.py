"""Recipes, folders and raw files of somebody who means harm.

Every case is built beside a folder of a victim and a data folder. After the command nothing of the victim's has
changed, nothing was run, and it ended in time, in memory, with success or a sentence.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.attack.bench import Bench
from tests.attack.snapshot import tree
from tests.attack.tally import Outcome, fault_of
from tests.attack.tiny import COMPARE, PREPARE, RECIPE, SEARCH_JOB, TRAIN_JOB

LONGEST = 60.0  # seconds of a command
MOST = 1200 << 20  # bytes of memory, those of torch and the server included
ADDRESSES = 12 << 30  # bytes of address space, above which it is refused memory
INJECTED = "INJECTED"
CODE = f'x"""; import os; os.system("touch {INJECTED}"); """y'


@dataclass(frozen=True)
class Place:
    """Where a case is built: `here` is the attacker's, `victim` nobody may change."""

    bench: Bench
    here: Path
    victim: Path

    @property
    def out(self) -> Path:
        return self.here / "out"

    def prepare(self, recipe: str, raw: bytes | None = None, *more: str) -> list[str]:
        (self.here / "r.yaml").write_text(recipe)
        log = self.here / "log.csv"
        log.write_bytes(self.bench.base.log.read_bytes() if raw is None else raw)
        return ["prepare", str(self.here / "r.yaml"), "--raw", str(log), "--out", str(self.out), "--quiet", *more]


@dataclass(frozen=True)
class Case:
    name: str
    build: Callable[[Place], list[str]]  # what is then typed
    refused: bool | None = True  # whether it has to be; None: either will do
    large: bool = False  # takes long


def _column(name: str, raw_name: str | None = None) -> Callable[[Place], list[str]]:
    """A column of that name, in the recipe and in the header."""

    def build(place: Place) -> list[str]:
        recipe = RECIPE.replace("[user, item, city]", json.dumps(["user", "item", name]))
        cell = '"' + (raw_name or name).replace('"', '""') + '"'
        return place.prepare(recipe, place.bench.base.log.read_bytes().replace(b"city", cell.encode(), 1))

    return build


def _recipe(old: str, new: str, *more: str) -> Callable[[Place], list[str]]:
    assert old in RECIPE
    return lambda place: place.prepare(RECIPE.replace(old, new), None, *more)


def _joined(file: str, column: str = "x") -> Callable[[Place], list[str]]:
    def build(place: Place) -> list[str]:
        (place.here / "side.txt").write_text("u1\ta\nu2\tb\n")
        join = {"file": file.format(victim=place.victim), "key": "user", "columns": [column]}
        return place.prepare(
            RECIPE.replace("[user, item, city]", json.dumps(["user", "item", column]))
            + f"joins: [{json.dumps(join)}]\n"
        )

    return build


def _raw(data: bytes, *more: str) -> Callable[[Place], list[str]]:
    return lambda place: place.prepare(RECIPE, data, *more)


def _newlines(size: int, packed: bool) -> Callable[[Place], list[str]]:
    """A good beginning, and then nothing but ends of lines."""

    def build(place: Place) -> list[str]:
        data = b"".join(place.bench.base.log.read_bytes().splitlines(keepends=True)[:60]) + b"\n" * size
        argv = place.prepare(RECIPE, b"", "--on-error", "skip", "--memory", "256MB", "--threads", "1")
        log = place.here / ("log.csv.gz" if packed else "log.csv")
        log.write_bytes(gzip.compress(data, 6) if packed else data)
        return [str(log) if word == str(place.here / "log.csv") else word for word in argv]

    return build


def _strings(place: Place) -> list[str]:
    lines = [f"{n % 2},1,1,u{n:07d}-{n * 7919:012x},i{n % 5},c" for n in range(300_000)]
    return place.prepare(RECIPE, b"click,price,age,user,item,city\n" + "\n".join(lines).encode(), "--memory", "256MB")


_BOMB = "\n".join(
    ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)), "name: *a9"]
)
_TAG = f"name: !!python/object/apply:os.system ['touch {INJECTED}']"

RECIPES = (
    *(Case(f"a column called {name[:30]!r}", _column(name)) for name in (
        "../../victim/pwned", "../pwned", "a/b", "/tmp/recnas-pwned", ".hidden", "..", "a\\b", "a'b", 'a"b', "`touch INJECTED`", "$(touch INJECTED)", CODE,
        "a\x1b[2Jb", "a\u202eb", "x" * 300, "",
    )),
    Case("a recipe called ../x", _recipe("name: tiny", "name: ../x")),
    Case("a side file elsewhere", _joined("{victim}/side.txt")),
    Case("a side file above", _joined("../victim/side.txt")),
    Case("a side column that is code", _joined("side.txt", CODE)),
    Case("an alias bomb", lambda place: place.prepare(RECIPE + _BOMB)),
    Case("a name that is an alias bomb", lambda place: place.prepare(_BOMB + "\n" + RECIPE.replace("name: tiny", ""))),
    Case("nested 3,000 times", _recipe("name: tiny", "name: " + "[" * 3000)),
    Case("a Python tag", lambda place: place.prepare(RECIPE.replace("name: tiny", _TAG))),
    *(Case(f"a name {value[:20]}", _recipe("name: tiny", f"name: {value}")) for value in (
        "0b_", "!!bool x", "!!timestamp x", "9" * 5000, "!!set {a}", "[]", "null",
    )),
    Case("three thousand million columns", _recipe("[price, age]", '["I1..I3000000000"]')),
    Case("columns: true", _recipe("[price, age]", "true")),
    *(Case(f"fill {value}", _recipe("columns: [price, age]", f"columns: [price, age], fill: {value}")) for value in (".nan", ".inf", "1e39", "x")),
    Case("missing: NA among numbers", _recipe("columns: [price, age]", "columns: [price, age], missing: [NA]"), False),
    Case("a list for a recipe", lambda place: place.prepare("- 1\n")),
    Case("an empty recipe", lambda place: place.prepare("")),
    Case("a recipe of bytes", lambda place: [*place.prepare("\x00\x01")]),
    Case("a recipe that is a pipe", lambda place: [_fifo(place.here / "p.yaml") if word.endswith("r.yaml") else word for word in place.prepare(RECIPE)]),
    Case("a recipe that never ends", lambda place: ["/dev/zero" if word.endswith("r.yaml") else word for word in place.prepare(RECIPE)]),
)  # fmt: skip

_HEADER = b"click,price,age,user,item,city\n"
RAWS = (
    Case("numbers that do not fit", lambda place: place.prepare(RECIPE.replace("[price, age]", "[price, age], transform: none"), _HEADER + b"1,1e39,2,u,i,c\n" * 50), None),
    Case("nothing", _raw(b"")),
    Case("a header only", _raw(_HEADER)),
    Case("NUL bytes", _raw(_HEADER + b"1,2,3,u\0,i,c\n0,1,2,v,i,c\n" * 60), None),
    Case("UTF-16", _raw((_HEADER * 20).decode().encode("utf-16"))),
    Case("one line of 4 MB", _raw(_HEADER + b"1,2,3," + b"x" * (4 << 20) + b",i,c\n"), None),
    Case("a field of 5,000 digits", _raw(_HEADER + b"1," + b"9" * 5000 + b",3,u,i,c\n" + b"0,1,2,v,i,c\n" * 60), None),
    Case("carriage returns only", _raw((_HEADER + b"1,2,3,u,i,c\n" * 60).replace(b"\n", b"\r"))),
    Case("a cut gzip", lambda place: _packed(place, 200)),
    Case("a raw file that is a pipe", lambda place: [_fifo(place.here / "p.csv") if word.endswith("log.csv") else word for word in place.prepare(RECIPE)]),
    Case("a megabyte of ends of lines", _newlines(1 << 20, False), None),
    Case("16 MB of ends of lines", _newlines(16 << 20, False), None, large=True),
    Case("64 MB of ends of lines in a gzip", _newlines(64 << 20, True), None, large=True),
    Case("300,000 strings", _strings, False, large=True),
    Case("a split index that is a list", lambda place: [*place.prepare(RECIPE), "--protocol", "index", "--split-index", _file(place.here / "s.npy", b"\x93NUMPY\x01\0v\0{'descr': '|O'")]),
    Case("a split index of nothing", lambda place: [*place.prepare(RECIPE), "--protocol", "index", "--split-index", _file(place.here / "s.npy", b"")]),
)  # fmt: skip


def _file(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def _fifo(path: Path) -> str:
    os.mkfifo(path)
    return str(path)


def _packed(place: Place, keep: int) -> list[str]:
    argv = place.prepare(RECIPE)
    log = place.here / "log.csv.gz"
    log.write_bytes(gzip.compress(place.bench.base.log.read_bytes())[:keep])
    return [str(log) if word.endswith("log.csv") else word for word in argv]


def _replaced(path: Path, how: str, victim: Path) -> None:
    """What is no file in the place of one."""
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if how == "link":
        path.symlink_to(victim / "notes.txt")
    elif how == "folder link":
        path.symlink_to(victim)
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "endless":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()


def _in_run(name: str, how: str, use: Callable[[Place], list[str]]) -> Callable[[Place], list[str]]:
    """A trained run, with something odd in the place of one of its files."""

    def build(place: Place) -> list[str]:
        shutil.copytree(place.bench.base.trained, place.out)
        _replaced(place.out / name, how, place.victim)
        return use(place)

    return build


def _train(place: Place) -> list[str]:
    return TRAIN_JOB.argv(place.bench.base, place.out)


def _report(place: Place) -> list[str]:
    return ["report", str(place.out), "-o", str(place.here / "r.html")]


def _predict(place: Place) -> list[str]:
    return [
        "predict",
        str(place.out),
        "--raw",
        str(place.bench.base.log),
        "--data",
        str(place.bench.base.data),
        "--quiet",
    ]


def _into(job: object, name: str, how: str) -> Callable[[Place], list[str]]:
    """A new job into a folder where something lies already."""

    def build(place: Place) -> list[str]:
        place.out.mkdir()
        _replaced(place.out / name, how, place.victim)
        return job.argv(place.bench.base, place.out)  # type: ignore[attr-defined]

    return build


def _changed_json(
    name: str, change: Callable[[dict], object], use: Callable[[Place], list[str]]
) -> Callable[[Place], list[str]]:
    """A trained run whose file was changed by somebody who knows the checksums."""

    def build(place: Place) -> list[str]:
        from recnas.runs.checks import with_check

        shutil.copytree(place.bench.base.trained, place.out)
        (place.out / "checksums.json").unlink()
        value = json.loads((place.out / name).read_text())
        value = change(value) or value
        (place.out / name).write_text(
            json.dumps(with_check(value) if isinstance(value, dict) and "check" in value else value)
        )
        return use(place)

    return build


def _schema_of_data(
    change: Callable[[dict], None], use: Callable[[Place, Path], list[str]]
) -> Callable[[Place], list[str]]:
    """Prepared data of a stranger: a schema as they like it, and all checksums made to fit."""

    def build(place: Place) -> list[str]:
        from recnas.files import sha256_file
        from recnas.runs.checks import with_check

        data = place.here / "data"
        shutil.copytree(place.bench.base.data, data)
        schema, manifest = (json.loads((data / name).read_text()) for name in ("schema.json", "manifest.json"))
        change(schema)
        (data / "schema.json").write_text(json.dumps(schema))
        manifest["checksums"]["schema.json"] = sha256_file(data / "schema.json")
        (data / "manifest.json").write_text(json.dumps(with_check(manifest)))
        (data / ".verified.json").unlink(missing_ok=True)
        return use(place, data)

    return build


def _train_on(place: Place, data: Path) -> list[str]:
    return [str(data) if word == str(place.bench.base.data) else word for word in _train(place)]


def _set(*path: object, value: object) -> Callable[[dict], None]:
    def change(data: dict) -> None:
        node = data
        for step in path[:-1]:
            node = node[step]  # type: ignore[index]
        node[path[-1]] = value  # type: ignore[index]

    return change


def _tensors(data: Callable[[bytes], bytes]) -> Callable[[Place], list[str]]:
    """A checkpoint of a stranger, with all checksums made to fit."""

    def build(place: Place) -> list[str]:
        import hashlib

        shutil.copytree(place.bench.base.trained, place.out)
        (place.out / "checksums.json").unlink()
        for file in place.out.glob("seed-*/step-*/tensors.safetensors"):
            content = data(file.read_bytes())
            file.write_bytes(content)
            state = json.loads((file.parent / "state.json").read_text())
            del state["sha256"]
            state |= {"tensor_bytes": len(content), "tensor_sha256": hashlib.sha256(content).hexdigest()}
            state["sha256"] = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
            (file.parent / "state.json").write_text(json.dumps(state))
        return _predict(place)

    return build


FOLDERS = (
    *(Case(f"{name} of a run is a {how}", _in_run(name, how, use)) for name, how, use in (
        (".lock", "link", _train), ("result.json", "link", _train), ("arch.json", "link", _train), ("ledger.jsonl", "link", _train), ("predictions/x", "link", _train),
        ("result.json", "pipe", _report), ("ledger.jsonl", "endless", _report), ("manifest.json", "pipe", _report), ("manifest.json", "endless", _train),
        ("ledger.jsonl", "folder", _report), ("manifest.json", "folder", _report), ("schema.json", "pipe", _predict), ("checksums.json", "pipe", _predict),
    )),
    *(Case(f"{name} is a {how} where {job.name} is to write", _into(job, name, how)) for job, name, how in (
        (PREPARE, ".lock", "link"), (PREPARE, ".work", "folder link"), (PREPARE, ".work/chunks", "folder link"), (PREPARE, "train", "folder link"),
        (TRAIN_JOB, ".lock", "link"), (TRAIN_JOB, "manifest.json", "link"), (SEARCH_JOB, ".lock", "link"), (COMPARE, "ledger.jsonl", "link"),
    )),
    Case("a run that is a file", lambda place: _train(place) if place.out.write_text("mine") else []),
    Case("a manifest that is a list", _changed_json("manifest.json", lambda value: [value], _train)),
    Case("a seed that is no number", _changed_json("manifest.json", _set("settings", value=[]), _predict)),
    Case("a result of other types", _changed_json("result.json", _set("params", value="x"), _report)),
    Case("54.5 rows of a table", _schema_of_data(_set("sparse", 0, "rows", value=54.5), _train_on)),
    Case("a million million rows of a table", _schema_of_data(_set("sparse", 0, "rows", value=10**12), _train_on)),
    Case("a column of data that is a path", _schema_of_data(_set("sparse", 0, "name", value="../../victim/pwned"), _train_on)),
    Case("a column of data that is code", _schema_of_data(_set("dense", 0, "name", value=CODE), _train_on)),
    Case("a checkpoint of nothing", _tensors(lambda data: b"")),
    Case("a checkpoint with a header of exabytes", _tensors(lambda data: struct.pack("<Q", 1 << 60) + data[8:])),
    Case("a checkpoint of zeros", _tensors(lambda data: bytes(len(data)))),
    Case("a checkpoint whose header is a list", _tensors(lambda data: struct.pack("<Q", 8) + b"[]      " + data[8:])),
    Case("a checkpoint with other names", _tensors(lambda data: data.replace(b"network/", b"nftwork/"))),
)  # fmt: skip
CASES = (*RECIPES, *RAWS, *FOLDERS)


def try_case(bench: Bench, case: Case) -> None:
    place = _place(bench)
    argv = case.build(place)
    before = tree(place.victim)
    ended = bench.children.begin(argv, memory=ADDRESSES).wait(longest=LONGEST)
    outcome, said = Outcome.REFUSED if ended.code else Outcome.RIGHT, ""
    injected = [
        path
        for path in (bench.children.folder / INJECTED, place.here / INJECTED, Path("/tmp/recnas-pwned.parquet"))
        if path.exists()
    ]
    if tree(place.victim) != before or injected:
        outcome, said = Outcome.OUTSIDE, f"{injected or place.victim} was written to"
    elif (fault := fault_of(ended)) is not None:
        outcome, said = fault, str(ended)
    elif case.refused is not None and case.refused != bool(ended.code):
        outcome, said = Outcome.WRONG if case.refused else Outcome.STUCK, str(ended)
    elif ended.peak > MOST:
        outcome, said = Outcome.HUNG, f"{ended.peak >> 20:,} MB of memory"
    bench.tally.add("hostile files", outcome, f"{case.name}: {said}")
    shutil.rmtree(place.here.parent, ignore_errors=True)


def _place(bench: Bench) -> Place:
    folder = bench.out().parent
    here, victim = folder / "here", folder / "victim"
    for made in (here, victim, victim / "deeper"):
        made.mkdir()
    for name in ("notes.txt", "pwned.parquet", "pwned.json", "side.txt", "deeper/notes.txt"):
        (victim / name).write_text("mine\n")
    (bench.children.folder / INJECTED).unlink(missing_ok=True)
    return Place(bench, here, victim)


def attack(bench: Bench, cases: Sequence[Case] = CASES) -> None:
    for case in bench.dealt(list(cases)):
        if bench.late:
            return
        try_case(bench, case)
