"""A little colour for people: only on a terminal, and not where NO_COLOR is set (no-color.org) or TERM is dumb.

Text is made harmless first (`recnas.names.shown`), so the only commands that a terminal gets are those of this file.
"""

from __future__ import annotations

import os
import re
from typing import Any

from recnas.names import shown

_CODES = {"warning:": "33", "note:": "2", "best:": "1", "verdict:": "1", "recnas:": "31"}  # by how a line begins
_BEGINS = re.compile(rf"^({'|'.join(_CODES)})", re.MULTILINE)


def wants_colour(stream: Any) -> bool:
    """Whether whoever reads this stream sees colours and has not said no."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # closed
        return False


def painted(text: str, stream: Any) -> str:
    """A text that begins a line: for a terminal with its first word in colour, and always without commands of its own."""
    text = shown(text)
    return (
        _BEGINS.sub(lambda found: f"\x1b[{_CODES[found[1]]}m{found[1]}\x1b[0m", text) if wants_colour(stream) else text
    )


class Painted:
    """A stream that writes what `painted` makes of a text."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._in_line = False

    def write(self, text: str) -> int:
        self._stream.write(shown(text) if self._in_line else painted(text, self._stream))
        self._in_line = not text.endswith("\n") if text else self._in_line
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
