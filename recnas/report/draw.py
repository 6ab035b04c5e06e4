"""Architectures by name, and the picture that fits them.

An architecture may be named as
    ARCH.json       a NASRec architecture in either format, or a cell: {"space": "nasbench201", "arch": "|...|"}
    RUN:best        the winner of a search (so far), or the architecture of a training
    RUN:12          candidate 12 of a search
    |...|+|...|     a NAS-Bench-201 cell as papers write it, six digits (341311), or a file that holds either
    Genotype(...)   a DARTS architecture; `recnas.report.vision_kinds` lists this and further vision spaces

To draw another kind of architecture: add a `Kind` to `KINDS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from recnas.errors import RunError, SpaceError
from recnas.report import vision_kinds
from recnas.report.arch_svg import draw_nasrec
from recnas.report.cell_svg import draw_cells
from recnas.report.runs import read_run
from recnas.report.search_info import differences
from recnas.report.svg import standalone
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.nasbench201 import Nb201Space
from recnas.space.nasbench201_arch import Nb201Arch
from recnas.space.nasrec_json import parse_arch, to_dict

_CELL = re.compile(r"\|.*\|")
_DIGITS = re.compile(r"[0-4]{6}")


@dataclass(frozen=True)
class Kind:
    """One kind of architecture: how a text of it is known and read, how some are drawn, how one is described."""

    name: str
    fits: Callable[[str, Any], bool]  # the text, and the JSON value in it or None
    read: Callable[[str, Any], Any]
    draw: Callable[[Sequence[tuple[str, Any]]], str]
    describe: Callable[[Any], dict[str, Any]]


def _read_cell(text: str, value: Any) -> Nb201Arch:
    if isinstance(value, dict):
        return Nb201Space().from_dict(value)
    return Nb201Arch.from_digits(text) if _DIGITS.fullmatch(text) else Nb201Arch.from_text(text)


KINDS = (
    Kind(
        NASBENCH201,
        lambda text, value: (
            bool(_CELL.fullmatch(text) or _DIGITS.fullmatch(text))
            or (isinstance(value, dict) and value.get("space") == NASBENCH201)
        ),
        _read_cell,
        draw_cells,
        lambda cell: Nb201Space().to_dict(cell),
    ),
    *(
        Kind(
            space,
            partial(vision_kinds.fits, space),
            partial(vision_kinds.read, space),
            partial(vision_kinds.draw, space),
            partial(vision_kinds.describe, space),
        )
        for space in vision_kinds.SPACES
    ),
    Kind(
        "nasrec",
        lambda text, value: isinstance(value, dict),
        lambda text, value: parse_arch(text),
        draw_nasrec,
        to_dict,
    ),
)


@dataclass(frozen=True)
class Drawable:
    label: str
    kind: Kind
    arch: Any


def find_arch(name: str) -> Drawable:
    """The architecture a user means by `name`; see the module's docstring."""
    if _CELL.fullmatch(name) or (_DIGITS.fullmatch(name) and not Path(name).exists()):
        return parse(name, name)
    if vision_kinds.is_text(name):
        return parse(name, f"{name[:24]}…" if len(name) > 25 else name)
    if ":" in name and not Path(name).exists():
        return _of_run(name)
    path = Path(name)
    if path.is_dir():
        raise SpaceError(
            f"{name} is a folder.", f"For the winner of a run: recnas draw {name}:best -o best.svg"
        )
    try:
        return parse(path.read_text(encoding="utf-8"), path.stem)
    except (OSError, UnicodeDecodeError) as error:
        raise SpaceError(
            f"cannot read the architecture {name}: {error}", "Give ARCH.json, RUN:best or a cell like 341311."
        ) from None


def parse(text: str, label: str) -> Drawable:
    text = text.strip()
    value = None
    if text.startswith(("{", "[")):
        with suppress(ValueError):  # the reader of the format says where it breaks
            value = json.loads(text)
    for kind in KINDS:
        if kind.fits(text, value):
            return Drawable(label, kind, kind.read(text, value))
    raise SpaceError(
        f"{label} is no architecture that can be drawn.",
        "Give a NASRec architecture as JSON, or a NAS-Bench-201 cell like 341311.",
    )


def _of_run(name: str) -> Drawable:
    path, _, which = name.rpartition(":")
    run = read_run(path)
    label = f"{run.label}, winner"
    described: dict[str, Any] | None
    if which == "best":
        described = run.best_arch
        if described is None and run.best_by_score is not None:
            described = run.best_by_score["arch"]
            label = f"{run.label}, best of {len(run.candidates)} candidates so far"
    elif which.isdigit() and int(which) > 0:
        described = (run.by_index.get(int(which) - 1) or {}).get("arch")
        label = f"{run.label}, candidate {which}"
    else:
        described = None
    if described is None:
        has = f"it has {len(run.candidates)} candidates" if run.candidates else "it has no candidates"
        raise RunError(f"{path} has no architecture {which!r}; {has}.", f"Use {path}:best or {path}:1.")
    return parse(json.dumps(described), label)


def draw(items: Sequence[Drawable]) -> str:
    """The picture of one architecture, or of two with their differences marked. For use inside a page."""
    kinds = {item.kind.name for item in items}
    if len(kinds) > 1:
        raise SpaceError(
            f"{' and '.join(sorted(kinds))} architectures cannot be drawn in one picture.",
            "Draw them one by one.",
        )
    return items[0].kind.draw([(item.label, item.arch) for item in items])


def draw_file(items: Sequence[Drawable]) -> str:
    """The same as an SVG file of its own."""
    return standalone(draw(items))


def describe_differences(items: Sequence[Drawable]) -> list[str]:
    """In words, what differs between two."""
    if len(items) < 2:
        return []
    return differences(*(item.kind.describe(item.arch) for item in items[:2]))
