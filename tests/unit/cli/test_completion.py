"""The completion that is printed, run by the shell it is for."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import recnas
from recnas.cli.completion import script, words_of
from recnas.cli.main import COMMANDS, main
from recnas.cli.shipped import shipped_configs

ROOT = Path(__file__).parents[3]
ASKED = {
    "recnas se": ["search", "serve"],
    "recnas --v": ["--version"],
    "recnas search --eng": ["--engine"],
    "recnas search --engine ": ["auto", "local", "pool", "ray"],
    "recnas track runs/x --to ten": ["tensorboard"],
    "recnas search synthetic/l": [name for name in shipped_configs() if name.startswith("synthetic/l")],
    "recnas prepare cri": ["criteo"],
    "recnas completion ": ["bash", "zsh"],
    "recnas bench re": ["regret"],
    "recnas report runs/no-such-": [],  # files are left to the shell
}


def ask(shell: str) -> dict[str, list[str]]:
    """What the shell's function answers to each line, all in one process."""
    lines = [script(shell).removeprefix("autoload -U +X bashcompinit && bashcompinit\n")]
    for line in ASKED:
        words = [*line.split(" ")]
        previous = words[-2] if len(words) > 1 else ""
        quoted = " ".join(map(shlex.quote, words))
        lines.append(
            f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _recnas recnas {shlex.quote(words[-1])} {shlex.quote(previous)}"
        )
        lines.append('echo "${COMPREPLY[*]}"')
    done = subprocess.run(["bash", "--noprofile", "--norc", "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return dict(zip(ASKED, [line.split() for line in done.stdout.splitlines()], strict=True))


@pytest.mark.spawns
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes():
    assert ask("bash") == ASKED


@pytest.mark.spawns
@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_zsh_reads_it():
    code = f"autoload -U compinit && compinit -u\n{script('zsh')}\nwhich _recnas >/dev/null"
    subprocess.run(["zsh", "-fec", code], check=True)


def test_every_command_and_every_option_is_there(capsys):
    text = script("bash")
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        listed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  -")]
        helped = {
            word
            for line in listed
            for word in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", line.strip().partition("  ")[0])
        }
        assert set(words_of(command).options) == helped | {"--plugin"}
        assert f"        {command}) options=" in text
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.startswith("autoload")
    with pytest.raises(SystemExit):
        main(["completion", "fish"])


def test_the_version_is_that_of_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"recnas {recnas.__version__}\n"
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == "0.2.0"
