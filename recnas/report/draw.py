"""Architectures by name, and the picture that fits them.

An architecture may be named as
    ARCH.json       a NASRec architecture in either format, or a cell: {"space": "nasbench201", "arch": "|...|"}
    RUN:best        the winner of a search (so far), or the architecture of a training
    RUN:12          candidate 12 of a search
    |...|+|...|     a NAS-Bench-201 cell as papers write it, six digits (341311), or a file that holds either
    Genotype(...)   a DARTS architecture; every vision space of the registry is known

To draw a space of your own: give it `rows` (see `recnas.space.vision`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recnas.errors import RunError, SpaceError
from recnas.files import parse_json, read_text
from recnas.report.arch_svg import draw_nasrec
from recnas.report.arcs_svg import draw_rows
from recnas.report.cell_svg import draw_cells
from recnas.report.ranking import Ranking
from recnas.report.search_info import differences
from recnas.report.svg import standalone
from recnas.runs.read import read_run
from recnas.space.nasbench201 import NAME as NASBENCH201
from recnas.space.nasrec.json import parse_arch, to_dict
from recnas.space.networks import vision_space, vision_spaces
from recnas.space.vision import VisionSpace


@dataclass(frozen=True)
class Kind:
    """One kind of architecture: how a text of it is known and read, how some are drawn, how one is described."""

    name: str
    fits: Callable[[str, Any], bool]  # the text, and the JSON value in it or None
    read: Callable[[str, Any], Any]
    draw: Callable[[Sequence[tuple[str, Any]]], str]
    describe: Callable[[Any], dict[str, Any]]


def _vision_kind(space: VisionSpace[Any]) -> Kind:
    """A vision space draws as boxes and links, unless it has a picture of its own here."""
    name, pattern = space.name, space.pattern

    def fits(text: str, value: Any) -> bool:
        written = pattern is not None and bool(pattern.fullmatch(text))
        return written or (isinstance(value, dict) and value.get("space") == name)

    def read(text: str, value: Any) -> Any:
        return space.from_dict(value) if isinstance(value, dict) else space.from_text(text)

    def draw(archs: Sequence[tuple[str, Any]]) -> str:
        return draw_rows([space.rows(label, arch) for label, arch in archs])

    def describe(arch: Any) -> dict[str, Any]:
        """With a text under "arch" where there is one, which is what differences are told in."""
        written = getattr(arch, "text", None)
        return space.to_dict(arch) | ({} if written is None else {"arch": written})

    return Kind(name, fits, read, draw_cells if name == NASBENCH201 else draw, describe)


def kinds() -> Iterator[Kind]:
    """Every kind that can be drawn; NASRec last, because any JSON object may be meant as one."""
    for name in vision_spaces():
        yield _vision_kind(vision_space(name))
    yield Kind(
        "nasrec",
        lambda text, value: isinstance(value, dict),
        lambda text, value: parse_arch(text),
        draw_nasrec,
        to_dict,
    )


def _is_written_out(name: str) -> bool:
    """Is this an architecture, rather than a file's name?"""
    text = name.strip()
    patterns = (vision_space(space).pattern for space in vision_spaces())
    if not any(pattern is not None and pattern.fullmatch(text) for pattern in patterns):
        return False
    return not (text.isdecimal() and Path(text).exists())  # a file may be called 341311


@dataclass(frozen=True)
class Drawable:
    label: str
    kind: Kind
    arch: Any


_LARGEST = 1 << 24  # bytes of a file


def find_arch(name: str) -> Drawable:
    """The architecture a user means by `name`; see the module's docstring."""
    if _is_written_out(name):
        cell = "|" in name  # short enough to be its own label
        shown = name if cell or len(name) <= 25 else f"{name[:24]}…"
        return parse(name, shown)
    if ":" in name and not Path(name).exists():
        return _of_run(name)
    path = Path(name)
    if path.is_dir():
        raise SpaceError(f"{name} is a folder.", f"For the winner of a run: recnas draw {name}:best -o best.svg")
    try:
        return parse(read_text(path, _LARGEST), path.stem)
    except (OSError, UnicodeDecodeError) as error:
        raise SpaceError(
            f"cannot read the architecture {name}: {error}", "Give ARCH.json, RUN:best or a cell like 341311."
        ) from None


def parse(text: str, label: str) -> Drawable:
    text = text.strip()
    value = None
    if text.startswith(("{", "[")):
        with suppress(ValueError):  # the reader of the format says where it breaks
            value = parse_json(text)
    for kind in kinds():
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
        described, best = run.winner_arch, Ranking(run).best
        if described is None and best is not None:
            described = best.arch
            label = f"{run.label}, best of {len(run.candidates)} candidates so far"
    elif which.isdecimal() and int(which) > 0:
        candidate = run.by_index.get(int(which) - 1)
        described = None if candidate is None else candidate.arch
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
