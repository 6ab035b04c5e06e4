"""Complete commands, options and names in your shell.

  eval "$(recnas completion bash)"       # in ~/.bashrc
  eval "$(recnas completion zsh)"        # in ~/.zshrc, after compinit

What can be completed is read from the commands themselves; names of configs and recipes are those of this installation.
"""

from __future__ import annotations

import argparse
import importlib
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

SHELLS = ("bash", "zsh")
_EVERYWHERE = ("--help", "--plugin")


@dataclass
class Words:
    """What may be typed behind a command."""

    options: list[str] = field(default_factory=list)
    choices: dict[str, list[str]] = field(default_factory=dict)  # by option
    names: list[str] = field(default_factory=list)  # that stand without an option; others are files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS)


def run(args: argparse.Namespace) -> int:
    print(script(args.shell), end="")
    return 0


def script(shell: str) -> str:
    """A shell program that defines the completion of `recnas`."""
    from recnas.cli.main import COMMANDS

    words = {command: words_of(command) for command in COMMANDS}
    options, names, choices = [], [], []
    for command, found in words.items():
        options.append(f"        {command}) options={_quoted(found.options)} ;;")
        if found.names:
            names.append(f"        {command}) names={_quoted(found.names)} ;;")
        choices += [
            f"        {_quoted([command, option])}) names={_quoted(some)} ;;" for option, some in found.choices.items()
        ]
    begin = "autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    return begin + _PROGRAM.format(
        commands=_quoted([*COMMANDS, "--help", "--version"]),
        options="\n".join(options),
        names="\n".join(names),
        choices="\n".join(choices),
    )


def words_of(command: str) -> Words:
    """Read from what the command says to argparse."""
    module = importlib.import_module(f"recnas.cli.{command}")
    parser = argparse.ArgumentParser(prog=f"recnas {command}", add_help=False)
    module.add_arguments(parser)
    found = Words(options=list(_EVERYWHERE))
    for action in parser._actions:
        some = [str(one) for one in action.choices or ()]
        found.options += [option for option in action.option_strings if option.startswith("--")]
        if action.option_strings and some:
            found.choices |= dict.fromkeys(action.option_strings, some)
        elif not action.option_strings:
            found.names += some or _shipped(command, action.dest)
    return found


def _shipped(command: str, dest: str) -> list[str]:
    from recnas.cli.shipped import shipped_configs
    from recnas.data.raw.recipe import shipped_recipes

    if dest == "config" or (command, dest) in (("compare", "overrides"), ("contest", "overrides"), ("configs", "name")):
        return list(shipped_configs())
    return list(shipped_recipes()) if dest == "recipe" or (command, dest) == ("datasets", "name") else []


def _quoted(words: Iterable[str]) -> str:
    return shlex.quote(" ".join(words))


# The second word is found by counting: zsh numbers arrays from 1, or from 0, as its options are.
_PROGRAM = """\
_recnas() {{
    local current="$2" previous="$3" command="" options="" names="" word count=0
    for word in "${{COMP_WORDS[@]}}"; do
        count=$((count + 1))
        if [ "$count" -eq 2 ]; then command="$word"; fi
    done
    COMPREPLY=()
    if [ "$COMP_CWORD" -le 1 ]; then
        COMPREPLY=($(compgen -W {commands} -- "$current"))
        return
    fi
    case "$command" in
{options}
    esac
    case "$command $previous" in
{choices}
    *)
        case "$command" in
{names}
        esac ;;
    esac
    case "$current" in
        -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
        *) COMPREPLY=($(compgen -W "$names" -- "$current")) ;;
    esac
}}
complete -o bashdefault -o default -F _recnas recnas
"""
