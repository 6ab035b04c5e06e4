"""Architectures of `nasrec-plus` as JSON: NASRec's own format with the further genes that are set, and a head.

{"format": "recnas/1", "space": "nasrec-plus", "blocks": [{... as in NASRec ..., "flat_in": [0], "norm": "batch",
 "activation": "relu"}, ...], "head": {"dense": [0, 3], "rows": []}, "first_order": true}
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from recnas.errors import SpaceError
from recnas.space.nasrec.arch import Block
from recnas.space.nasrec.fields import make_block, need_keys
from recnas.space.plus.arch import ADDED, CONNECTIONS, NAME, Head, PlusArch, PlusBlock
from recnas.space.plus.tables import Narrow, to_lists

FORMAT = "recnas/1"
_OWN = tuple(field.name for field in fields(Block))


def to_dict(arch: PlusArch) -> dict[str, Any]:
    """Lists for tuples, so that JSON gives back an equal object; what is as usual is left out."""
    blocks = []
    for block in arch.blocks:
        shown = {name: getattr(block, name) for name in _OWN}
        shown |= {name: getattr(block, name) for name, default in ADDED.items() if getattr(block, name) != default}
        blocks.append({name: list(value) if isinstance(value, tuple) else value for name, value in shown.items()})
    head: dict[str, Any] = {"dense": list(arch.head.dense), "rows": list(arch.head.rows)}
    head |= {name: True for name in ("mean", "spare_bias") if getattr(arch.head, name)}
    data: dict[str, Any] = {"format": FORMAT, "space": arch.space, "blocks": blocks, "head": head}
    data |= {"first_order": True} if arch.first_order else {}
    data |= {"start_scale": arch.start_scale} if arch.start_scale != 1 else {}
    return data | ({"narrow": to_lists(arch.narrow)} if arch.narrow else {})


def from_dict(data: Any) -> PlusArch:
    """What fields may hold is checked here, what the space allows is not."""
    need_keys("the architecture", data, ("format", "space", "blocks", "head"), ("first_order", "start_scale", "narrow"))
    if data["format"] != FORMAT or data["space"] != NAME:
        raise SpaceError(
            f"format is {data['format']!r} and space {data['space']!r}; this reads {FORMAT!r} of {NAME!r}",
            "write the file again with this version of recnas",
        )
    if not isinstance(data["blocks"], list):
        raise SpaceError("blocks: expected a list with one entry per block", "an empty list is a network without any")
    blocks = tuple(_block(b, entry) for b, entry in enumerate(data["blocks"], start=1))
    first_order, scale = _flag(data, "first_order"), data.get("start_scale", 1.0)
    return PlusArch(NAME, blocks, _head(data["head"]), first_order, scale, _narrow(data.get("narrow", [])))


def _block(b: int, entry: Any) -> PlusBlock:
    need_keys(f"block {b}", entry, _OWN, ADDED)
    # An empty dense_in is allowed here: rows may be read flat instead.
    given = {name: (name, entry[name]) for name in _OWN}
    empty = entry["dense_in"] == []
    if empty:
        given["dense_in"] = ("dense_in", [0])
    known = asdict(make_block(b, given))
    if empty:
        known["dense_in"] = ()
    added = {name: value for name, value in entry.items() if name in ADDED}
    for name in CONNECTIONS:
        if name in added:
            added[name] = _numbers(f"block {b}: {name}", added[name])
    return PlusBlock(**known, **added)


def _head(data: Any) -> Head:
    need_keys("head", data, ("dense", "rows"), ("mean", "spare_bias"))
    dense, rows = (_numbers(f"head: {name}", data[name]) for name in ("dense", "rows"))
    return Head(dense, rows, _flag(data, "mean"), _flag(data, "spare_bias"))


def _narrow(raw: Any) -> Narrow:
    if not isinstance(raw, list) or not all(isinstance(one, list) and len(one) == 2 for one in raw):
        raise SpaceError(f"narrow is {raw!r}", "give a list of [column, share], e.g. [[3, 0.25], [7, 0]]")
    return tuple((column, float(share) if isinstance(share, int) else share) for column, share in raw)


def _flag(data: dict[str, Any], name: str) -> bool:
    value = data.get(name, False)
    if not isinstance(value, bool):
        raise SpaceError(f"{name} is {value!r}", "give true or false")
    return value


def _numbers(where: str, raw: Any) -> tuple[int, ...]:
    if not isinstance(raw, list) or not all(isinstance(j, int) and not isinstance(j, bool) for j in raw):
        raise SpaceError(f"{where} is {raw!r}", "give a list of input numbers, e.g. [0, 2]")
    return tuple(sorted(raw))
