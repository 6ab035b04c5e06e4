"""Entry point of `recnas`. Commands are imported only when they are used, so `recnas --help` is fast."""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress

from recnas.colour import Painted, painted
from recnas.errors import ConfigError, RecnasError
from recnas.files import machine_fault
from recnas.plugins import load_environment, load_plugin
from recnas.stopping import Stopped, listening

# Command -> one line for the overview. The module is recnas.cli.<name>.
COMMANDS = {
    "doctor": "check this machine: versions, backends, cores, memory, disk",
    "datasets": "list the data sets recnas knows, show one, or copy a recipe to edit",
    "synth": "generate a raw ad log with a planted, known click model",
    "prepare": "turn a raw ad log into training arrays, in bounded memory",
    "inspect": "describe and verify a prepared data set",
    "cost": "count parameters, multiply-adds and embedding memory of an architecture",
    "train": "train an architecture from scratch, over seeds",
    "warmup": "warm up a weight-sharing supernet on a share of the data",
    "score": "score architectures with training-free proxies on a warmed supernet",
    "search": "search for an architecture, end to end",
    "contest": "set searches against each other with the same number of training rows",
    "compare": "train models side by side, fairly, and say which differences are real",
    "export": "write a trained model for serving: pt2 or ONNX, vocabularies, an example",
    "serve": "answer requests with a trained model, over HTTP",
    "predict": "score a raw file with a trained model",
    "importance": "say which columns a trained model uses",
    "forecast": "say what a search would need here, in memory and minutes",
    "plan": "plan how embedding tables would be placed on several GPUs; needs no GPU",
    "bench": "train a table of architectures, and run searchers on it",
    "correlate": "say how well proxies rank a table of trained architectures",
    "theory": "compute infinite-width kernels, eigenvalue bounds and SiGeo's experiment 1",
    "watch": "follow a run",
    "track": "send a run to TensorBoard, MLflow, Weights & Biases or Optuna",
    "report": "write one HTML or Markdown file about one or more runs",
    "verify": "check that a run, prepared data or an export are what was written",
    "repair": "take out of a run what is damaged, so that it goes on",
    "sign": "sign a folder, so that others can tell who made it",
    "draw": "draw an architecture, or two with their differences, as SVG",
    "new": "write a proxy, a searcher, a space or a model of your own to start from",
    "completion": "complete commands and options in bash or zsh",
    "configs": "list the shipped experiment configs, show one, or copy one to edit",
}

EXIT_OURS, EXIT_USER = 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1  # torchrun ends its processes with SIGTERM, which they report
    try:
        with listening((signal.SIGTERM,) if several else ()), redirect_stdout(Painted(sys.stdout)):
            return _run(argv)
    except RecnasError as error:
        _say(str(error))
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        number = interrupt.number if isinstance(interrupt, Stopped) else signal.SIGINT
        by = "interrupted" if number == signal.SIGINT else f"stopped by {signal.Signals(number).name}"
        command = shlex.join(["recnas", *argv])
        with suppress(OSError):  # the terminal may be what is gone
            print(f"\nrecnas: {by}; what was finished is kept. Continue with:\n  {command}", file=sys.stderr)
        return 128 + number
    except BrokenPipeError:
        # The reader of our output went away (| head); nothing to tell it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if (said := machine_fault(error)) is None:
            return _ours()
        _say(said)
        return EXIT_USER


def _say(text: str) -> None:
    """Names of files and columns are other people's text: a terminal is not to take it for commands."""
    print(painted(f"recnas: {text}", sys.stderr), file=sys.stderr)


def _ours() -> int:
    """The exception at hand is a fault of recnas."""
    traceback.print_exc()
    print("recnas: this is a fault of recnas, not yours. Please report it with the lines above.", file=sys.stderr)
    return EXIT_OURS


def _run(argv: list[str]) -> int:
    argv, plugins = taken_plugins(argv)
    if argv and argv[0] in COMMANDS:
        load_environment()
        for plugin in plugins:
            load_plugin(plugin)
    if argv and argv[0] in COMMANDS:
        name = argv[0]
        module = importlib.import_module(f"recnas.cli.{name}")
        parser = argparse.ArgumentParser(
            prog=f"recnas {name}",
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(parser)
        return int(module.run(parser.parse_intermixed_args(argv[1:])) or 0)
    if argv and argv[0] == "--version":
        from recnas import __version__

        print(f"recnas {__version__}")
        return 0
    if not argv or argv[0] in ("-h", "--help", "help"):
        _overview()
        return 0
    close = difflib.get_close_matches(argv[0], COMMANDS, n=1)
    hint = f"did you mean `recnas {close[0]}`?" if close else "see them all: recnas --help"
    print(f"recnas: there is no command {argv[0]!r}; {hint}", file=sys.stderr)
    return EXIT_USER


def taken_plugins(argv: list[str]) -> tuple[list[str], list[str]]:
    """Every command takes --plugin, any number of times: the other arguments, and what was named."""
    rest, named = [], []
    given = iter(argv)
    for argument in given:
        if argument == "--plugin":
            name = next(given, None)
            if name is None or name.startswith("--"):
                raise ConfigError("--plugin needs a file or a module.", "--plugin mine.py")
            named.append(name)
        elif argument.startswith("--plugin="):
            named.append(argument.removeprefix("--plugin="))
        else:
            rest.append(argument)
    return rest, named


def _overview() -> None:
    width = max(map(len, COMMANDS))
    print("usage: recnas COMMAND ...\n\nFinds architectures for click-through-rate models.\n\ncommands:")
    for name, line in COMMANDS.items():
        print(f"  {name:<{width}}  {line}")
    print("\nEvery command explains itself: recnas COMMAND --help")
    print("Every command takes --plugin FILE.py or MODULE, for parts of your own (docs/plugins.md)")


if __name__ == "__main__":
    sys.exit(main())
