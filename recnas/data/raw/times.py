"""Timestamps of many cells at once, by the rules of `serving.seconds_of`: seconds since 1970 on a stated zone's clock."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recnas.data.raw.sections import Clock
from recnas.data.raw.text_columns import Cells, parse_numbers
from recnas.data.raw.values import FIRST_TIME, LAST_TIME, LEAST_MILLISECONDS, seconds_of

DAY = 86_400
_DIGITS = (0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18)  # of 2024-03-01T17:00:00
_MARKS = ((4, b"-"), (7, b"-"), (13, b":"), (16, b":"))


def parse_times(cells: Cells, clock: Clock) -> tuple[np.ndarray, np.ndarray]:
    """(int64 seconds, which cells are no times); of empty cells nothing is meant."""
    if clock.format == "iso":
        return _iso(cells, clock.offset)
    values, bad = parse_numbers(cells)
    return seconds_of_numbers(values, bad, clock)


def seconds_of_numbers(values: np.ndarray, bad: np.ndarray, clock: Clock) -> tuple[np.ndarray, np.ndarray]:
    """The same of numbers, float64."""
    if clock.format == "epoch-milliseconds":
        bad = bad | (np.abs(values) < LEAST_MILLISECONDS)
        values = values / 1000.0
    whole = np.floor(values)
    bad = bad | (whole < FIRST_TIME) | (whole > LAST_TIME)
    return np.where(bad, 0, whole).astype(np.int64) + clock.offset, bad


def seconds_of_arrow(array: pa.Array, clock: Clock) -> tuple[np.ndarray, np.ndarray]:
    """Of a column of timestamps or dates: with a zone of its own it is moved to the clock's, without it is on it."""
    zoned = pa.types.is_timestamp(array.type) and array.type.tz is not None
    # To nanoseconds and back would overflow in 2262; to seconds directly, cut down as everywhere.
    unit = "s" if pa.types.is_date(array.type) else array.type.unit
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    moments = array.cast(pa.timestamp(unit))
    values = pc.fill_null(moments.cast(pa.int64()), 0).to_numpy(zero_copy_only=False) // per_second
    values = values + (clock.offset if zoned else 0)
    bad = (values - clock.offset < FIRST_TIME) | (values - clock.offset > LAST_TIME)
    return values, bad & ~np.asarray(array.is_null())


def parts_of(seconds: np.ndarray, part: str) -> np.ndarray:
    """The hour, weekday or day of the month, int64."""
    if part == "hour":
        return seconds // 3600 % 24
    days = seconds // DAY
    if part == "weekday":
        return (days + 3) % 7
    dates = days.astype("datetime64[D]")
    return (dates - dates.astype("datetime64[M]")).astype(np.int64) + 1


def _iso(cells: Cells, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """The usual forms in a few passes, what is left one by one."""
    n = len(cells.start)
    values, bad = np.zeros(n, np.int64), np.zeros(n, bool)
    done = np.zeros(n, bool)
    length = cells.length
    utc = (length == 20) & (cells.text[cells.end - 1] == ord("Z"))
    for chosen, size, east in (
        (length == 10, 10, None),
        (length == 16, 16, None),
        (length == 19, 19, None),
        (utc, 19, 0),
    ):
        places = np.flatnonzero(chosen)
        if not len(places):
            continue
        seconds, fine = _fixed(cells.text, cells.start[places], size)
        if east is not None:
            seconds += offset - east
        fine &= (seconds - offset >= FIRST_TIME) & (seconds - offset <= LAST_TIME)
        values[places[fine]] = seconds[fine]
        done[places[fine]] = True
    for place in np.flatnonzero(~done & (length > 0)).tolist():
        found = seconds_of(cells.bytes_of(place).decode("utf-8", "replace"), "iso", offset)
        bad[place] = found is None
        values[place] = found or 0
    return values, bad


def _fixed(text: np.ndarray, start: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of cells that begin with YYYY-MM-DD[?HH:MM[:SS]], and which of them are well-formed."""
    fine = np.ones(len(start), bool)
    digits = []
    for place in _DIGITS:
        if place >= size:
            digits.append(np.zeros(len(start), np.int64))
            continue
        digit = text[start + place].astype(np.int64) - ord("0")
        fine &= (digit >= 0) & (digit <= 9)
        digits.append(digit)
    for place, mark in _MARKS:
        if place < size:
            fine &= text[start + place] == mark[0]
    if size > 10:
        between = text[start + 10]
        fine &= (between == ord("T")) | (between == ord(" ")) | (between == ord("t"))
    year = ((digits[0] * 10 + digits[1]) * 10 + digits[2]) * 10 + digits[3]
    month, day, hour, minute, second = (digits[i] * 10 + digits[i + 1] for i in range(4, 14, 2))
    fine &= (month >= 1) & (month <= 12) & (hour <= 23) & (minute <= 59) & (second <= 59) & (year >= 1)
    months = (np.where(fine, year, 1970) * 12 + np.where(fine, month, 1) - 1 - 1970 * 12).astype("datetime64[M]")
    first = months.astype("datetime64[D]")
    days_in_month = ((months + 1).astype("datetime64[D]") - first).astype(np.int64)
    fine &= (day >= 1) & (day <= days_in_month)
    return ((first.astype(np.int64) + day - 1) * 24 + hour) * 3600 + minute * 60 + second, fine
