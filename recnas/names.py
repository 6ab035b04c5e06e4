"""Names that come from recipes, schemas, configs and runs: they become parts of paths, of pages and of generated files.

One rule for all of them, so that no name is a path, a piece of code or a command to a terminal; and how other people's text is
written where a program reads it: a terminal, a spreadsheet, Markdown.
"""

from __future__ import annotations

import re
from typing import Any

LONGEST = 200  # bytes: a file's name may have 255, suffixes included
_FORBIDDEN = {"/": "a slash", "\\": "a backslash", '"': "a quote", "'": "a quote", "`": "a quote", "$": "a dollar sign"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def name_fault(name: object) -> str | None:
    """Why something cannot be a name, as the end of a sentence; None if it can."""
    if not isinstance(name, str):
        return "must be text"
    if not name.strip():
        return "is empty"
    if name != name.strip():
        return "begins or ends with a space"
    if name.startswith(".") or ".." in name:
        return "begins with a dot or has two in a row"
    for character in name:
        if character in _FORBIDDEN:
            return f"has {_FORBIDDEN[character]}, and a name is also part of file names"
    if not name.isprintable():
        return "has a character that cannot be seen"
    if len(name.encode()) > LONGEST:
        return f"is longer than {LONGEST} bytes"
    return None


def shown(text: str) -> str:
    """Text of files for a terminal: what would move the cursor, or write backwards, is written out instead."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def in_csv(value: Any) -> Any:
    """A cell that a spreadsheet does not take for a formula. Numbers stay numbers."""
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t\r") else value


def in_markdown(text: str) -> str:
    """Text that is neither HTML nor a link nor a picture, on one line."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace("](", "]\\(").replace("`", "\\`")
    return shown(" ".join(text.splitlines()))
