"""The code blocks of the documentation: which there are, what is said about running them, and how they are run.

A block is run, or a comment on the line before it says why not:

    <!-- not run: why -->                        its commands are still parsed
    <!-- run in: tests/FILE.py -->               that test reads the page and runs it
    <!-- run as: docs/PAGE.md -->                each of its commands is also in a block of that page that is run
    <!-- run in tests with: OLD => NEW; ... -->  it is run, with these changes, so that it takes seconds

A block whose first line is `# file: NAME` is written to that file.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recnas.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for pattern in ("*.md", "docs/**/*.md") for path in ROOT.glob(pattern))
_FENCE = re.compile(r"^( *)(```+)(\w*)\s*$")
_MARK = re.compile(r"^ *<!-- (not run|run in|run as|run in tests with): (.+?) -->$")
_FILE = re.compile(r"# file: (\S+)\n")


@dataclass(frozen=True)
class Block:
    page: str  # from the root of the repository
    line: int
    language: str
    code: str
    mark: str  # "" if there is none
    said: str

    @property
    def is_run(self) -> bool:
        return self.mark in ("", "run in tests with")

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block, comments away, continued lines put together."""
        lines = (line.strip() for line in self.code.replace("\\\n", " ").splitlines())
        return [line for text in lines if (line := re.sub(r"(^|\s+)#.*$", "", text).strip())]

    def small(self) -> str:
        """The code as tests run it; every change must find its text."""
        code = self.code
        for change in self.said.split("; ") if self.mark == "run in tests with" else ():
            old, arrow, new = change.partition(" =>")
            assert arrow, f"{self.name}: {change!r} is not OLD => NEW"
            assert old in code, f"{self.name}: {old!r} is not in the block"
            code = code.replace(old, new.strip(), 1)
        return code


def blocks(page: Path) -> Iterator[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    name, number = page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name, 0
    while number < len(lines):
        opened = _FENCE.match(lines[number])
        if not opened:
            number += 1
            continue
        end = next(i for i in range(number + 1, len(lines)) if lines[i].strip() == opened[2])
        code = "\n".join(line[len(opened[1]) :] for line in lines[number + 1 : end]) + "\n"
        mark = _MARK.match(lines[number - 1]) if number else None
        yield Block(name, number + 1, opened[3], code, mark[1] if mark else "", mark[2] if mark else "")
        number = end + 1


def run(block: Block, folder: Path, names: dict[str, Any]) -> None:
    """In `folder`, which is the current one; `names` are those of the page's Python so far."""
    code = block.small()
    if written := _FILE.match(code):
        (folder / written[1]).write_text(code[written.end() :])
    elif block.language == "python":
        exec(compile("\n" * block.line + code, block.name, "exec"), names)
    elif block.language == "sh":
        for command in Block(block.page, block.line, "sh", code, "", "").commands:
            _run_command(command, block.name)
    else:
        raise AssertionError(
            f"{block.name}: a block of {block.language or 'no language'} is not run by itself; mark it"
        )


def _run_command(command: str, where: str) -> None:
    words = shlex.split(command)
    if words[0] == "recnas" and not set(words) & {"|", ">", "&&", ";"}:
        with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
            code = main(words[1:])
        assert code == 0, f"{where}: exit code {code} of {command}"
        return
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], capture_output=True, text=True, env=env)
    assert done.returncode == 0, f"{where}: exit code {done.returncode} of {command}\n{done.stderr}"
