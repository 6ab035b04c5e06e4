"""NASRec architectures as JSON files: recnas's own format, and the one NASRec publishes.

recnas's own format names every field; input 0 is the raw data, input j the output of block j:

    {"format": "recnas/1", "space": "nasrec-full", "blocks": [{"dense_ops": ["gate"], "sparse_ops": ["efc"],
     "dense_dim": 128, "sparse_dim": 64, "merge": true, "fm": false,
     "dense_in": [0], "sparse_in": [0], "left": [0], "right": [0]}, ...]}

NASRec's format is described in `nasrec_reference`. `load_arch` tells the two apart by their keys.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from recnas.errors import SpaceError
from recnas.files import parse_json, read_text
from recnas.space.base import nearest_name
from recnas.space.nasrec.arch import Block, NasrecArch
from recnas.space.nasrec.fields import block_list, make_block, need_keys, space_name
from recnas.space.nasrec.reference import from_reference, looks_like_reference, to_reference
from recnas.space.nasrec.rules import ALIASES, RULES, check

FORMAT = "recnas/1"
PLUS = "nasrec-plus"  # a space with a format of its own, see `recnas.space.plus.json`
RECNAS = "recnas"  # the two formats, as `dump_arch` calls them
NASREC = "nasrec"
_LARGEST = 1 << 24  # bytes of a file; an architecture has some thousand
_FIELDS = tuple(field.name for field in fields(Block))


def load_arch(path: str | Path) -> NasrecArch:
    """Read an architecture file of either format, with any number of blocks.

    Weight-sharing paths pass as well; `space.validate(arch)` tells whether it is a search candidate.
    A space with widths of your own reads its files with `space.from_dict`.
    """
    try:
        text = read_text(Path(path), _LARGEST)
    except (OSError, UnicodeDecodeError) as error:
        raise SpaceError(f"cannot read the architecture file {path}: {error}", "check the path") from error
    try:
        return parse_arch(text)
    except SpaceError as error:
        raise SpaceError(f"{path}: {error.what}", error.fix) from error


def parse_arch(text: str) -> NasrecArch:
    """The architecture in a JSON text of either format."""
    try:
        data = parse_json(text)
    except ValueError as error:
        why = str(error)
        if isinstance(error, json.JSONDecodeError):
            why = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise SpaceError(f"this is not JSON ({why})", "save the file again, or write one with dump_arch") from None
    arch = from_reference(data) if looks_like_reference(data) else from_dict(data)
    if arch.space == PLUS:
        from recnas.space.plus import PlusSpace

        PlusSpace().validate(arch, sampled=False)
    else:
        check(arch, RULES[arch.space], sampled=False)
    return arch


def dump_arch(arch: NasrecArch, format: str = RECNAS) -> str:
    """The architecture as JSON text in one of the formats `recnas` and `nasrec`, a block per line."""
    if format not in (RECNAS, NASREC):
        raise SpaceError(f"unknown architecture format {format!r}", nearest_name(str(format), (RECNAS, NASREC)))
    if format == NASREC and arch.space == PLUS:
        raise SpaceError(f"NASRec's own format cannot describe an architecture of {PLUS}", "write recnas's own format")
    data = to_dict(arch) if format == RECNAS else to_reference(arch)
    return "{\n" + ",\n".join(f' "{name}": {_one_line_each(value)}' for name, value in data.items()) + "\n}\n"


def to_dict(arch: NasrecArch) -> dict[str, Any]:
    """recnas's own format, with lists for tuples so that JSON gives back an equal object."""
    if arch.space == PLUS:
        from recnas.space.plus import json as plus

        return plus.to_dict(arch)  # type: ignore[arg-type]
    blocks = [
        {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(block).items()}
        for block in arch.blocks
    ]
    return {"format": FORMAT, "space": arch.space, "blocks": blocks}


def from_dict(data: Any) -> NasrecArch:
    """Read recnas's own format. What the fields may hold is checked here, what the space allows is not."""
    if isinstance(data, dict) and data.get("space") == PLUS:
        from recnas.space.plus import json as plus  # it needs this package first

        return plus.from_dict(data)
    need_keys("the architecture", data, ("format", "space", "blocks"))
    if data["format"] != FORMAT:
        raise SpaceError(
            f"format is {data['format']!r}, and this version of recnas reads {FORMAT!r}",
            "write the file again with this version, or install the version that wrote it",
        )
    space = space_name("space", data["space"], [*RULES, *ALIASES])
    blocks = []
    for b, entry in enumerate(block_list("blocks", data["blocks"]), start=1):
        need_keys(f"block {b}", entry, _FIELDS)
        blocks.append(make_block(b, {name: (name, entry[name]) for name in _FIELDS}))
    return NasrecArch(space, tuple(blocks))


def _one_line_each(value: Any) -> str:
    if not isinstance(value, list):
        return json.dumps(value)
    return "[\n  " + ",\n  ".join(json.dumps(item) for item in value) + "\n ]"
