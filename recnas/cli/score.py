"""Score architectures with training-free proxies on a warmed supernet; one JSON line each, in order.

  recnas score runs/warm --random 100 --proxies sigeo,naswot,params
  recnas score runs/warm --archs archs.jsonl --proxies sigeo --json > scores.jsonl
  recnas score --list                               # the proxies there are

RUN is what `recnas warmup` made (share 0 for zero-shot). Repeating the command continues after a crash.
"""

from __future__ import annotations

import argparse
import json

from recnas.cli.options import add_engine, add_output, add_workers, execution, names_in, print_json, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", help="run directory of a warm-up")
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help="such as batches=8, batch_size=256, sigeo.loss=0"
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--archs",
        metavar="FILE",
        help="one architecture per line, or lines that carry one as `arch`; also ARCH.json, RUN:best",
    )
    source.add_argument("--random", type=int, metavar="N", help="draw N architectures from the space of the run")
    source.add_argument("--list", action="store_true", help="say what proxies there are and stop")
    parser.add_argument("--proxies", default="sigeo", metavar="a,b,c", help="which scores (default: sigeo)")
    add_workers(parser, "processes of one thread (default: all cores, or a few per GPU)")
    add_engine(parser)
    add_output(parser, "print one JSON line per architecture")


def run(args: argparse.Namespace) -> int:
    from recnas.config import apply_overrides, check_settings
    from recnas.errors import ConfigError
    from recnas.evaluators.settings import ScoreSettings
    from recnas.jobs.score import read_archs, score_archs
    from recnas.proxies.registry import get_proxies, meanings, proxy_names

    if args.list:
        known = list(meanings().items())
        better = {proxy.name: "high" if proxy.higher_is_better else "low" for proxy in get_proxies(proxy_names())}
        if args.json:
            print_json([{"proxy": name, "good": better[name], "meaning": line} for name, line in known])
            return 0
        width = max(map(len, better))
        print(
            "\n".join(
                [
                    f"{'proxy':<{width}}  good  what it is",
                    *(f"{name:<{width}}  {better[name]:<4}  {line}" for name, line in known),
                ]
            )
        )
        return 0
    if args.run is None:
        raise ConfigError(
            "a warm-up run is needed.", "recnas score RUN --random 100; the proxies there are: recnas score --list"
        )
    if args.archs is None and args.random is None:
        raise ConfigError("nothing to score.", "Give --archs FILE.jsonl or --random N.")
    if args.random is not None and args.random < 1:
        raise ConfigError("--random must be at least 1.")
    values: dict = {"proxies": names_in(args.proxies)}
    faults = apply_overrides(values, args.overrides)
    settings = check_settings(ScoreSettings, values, "the scoring settings", faults, args.overrides)
    archs = args.random if args.archs is None else read_archs(args.archs)
    rows = []
    for line in score_archs(args.run, archs, settings, execution(args)):
        if args.json:
            print(json.dumps(line.to_json(), allow_nan=False), flush=True)
        else:
            scores = line.scores
            shown = [f"{scores[name].value:.6g}" if name in scores else "failed" for name in settings.proxies]
            rows.append([line.key, *shown, f"{line.seconds:.2f}"])
    if not args.json:
        print(table(rows, ["architecture", *settings.proxies, "seconds"]))
    return 0
