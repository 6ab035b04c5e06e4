"""Vision architectures as `recnas draw` knows them: how a text of one is known and read, and what it shows.

    Genotype(normal=[...], ...)         DARTS, also as a file
    0110.../conv3x3-bn-relu,...         NAS-Bench-101
    {"space": "mlp", "arch": ...}       any of them as JSON, by the name of its space
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from recnas.report.arcs_svg import Row, darts_rows, draw_rows, mlp_rows, nb101_rows, resnet_rows
from recnas.space.darts import NAME as DARTS
from recnas.space.darts_arch import DartsArch
from recnas.space.mlp import NAME as MLP
from recnas.space.nasbench1shot1 import NAME as ONE_SHOT
from recnas.space.nasbench1shot1 import PARENTS
from recnas.space.nasbench101 import NAME as NASBENCH101
from recnas.space.nasbench101_arch import Nb101Arch
from recnas.space.registry import get_space
from recnas.space.resnet import NAME as RESNET

GENOTYPE = re.compile(r"Genotype\(.*\)", re.DOTALL)
MATRIX = re.compile(r"[01]{4,49}/[\w,-]*")

_ROWS: dict[str, Callable[[str, Any], list[Row]]] = {
    DARTS: darts_rows,
    NASBENCH101: nb101_rows,
    **{f"{ONE_SHOT}-{number}": nb101_rows for number in PARENTS},
    MLP: mlp_rows,
    RESNET: resnet_rows,
}
SPACES = tuple(_ROWS)


def is_text(name: str) -> bool:
    """Is this an architecture written out, rather than a file's name?"""
    return bool(GENOTYPE.fullmatch(name.strip()) or MATRIX.fullmatch(name.strip()))


def fits(space: str, text: str, value: Any) -> bool:
    if space == DARTS and GENOTYPE.fullmatch(text):
        return True
    if space == NASBENCH101 and MATRIX.fullmatch(text):
        return True
    return isinstance(value, dict) and value.get("space") == space


def read(space: str, text: str, value: Any) -> Any:
    if isinstance(value, dict):
        return get_space(space).from_dict(value)
    return DartsArch.from_text(text) if space == DARTS else Nb101Arch.from_text(text)


def draw(space: str, archs: Sequence[tuple[str, Any]]) -> str:
    return draw_rows([_ROWS[space](name, arch) for name, arch in archs])


def describe(space: str, arch: Any) -> dict[str, Any]:
    """As JSON; with a text under "arch" where the space has one, which is what differences are told in."""
    described = get_space(space).to_dict(arch)
    written = getattr(arch, "text", None)
    return described if written is None else described | {"arch": written}
