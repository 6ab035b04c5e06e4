"""Search for an architecture: warm up a supernet, score candidates, train the best, read test once.

  recnas search synthetic/laptop --out runs/first                     # a shipped config (recnas configs), or a path
  recnas search criteo/sigeo-sub-one-shot data=data/criteo --out runs/criteo limits.params=2e6
  recnas search --resume runs/criteo                                  # after a crash or Ctrl-C

The same command again continues too. Watch it from elsewhere: recnas watch RUN
"""

from __future__ import annotations

import argparse

from recnas.cli.options import (
    add_data,
    add_engine,
    add_output,
    add_track,
    add_workers,
    execution,
    print_json,
    take_data,
    tracked,
    with_data,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", nargs="?", help="a YAML file, or the name of a shipped config")
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="settings by dotted key, such as search.generations=50",
    )
    add_data(parser, "a prepared data set (default: the config's)")
    parser.add_argument("--out", metavar="RUN", help="run directory")
    parser.add_argument("--resume", metavar="RUN", help="continue this run with the settings it was started with")
    add_workers(parser)
    add_engine(parser)
    add_track(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.cli.shipped import config_path
    from recnas.data.rolling import RollingData
    from recnas.errors import ConfigError
    from recnas.jobs.search import search
    from recnas.report.last_lines import verdict
    from recnas.runs.folder import RunDir
    from recnas.tasks.base import WINNER
    from recnas.tasks.registry import kept_search, load_search

    if args.resume:
        typed = [
            *([args.config] if args.config else []),
            *args.overrides,
        ]  # `--resume RUN data=DIR` looks like a config
        data, rest = take_data(args.data, typed)
        if rest or args.out:
            raise ConfigError(
                "--resume takes the settings from the run itself.", f"recnas search --resume {args.resume}"
            )
        out = args.resume
        run = RunDir.open(out)
        if run.manifest().get("job") == "compare":
            raise ConfigError(f"{out} is a comparison.", "Repeat its command: it continues.")
        config = kept_search(run, data)
        config = config.model_copy(update={"track": tuple(args.track)}) if args.track else config
    else:
        if not args.config or not args.out:
            raise ConfigError("a config and --out are needed.", "recnas search synthetic/laptop --out runs/first")
        out = args.out
        config = load_search(config_path(args.config), tracked(args.track, with_data(args.data, args.overrides)))
    if (rolling := RollingData.find(getattr(config, "data", None))) is not None:
        from recnas.cli.rolling import show
        from recnas.jobs.rolling import check_search, search_rolling

        return show(search_rolling(check_search(config), rolling, out, execution(args)), out, args.json)
    result = search(config, out, execution(args))
    if args.json:
        print_json(result.to_json())
        return 0
    print(verdict(result))
    weights = ", winner/ (weights)" if WINNER in result.seconds else ""
    print(f"everything is in {out}: winner.json (architecture){weights}, result.json, ledger.jsonl")
    return 0
