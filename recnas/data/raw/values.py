"""What a cell says: a number, a category as text, a time. `recnas export` copies this file, as it is, beside serving.py.

Python's standard library only. Every function gives None for a cell that is not of its kind.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

_INTEGER = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_HEX = re.compile(r"[0-9a-fA-F]{1,16}", re.ASCII)


def number_of(cell: str) -> float | None:
    """A finite decimal number, or None."""
    try:
        number = float(cell.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in cell else None


def integer_of(cell: str) -> str | None:
    """A whole number of 64 bits as signed decimal text, or None."""
    if not _INTEGER.fullmatch(cell) or not -(2**63) <= int(cell) < 2**64:
        return None
    return str((int(cell) + 2**63) % 2**64 - 2**63)


def hexadecimal_of(cell: str) -> str | None:
    """Up to 16 hexadecimal digits in lower case, at least 8 of them, or None."""
    return f"{int(cell, 16):08x}" if _HEX.fullmatch(cell) else None


def text_of(cell: str) -> str | None:
    """The cell itself, or None if it is not valid text."""
    try:
        cell.encode("utf-8")
    except UnicodeEncodeError:
        return None
    return cell


def hour_of(value: str) -> str | None:
    """Hour of the day of an integer YYMMDDHH, or None."""
    return None if _day_and_hour(value) is None else str(int(value) % 100)


def weekday_of(value: str) -> str | None:
    """Weekday of an integer YYMMDDHH, Monday 0, or None."""
    day = _day_and_hour(value)
    return None if day is None else str(day.weekday())


def _day_and_hour(value: str) -> date | None:
    number = int(value)
    hour, day, month, year = number % 100, number // 100 % 100, number // 10**4 % 100, number // 10**6
    if number < 0 or year > 99 or not (1 <= month <= 12 and 1 <= day <= 31 and hour <= 23):
        return None
    return date(2000 + year, month, 1) + timedelta(day - 1)


FIRST_TIME, LAST_TIME = -2208988800, 7258118399  # 1900 to 2199, in seconds since 1970: others are times of another unit
LEAST_MILLISECONDS = 10**11  # fewer, and seconds were meant: this is 1973
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,]\d{1,9})?)?([Zz]|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1)


def seconds_of(cell: str, form: str, offset: int) -> int | None:
    """Seconds since 1970 on the clock of a zone `offset` seconds east of Greenwich, or None if the cell is no time.

    iso: a time without an offset of its own is one of that zone; fractions of a second are cut off.
    """
    if form == "iso":
        return _iso_seconds(cell, offset)
    number = number_of(cell)
    if number is None or (form == "epoch-milliseconds" and abs(number) < LEAST_MILLISECONDS):
        return None
    number = math.floor(number / 1000.0 if form == "epoch-milliseconds" else number)
    return number + offset if FIRST_TIME <= number <= LAST_TIME else None


def _iso_seconds(cell: str, offset: int) -> int | None:
    found = _ISO.fullmatch(cell)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    try:
        whole = datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None
    seconds = (whole - _EPOCH) // timedelta(seconds=1)
    if zone := found[7]:
        east = 0 if zone in "Zz" else _offset(zone)
        if east is None:
            return None
        seconds += offset - east
    return seconds if FIRST_TIME <= seconds - offset <= LAST_TIME else None


def _offset(zone: str) -> int | None:
    """Seconds of `+02:00`, `+0200` or `+02`."""
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:
        return None
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)


def hour_on(seconds: str) -> str:
    return str(int(seconds) // 3600 % 24)


def weekday_on(seconds: str) -> str:
    return str((int(seconds) // 86400 + 3) % 7)  # 1970 began on a Thursday; Monday is 0


def day_on(seconds: str) -> str:
    return str((_EPOCH + timedelta(seconds=int(seconds))).day)


def key_of(value: str, kind: str) -> int:
    """64 bits that stand for a category: its number, or a hash of its text."""
    if kind == "string":
        return int.from_bytes(hashlib.blake2b(value.encode("utf-8"), digest_size=8).digest(), "little")
    return int(value, 16 if kind == "hex" else 10) % 2**64


def hash_start(seed: int, number: int) -> int:
    return (seed * 0xD1342543DE82EF95 + (number + 1) * 0x9E3779B97F4A7C15) % 2**64


def row_of_hash(key: int, rows: int, seed: int, number: int) -> int:
    """Which of `rows` rows the hash `number` of a key falls into: SplitMix64 of the key and the seed."""
    z = (key + hash_start(seed, number)) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return (z ^ (z >> 31)) % rows


KINDS: dict[str, tuple[Callable[[str], str | None], str]] = {
    "hex": (hexadecimal_of, "hexadecimal"),
    "int": (integer_of, "an integer"),
    "string": (text_of, "valid UTF-8"),
}
DERIVATIONS: dict[str, Callable[[str], str | None]] = {
    "yymmddhh-hour": hour_of,
    "yymmddhh-weekday": weekday_of,
    # Of the seconds that a column of kind time is read as.
    "hour": hour_on,
    "weekday": weekday_on,
    "day": day_on,
}


def kind_of(column: dict[str, Any]) -> tuple[Callable[[str], str | None], str]:
    """How a cell of a sparse column is read, and what it must be."""
    if column["kind"] != "time":
        return KINDS[column["kind"]]
    form, offset = column["time"]["format"], column["time"]["offset"]

    def read(cell: str) -> str | None:
        seconds = seconds_of(cell, form, offset)
        return None if seconds is None else str(seconds)

    return read, f"a time ({form})"
