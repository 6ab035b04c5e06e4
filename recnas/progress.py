"""Progress of a long command on standard error: one redrawn line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from recnas.colour import painted
from recnas.names import shown


class Progress:
    """Counts work within named phases and says rate and time left.

    On a terminal the line is redrawn a few times a second. Elsewhere one line is printed every
    `plain_seconds` and at the end of a phase that took longer, so that a log file stays short.
    """

    def __init__(self, stream: TextIO | None = None, quiet: bool = False, plain_seconds: float = 10.0) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._tty = self._stream.isatty()
        self._plain_seconds = plain_seconds
        self._name = ""
        self._width = 0

    def phase(self, name: str, total: float | None = None, unit: str = "rows") -> None:
        """Start counting anew under a name; `total` in the same unit as `advance`."""
        self.end()
        self._name, self._total, self._unit = name, total, unit
        self._done = 0.0
        self._note = ""
        self._start = self._shown = time.monotonic()

    def advance(self, amount: float, note: str = "") -> None:
        if not self._name:
            return
        self._done += amount
        self._note = note or self._note
        now = time.monotonic()
        if now - self._shown >= (0.2 if self._tty else self._plain_seconds):
            self._shown = now
            self._print(final=False)

    def end(self) -> None:
        """Close the current phase."""
        if self._name:
            took = time.monotonic() - self._start
            if self._tty or took >= self._plain_seconds:
                self._print(final=True)
            self._name = ""

    def say(self, text: str) -> None:
        """A line of its own, above the progress line."""
        if not self._quiet:
            self.note(text)

    def note(self, text: str) -> None:
        """The same, also of a command that is quiet: what was asked for and is not done."""
        self._clear()
        print(painted(text, self._stream), file=self._stream, flush=True)

    def _print(self, final: bool) -> None:
        if self._quiet:
            return
        seconds = max(time.monotonic() - self._start, 1e-9)
        rate = self._done / seconds
        parts = [self._name]
        if self._total:
            parts.append(f"{min(100.0, 100 * self._done / self._total):3.0f} %")
        parts.append(f"{human(self._done)} {self._unit}")
        parts.append(f"{human(rate)}/s")
        if final:
            parts.append(f"in {duration(seconds)}")
        elif self._total and rate > 0:
            parts.append(f"{duration(max(0.0, self._total - self._done) / rate)} left")
        if self._note:
            parts.append(self._note)
        line = shown("  ".join(parts))
        if self._tty:
            self._clear()
            self._stream.write(line + ("\n" if final else ""))
            self._width = 0 if final else len(line)
            self._stream.flush()
        else:
            print(line, file=self._stream, flush=True)

    def _clear(self) -> None:
        if self._tty and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._width = 0


def human(value: float) -> str:
    """1234567 becomes '1.23 M'."""
    for size, suffix in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= size:
            return f"{value / (1e3 if suffix == ' k' else size):.3g}{suffix}"
    return f"{value:.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3g}"


def human_bytes(count: float) -> str:
    for size, suffix in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")):
        if count >= size:
            return f"{count / size:.1f} {suffix}"
    return f"{count:.0f} B"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
