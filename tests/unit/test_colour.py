"""Colour is for terminals that want it; and nothing else that moves a terminal gets through."""

from __future__ import annotations

import io
import sys

import pytest

from recnas.cli.main import main
from recnas.colour import Painted, painted
from recnas.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_only_first_words_and_only_on_a_terminal():
    text = "warning: few rows\nbest: lr\nthe warning: stands inside\n"
    assert painted(text, io.StringIO()) == text
    assert (
        painted(text, Terminal())
        == "\x1b[33mwarning:\x1b[0m few rows\n\x1b[1mbest:\x1b[0m lr\nthe warning: stands inside\n"
    )


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_who_says_no_has_none(name: str, value: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(name, value)
    assert painted("warning: x", Terminal()) == "warning: x"
    monkeypatch.setenv("NO_COLOR", "")  # an empty one says nothing
    monkeypatch.setenv("TERM", "xterm")
    assert painted("warning: x", Terminal()) != "warning: x"


def test_a_stream_knows_where_lines_begin():
    terminal = Terminal()
    stream = Painted(terminal)
    print("warning:", "two parts", file=stream)
    print("a", "warning:", file=stream)
    print("best: \x1b[2J\x9b", file=stream)
    assert terminal.getvalue() == "\x1b[33mwarning:\x1b[0m two parts\na warning:\n\x1b[1mbest:\x1b[0m \\x1b[2J\\x9b\n"
    assert stream.isatty()


def test_commands_and_progress(monkeypatch: pytest.MonkeyPatch):
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        assert main(["inspect", "/no/such/folder"]) == 2
        Progress(stream).say("note: this")
        assert ("\x1b[31mrecnas:\x1b[0m" in stream.getvalue()) == stream.isatty()
        assert ("\x1b[2mnote:\x1b[0m this" in stream.getvalue()) == stream.isatty()
        assert "recnas:" in stream.getvalue()
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["--version"]) == 0
    assert "\x1b" not in out.getvalue()
