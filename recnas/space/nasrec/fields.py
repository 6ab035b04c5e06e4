"""Reading block fields out of parsed JSON, with messages that name the block and the field.

Shared by the two file formats: they differ in field names and layout, not in what a field may hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from recnas.errors import SpaceError
from recnas.space.base import nearest_name
from recnas.space.nasrec.arch import DENSE, SPARSE, Block
from recnas.space.nasrec.operators import operator_names
from recnas.space.nasrec.rules import ALIASES, is_int


def need_keys(where: str, data: Any, required: Iterable[str], optional: Iterable[str] = ()) -> None:
    """Complain unless `data` is an object with all `required` keys and none beyond the `optional` ones."""
    if not isinstance(data, dict):
        raise SpaceError(f"{where}: expected an object with named fields, found {_shown(data)}")
    required = list(required)
    known = required + list(optional)
    unknown = [str(name) for name in data if name not in known]
    missing = [name for name in required if name not in data]
    if unknown:
        # A misspelt field is both unknown and missing; the missing ones are the likelier targets.
        hint = nearest_name(unknown[0], missing or known)
        raise SpaceError(f"{where}: unknown field {unknown[0]!r}", hint)
    if missing:
        raise SpaceError(f"{where}: field {missing[0]!r} is missing", f"it needs {', '.join(required)}")


def block_list(field: str, value: Any) -> list[Any]:
    """The list under `field`, which must not be empty."""
    if not isinstance(value, list) or not value:
        raise SpaceError(f"{field}: expected a list with one entry per block, found {_shown(value)}")
    return value


def space_name(field: str, value: Any, known: list[str]) -> str:
    """A NASRec space by its own name or by the one NASRec's files use."""
    if value not in known:
        raise SpaceError(f"{field}: unknown space {value!r}", nearest_name(str(value), known))
    return ALIASES.get(value, value)


def make_block(b: int, found: dict[str, tuple[str, Any]]) -> Block:
    """Block `b` from raw values.

    Args:
        b: its number, for messages.
        found: for each field of `Block`, the name it has in the file and the value found there.
    """
    values: dict[str, Any] = {}
    for name, (label, raw) in found.items():
        where = f"block {b}: {label}"
        if name in ("dense_ops", "sparse_ops"):
            values[name] = _operators(where, raw, operator_names(DENSE if name == "dense_ops" else SPARSE))
        elif name in ("dense_dim", "sparse_dim"):
            if not is_int(raw):
                raise SpaceError(f"{where} is {_shown(raw)}", "give a whole number")
            values[name] = raw
        elif name in ("merge", "fm"):
            if raw not in (0, 1):  # True and False are among them
                raise SpaceError(f"{where} is {_shown(raw)}", "give 0 or 1, true or false")
            values[name] = bool(raw)
        else:
            values[name] = _inputs(where, raw)
    return Block(**values)


def _operators(where: str, raw: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(raw, list) or not raw:
        raise SpaceError(f"{where} is {_shown(raw)}", f"give a list of operators: {', '.join(known)}")
    for op in raw:
        if op not in known:
            raise SpaceError(f"{where} has the unknown operator {op!r}", nearest_name(str(op), known))
    if len(set(raw)) < len(raw):
        raise SpaceError(f"{where} is {_shown(raw)}", "name each operator once")
    return tuple(op for op in known if op in raw)


def _inputs(where: str, raw: Any) -> tuple[int, ...]:
    if not isinstance(raw, list) or not raw or not all(is_int(j) for j in raw):
        raise SpaceError(f"{where} is {_shown(raw)}", "give a list of input numbers, e.g. [0, 2]")
    if len(set(raw)) < len(raw):
        raise SpaceError(f"{where} is {raw}: an input is named twice", "name each input once")
    return tuple(sorted(raw))


def _shown(value: Any) -> str:
    """The value as a message can show it: a pasted file would bury the sentence."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
