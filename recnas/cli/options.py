"""Option types and helpers that several commands share."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from recnas.errors import ConfigError

if TYPE_CHECKING:
    from recnas.engines.execution import Execution

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def byte_size(text: str) -> int:
    """`2GB`, `512m` or a number of bytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([bkmgt]?)i?b?\s*", text.lower())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write it like 2GB or 512MB")
    return int(float(match[1]) * _UNITS[match[2]])


def count(text: str) -> int:
    """`200000`, `200_000`, `200k` or `1M`."""
    match = re.fullmatch(r"\s*([\d_]+(?:\.\d+)?)\s*([kmg]?)\s*", text.lower())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count; write it like 200000, 200k or 1M")
    value = float(match[1].replace("_", "")) * {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[match[2]]
    return int(value)


def names_in(text: str) -> list[str]:
    """`a,b, c` as a list; nothing gives an empty one."""
    return [name.strip() for name in text.split(",") if name.strip()]


def times(text: str) -> float:
    """20x, 20 or 0.5x, of --budget."""
    try:
        return float(text.removesuffix("x"))
    except ValueError:
        raise ConfigError(
            f"--budget {text} is no number of times the training rows.", "Write for example: --budget 20x"
        ) from None


def add_data(parser: argparse._ActionsContainer, of: str = "a prepared data set") -> None:
    parser.add_argument("--data", metavar="DIR", help=f"{of}; data=DIR does the same")


def take_data(data: str | None, overrides: Sequence[str], example: str | None = None) -> tuple[str | None, list[str]]:
    """The data set named by --data or by data=, whichever a user has typed, and the other overrides.

    Args:
        example: a whole command, for a user who named none though the command needs one; None: it does not.
    """
    named = [item.removeprefix("data=") for item in overrides if item.startswith("data=")]
    rest = [item for item in overrides if not item.startswith("data=")]
    given = list(dict.fromkeys([*([data] if data else []), *named]))
    if len(given) > 1:
        raise ConfigError(f"two data sets are named: {' and '.join(given)}.", "Leave one of --data and data= out.")
    if not given and example is not None:
        raise ConfigError("a prepared data set is needed.", example)
    return (given[0] if given else None), rest


def with_data(data: str | None, overrides: Sequence[str]) -> list[str]:
    """Overrides of a config, the data set of --data or data= among them."""
    given, rest = take_data(data, overrides)
    return [*rest, *([f"data={given}"] if given else [])]


def add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=("auto", "local", "pool", "ray"),
        default="auto",
        help="who does the work: this process, processes, or Ray (default: processes if --workers is over 1); "
        "never changes the result",
    )
    parser.add_argument(
        "--ray-address",
        metavar="HOST:PORT",
        help="with --engine ray: a running cluster, or auto on one of its machines (default: this machine alone)",
    )


def add_workers(
    parser: argparse._ActionsContainer,
    help: str = "processes of one thread (default: all cores, or a few per GPU); never changes the result",
    default: int | None = None,
) -> None:
    parser.add_argument("--workers", type=int, default=default, metavar="N", help=help)


def execution(args: argparse.Namespace) -> Execution:
    """How a command was asked to do its work."""
    from recnas.engines.execution import Execution

    engine, address = getattr(args, "engine", "auto"), getattr(args, "ray_address", None)
    return Execution.of(args.workers, args.quiet, engine, address)


def add_track(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--track",
        metavar="NAME",
        type=names_in,
        default=[],
        help="also tell tensorboard, mlflow or wandb (or several, a,b) of the run while it is written; never changes the result",
    )


def tracked(track: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Overrides of a config, the trackers of --track among them."""
    return [*overrides, *([f"track={json.dumps(list(track))}"] if track else [])]


def add_json(parser: argparse.ArgumentParser, help: str = "print one JSON object instead of text") -> None:
    parser.add_argument("--json", action="store_true", help=help)


def add_output(parser: argparse.ArgumentParser, json: str = "print one JSON object instead of text") -> None:
    """--quiet and --json, of a command that shows how far it is."""
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_json(parser, json)


def print_json(value: Any) -> None:
    print(json.dumps(value, allow_nan=False))


def table(rows: list[list[str]], header: list[str], left: bool = False) -> str:
    """Columns padded to their widest cell; the first is left-aligned, the others right-aligned unless `left`."""
    every = [header, *rows]
    widths = [max(len(row[i]) for row in every) for i in range(len(header))]

    def line(row: list[str]) -> str:
        pad = str.ljust if left else str.rjust
        cells = [row[0].ljust(widths[0])] + [pad(cell, width) for cell, width in zip(row[1:], widths[1:])]
        return "  ".join(cells).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])
