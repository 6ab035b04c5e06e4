"""What people type and what files hold, at random: an answer or a `RecnasError`, and no row comes or goes unnoticed.

A target makes a case from a source of chance and checks it. hypothesis drives that source, so that what fails is
made small; `scripts/attack` draws by the thousand. Every text that once ended in a traceback is an example for ever.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.attack.bench import Bench
from tests.attack.tally import Outcome
from tests.attack.tiny import ARCH, RACE, RECIPE, SEARCH

DEEP = "[" * 3000
LONG_NUMBER = "9" * 5000
ODD_TEXTS = (
    "", " ", "a", "²", "٣", "nan", "inf", "-inf", "1e39", "1e999", "-0", "0x1f", "1_000", "NA", "null", "true", "\x00", "\x1b[2J", '"',
    "'", "a\nb", "../../x", "/abs", "a/b", "${x}", "x" * 300, "\u202e", "é", "💥", "=1+1", "<b>", "0b_", "2001-99-99", "1:2", "[", "{a: 1",
    "*a", "&a [*a]", "!!bool x", "!!timestamp x", "!!set {a}", "!!python/object/apply:os.getcwd []", "a..b", "I1..I3000000000", LONG_NUMBER, DEEP,
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 54.5, 1e308, 2**31, 2**63, 10**25, [], {}, [[]], {"a": 1}, [None], [1, 2], ["a", "a"], *ODD_TEXTS[:30],
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    name: str
    make: Callable[[random.Random], Any]
    check: Callable[[Any], int]  # how many cases it was; raises whatever should not be
    examples: tuple[Any, ...]
    share: float  # of the time of a large run


def edited(value: Any, rng: random.Random) -> Any:
    """A copy of a JSON value with something odd somewhere."""
    places = list(_places(value))
    path = rng.choice(places)
    copy = json.loads(json.dumps(value))
    if not path:
        return rng.choice(ODD_VALUES)
    node = copy
    for step in path[:-1]:
        node = node[step]
    how = rng.random()
    if how < 0.15 and isinstance(node, dict):
        del node[path[-1]]
    elif how < 0.25 and isinstance(node, dict):
        node[rng.choice(ODD_TEXTS[:40])] = node.pop(path[-1])
    elif how < 0.35:
        some = copy
        for step in rng.choice(places):
            some = some[step]
        node[path[-1]] = json.loads(json.dumps(some))
    else:
        node[path[-1]] = rng.choice(ODD_VALUES)
    return copy


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    steps = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for step in steps:
        yield from _places(value[step], (*path, step))


def spoiled(text: str, rng: random.Random) -> str:
    """A text with some characters gone, doubled or replaced."""
    for _ in range(rng.randint(1, 3)):
        at, length = rng.randint(0, len(text)), rng.choice([0, 0, 1, 1, 5, 40])
        text = text[:at] + rng.choice([*ODD_TEXTS, "", "", ",", ":", "\n", "\t", "}", "]", "0"]) + text[at + length :]
    return text


# Lines of raw files

_CELLS = (
    "0",
    "1",
    "2",
    "",
    "-1",
    "+1",
    " 1",
    "1.5",
    "1e5",
    "u1",
    "ab12",
    "68fd1e64",
    "NA",
    '"x"',
    '"a,b"',
    '"a""b"',
    '"',
    'a"b',
    "\r",
    "\t",
    *ODD_TEXTS[:40],
)


@cache
def _recipes() -> dict[str, Any]:
    from recnas.data.raw.recipe import Recipe, load_recipe
    from recnas.yaml_text import parse_yaml

    known = {name: load_recipe(name) for name in ("criteo", "avazu")}
    return {
        **known,
        "tiny": Recipe.model_validate(parse_yaml(RECIPE)),
        "weighted": Recipe.model_validate(parse_yaml(RECIPE + "weight: {column: w}\n")),
    }


def _columns(name: str) -> tuple[str, ...]:
    columns = _recipes()[name].columns
    return (
        tuple(columns)
        if columns
        else ("click", "price", "age", "user", "item", "city", *(["w"] if name == "weighted" else []))
    )


def make_lines(rng: random.Random, most: int = 200) -> tuple[str, bytes]:
    name = rng.choice(list(_recipes()))
    separator, width = _recipes()[name].separator, len(_columns(name))
    lines = []
    for _ in range(rng.randint(1, most)):
        cells = [rng.choice("01"), *(rng.choice(_CELLS[:12]) for _ in range(width - 1))]
        for _ in range(rng.choice([0, 0, 1, 2])):
            cells[rng.randrange(len(cells))] = rng.choice(_CELLS).replace("\n", "")
        if rng.random() < 0.1:
            cells = cells[: rng.randint(0, width)] + cells[: rng.randint(0, 2)]
        lines.append(separator.join(cells))
    text = "\n".join(lines).encode("utf-8", "surrogatepass") + rng.choice([b"\n", b"", b"\r\n", b"\n\n"])
    if rng.random() < 0.2:
        at = rng.randrange(len(text))
        text = text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :]
    return name, text


def check_lines(case: tuple[str, bytes]) -> int:
    """Rows in are rows out and rejects, each line once."""
    from recnas.data.raw.parse import parse_rows, rows_of_text

    name, text = case
    recipe = _recipes()[name]
    inputs = recipe.input_columns()
    rows = rows_of_text(text, False, _columns(name), recipe, inputs)
    wanted = text.count(b"\n") + (not text.endswith(b"\n")) if text else 0
    if rows is None:
        assert wanted == 0
        return 1
    chunk = parse_rows(recipe, inputs, rows, {})
    good, bad = chunk.line.tolist(), [fault.line for fault in chunk.bad]
    assert chunk.lines == wanted, f"{wanted} lines were taken for {chunk.lines}"
    assert sorted(good + bad) == list(range(wanted)), "a line is missing or there twice"
    assert len(chunk.label) == len(good)
    assert all(len(values) == len(good) for values in (*chunk.dense.values(), *chunk.keys.values()))
    return wanted


# Architectures


@cache
def _archs() -> tuple[Any, ...]:
    from recnas.baselines.base import InputShape
    from recnas.baselines.encoded import encode
    from recnas.space.nasrec.json import to_dict
    from recnas.tasks.archs import published

    plus = [to_dict(encode(name, InputShape(2, 3, 8))) for name in ("dcn-v2", "deepfm", "lr")]
    return (json.loads(ARCH), *plus, *(json.loads(path.read_text()) for path in list(published().values())[:2]))


def make_arch(rng: random.Random) -> str:
    value = rng.choice(_archs())
    for _ in range(rng.randint(1, 3)):
        value = edited(value, rng)
    text = json.dumps(value)
    return spoiled(text, rng) if rng.random() < 0.3 else text


def check_arch(text: str) -> int:
    from recnas.errors import RecnasError
    from recnas.space.nasrec.json import dump_arch, parse_arch

    try:
        arch = parse_arch(text)
    except RecnasError:
        return 1
    assert parse_arch(dump_arch(arch)) == arch, "what was written is not what is read"
    return 1


# Configs and overrides


def _keys(value: Any, path: str = "") -> Iterator[str]:
    for name, part in value.items():
        yield path + name
        if isinstance(part, dict):
            yield from _keys(part, f"{path}{name}.")


def make_override(rng: random.Random) -> tuple[Any, list[str]]:
    config = json.loads(json.dumps({"data": "data", **rng.choice([SEARCH, RACE])}))
    if rng.random() < 0.3:
        config = edited(config, rng)
    keys = [
        *_keys(SEARCH),
        *_keys(RACE),
        "limits.params",
        "objectives.sigeo",
        "combine",
        "seed",
        "final.retrain_on",
        "a.b.c",
        "",
        ".",
        "a..b",
    ]
    return config, [
        f"{rng.choice(keys)}{rng.choice(['=', '=', '=', '==', '', ':'])}{rng.choice(_VALUES)}"
        for _ in range(rng.randint(1, 3))
    ]


_VALUES = (
    *ODD_TEXTS,
    "[1, 2]",
    "{a: 1}",
    "[sigeo, naswot]",
    "-5",
    "0",
    "0.5",
    "1e-9",
    "evolution",
    "nasrec-plus",
    "zoo",
    "[lr]",
    "null",
    ".nan",
    ".inf",
    "1e400",
)


def check_override(case: tuple[Any, list[str]]) -> int:
    from recnas.config import apply_overrides, check_settings
    from recnas.errors import RecnasError
    from recnas.tasks.registry import config_class

    given, overrides = case
    if not isinstance(given, dict):
        return 1
    config = json.loads(json.dumps(given))  # overrides are written into it
    try:
        faults = apply_overrides(config, overrides)
        check_settings(config_class(config), config, "a file", faults, overrides).identity()
    except RecnasError:
        pass
    return len(overrides)


# Recipes


def make_recipe(rng: random.Random) -> str:
    from recnas.yaml_text import parse_yaml

    if rng.random() < 0.4:
        return spoiled(RECIPE, rng)
    value = parse_yaml(RECIPE) | {
        "weight": {"column": "w"},
        "time": {"days": 10},
        "joins": [{"file": "s.txt", "key": "user", "columns": ["x"]}],
    }
    for _ in range(rng.randint(1, 2)):
        value = edited(value, rng)
    return json.dumps(value)


def check_recipe(text: str) -> int:
    from recnas.config import check_settings
    from recnas.data.raw.recipe import Recipe
    from recnas.errors import RecnasError
    from recnas.names import name_fault
    from recnas.yaml_text import parse_yaml

    try:
        value = parse_yaml(text)
    except (RecnasError, ValueError):
        return 1
    if not isinstance(value, dict):
        return 1
    try:
        recipe = check_settings(Recipe, value, "a recipe")
    except RecnasError:
        return 1
    assert all(name_fault(column.name) is None for column in recipe.input_columns(True)), (
        "a name that is a path or code"
    )
    return 1


# Ledgers


@cache
def _ledger() -> bytes:
    from recnas.runs.ledger import line_of

    text, check = b"", ""
    for number in range(6):
        candidate = {
            "index": number,
            "key": f"nasrec-{number}",
            "arch": json.loads(ARCH),
            "origin": "init",
            "seconds": 0.5,
            "values": {"sigeo": 1.5},
        }
        line, check = line_of(
            check,
            {"event": "candidate", **candidate}
            if number
            else {"event": "begin", "name": "search", "at": 1.0, "earlier": 0.0},
        )
        text += line
    return text


def make_ledger(rng: random.Random) -> bytes:
    data = bytearray(_ledger())
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(data))
        how = rng.randrange(5)
        if how == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            del data[at:]
            data += b"" if data else b"x"
        elif how == 2:
            del data[at : at + rng.randint(1, 300)]
            data += b"" if data else b"\n"
        elif how == 3:
            data[at:at] = rng.choice(ODD_TEXTS).encode("utf-8", "replace")
        else:
            lines = data.splitlines(keepends=True)
            rng.shuffle(lines)
            data = bytearray(b"".join(lines))
    return bytes(data)


def check_ledger(data: bytes) -> int:
    """Lines that are taken are the first of those that were written."""
    from recnas.runs.ledger import read_chain

    written = read_chain(_ledger()).events
    lines = read_chain(data)
    assert lines.events == written[: len(lines.events)], "a line that was never written"
    assert lines.damaged or lines.good == len(data) or b"\n" not in data[lines.good :], "damage that nobody is told of"
    return 1


def make_records(rng: random.Random) -> list[Any]:
    from recnas.runs.ledger import read_chain

    return [edited(line, rng) if rng.random() < 0.5 else line for line in read_chain(_ledger()).events]


def check_records(lines: list[Any]) -> int:
    """Lines whose checksums fit may still hold anything."""
    from recnas.errors import RecnasError
    from recnas.runs.records import read_lines

    with suppress(RecnasError):
        read_lines("search", [line for line in lines if isinstance(line, dict)], "a ledger")
    return len(lines)


# Run directories

RUNS = Path(__file__).with_name("runs")


@cache
def _scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="recnas-fuzz-"))


def make_run(rng: random.Random) -> tuple[str, str, Any]:
    """A run of the corpus, and another content of one of its files."""
    run = rng.choice([path for path in sorted(RUNS.glob("*/*")) if path.name != "data"])
    file = rng.choice(sorted(run.rglob("*.json")))
    text = file.read_text()
    content = spoiled(text, rng) if rng.random() < 0.2 else edited(json.loads(text), rng)
    return str(run.relative_to(RUNS)), str(file.relative_to(run)), content


def check_run(case: tuple[str, str, Any]) -> int:
    """Somebody who knows the checksums has changed a file: it is read, or refused."""
    from recnas.errors import RecnasError
    from recnas.files import machine_fault
    from recnas.runs.checks import with_check
    from recnas.runs.read import read_run
    from recnas.trust.verify import verify

    run, name, content = case
    folder = _scratch() / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(RUNS / run, folder)
    for sums in folder.rglob("checksums.json"):
        if sums != folder / name:
            sums.unlink()
    if isinstance(content, dict) and "check" in content:
        content = with_check(content)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), errors="surrogatepass")
    for use in (read_run, verify):
        try:
            use(folder)
        except RecnasError:
            pass
        except OSError as error:  # such as a folder in the place of a file
            if machine_fault(error) is None:
                raise
    return 1


TARGETS = (
    Target("lines", make_lines, check_lines, (
        ("tiny", b'1,2,3,"a,b",i,c\n'), ("tiny", b'1,2,3,"a,i,c\n'), ("tiny", b"\n\n\n"), ("criteo", b"\0\n"), ("tiny", b"1,1e39,inf,u,i,c\n"),
        ("tiny", b"1,2,3,u,i,c\r\n"), ("weighted", b"1,2,3,u,i,c,-1\n"), ("tiny", b"\xff\xfe1,2"), ("avazu", b"," * 23 + b"\n"),
    ), 0.35),
    Target("run directories", make_run, check_run, (
        ("0.1/train", "manifest.json", []), ("0.1/train", "result.json", {}), ("0.1/search", "winner.json", "[" * 3000), ("0.1/train", "checksums.json", []),
        ("0.1/race", "manifest.json", {"check": ""}), ("0.1/compare", "leaderboard.json", LONG_NUMBER),
    ), 0.05),
    Target("architectures", make_arch, check_arch, (
        "", "[]", "null", DEEP, '{"a":' * 2000, LONG_NUMBER, f'{{"format": {LONG_NUMBER}}}', "NaN", '{"format": "recnas/1"}',
        json.dumps({"format": "recnas/1", "space": "nasrec-plus", "blocks": [[]]}),
        json.dumps({"format": "recnas/1", "space": "nasrec-small", "blocks": [{"dense_dim": True}]}),
    ), 0.2),
    Target("overrides", make_override, check_override, (
        ({"data": "d"}, ["final.train.optimizer=!!set {a}"]), ({"data": "d"}, ["seed=0b_"]), ({"data": "d"}, ["seed=2001-99-99"]),
        ({"data": "d"}, ["final.train.clip=.inf"]), ({"data": "d"}, [f"seed={LONG_NUMBER}"]), ({"data": "d"}, [f"seed={DEEP}"]),
        ({"data": "d"}, ["seed=!!timestamp x"]), ({"data": "d"}, ["seed=!!bool x"]), ({"data": "d", "task": []}, ["seed=1"]),
    ), 0.15),
    Target("recipes", make_recipe, check_recipe, (
        RECIPE + "missing: !!timestamp x\n", RECIPE.replace("[price, age]", "true"), RECIPE.replace("[price, age]", '["I1..I3000000000"]'),
        RECIPE.replace("[price, age]", '["../../x"]'), RECIPE.replace("price", "a/b"), RECIPE.replace("min_count: 2", "min_count: 2001-99-99"),
        RECIPE.replace("name: tiny", "name: " + DEEP), RECIPE.replace("min_count: 2", f"min_count: {LONG_NUMBER}"), "- 1\n", "a: &a [*a]\n",
        "\n".join([f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" if n else "a0: &a0 [x, x]" for n in range(10)] + ["name: *a9"]),
        json.dumps({"name": "x", "header": True, "label": {"column": "y"}, "dense": [{"columns": ["p"], "fill": "nan"}]}),
    ), 0.1),
    Target("ledgers", make_ledger, check_ledger, (b"", b"\n", b"[]\n", b'{"check":"0123456789abcdef"}\n', DEEP.encode() + b"\n", b"\xff\n"), 0.1),
    Target("records", make_records, check_records, ([{}], [{"event": "trained"}], [{"event": []}], [{"event": "candidate", "index": "x"}]), 0.05),
)  # fmt: skip


def attack(bench: Bench, targets: Sequence[Target] = TARGETS) -> None:
    """By chance, as long as there is time; each target has its share of it, in turns."""
    import time

    began, spent = time.monotonic(), dict.fromkeys((target.name for target in targets), 0.0)
    for target in targets:
        for example in target.examples:
            one(bench, target, example)
    while not bench.late:
        target = min(targets, key=lambda target: spent[target.name] / target.share)
        started = time.monotonic()
        for _ in range(50):
            one(bench, target, target.make(bench.rng))
        spent[target.name] += time.monotonic() - started
    total = sum(bench.tally.tried(f"fuzz: {target.name}") for target in targets)
    bench.tally.notes["fuzz"] = f"{total:,} cases in {time.monotonic() - began:,.0f} s"


def one(bench: Bench, target: Target, case: Any) -> None:
    try:
        cases = target.check(case)
    except Exception as error:
        kind = Outcome.WRONG if isinstance(error, AssertionError) else Outcome.TRACEBACK
        bench.tally.add(f"fuzz: {target.name}", kind, f"{type(error).__name__}: {str(error)[:300]}: {_short(case)}")
    else:
        bench.tally.add(f"fuzz: {target.name}", Outcome.RIGHT, number=cases)


def _short(case: Any) -> str:
    text = case if isinstance(case, str) else repr(case)
    text = re.sub(r"(.)\1{50,}", r"\1...", text)
    return text if len(text) < 3000 else text[:3000] + "..."
