"""Say what a search would need here, in memory and minutes per phase, and what the rows can decide, without starting it.

recnas forecast criteo/sigeo-sub-one-shot data=data/criteo
"""

from __future__ import annotations

import argparse

from recnas.cli.options import add_data, add_json, add_workers, print_json, table, with_data


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", help="a YAML file, or the name of a shipped config")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="settings by dotted key")
    add_data(parser, "a prepared data set (default: the config's)")
    add_workers(parser, "processes of one thread (default: all cores, or a few per GPU)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.bench.verdict import decidable_lines
    from recnas.cli.shipped import config_path
    from recnas.devices import default_workers
    from recnas.errors import ConfigError
    from recnas.progress import duration, human_bytes
    from recnas.tasks.forecast import check_fits, forecast
    from recnas.tasks.registry import load_search
    from recnas.tasks.settings import CtrSearchConfig

    config = load_search(config_path(args.config), with_data(args.data, args.overrides))
    if not isinstance(config, CtrSearchConfig):
        raise ConfigError(
            f"{args.config} searches {config.space.name}; a forecast is for searches on prepared ad data.",
            f"The head of the config says how long it takes. Start it: recnas search {args.config} --out RUN",
        )
    found = forecast(config, args.workers or default_workers())
    if args.json:
        print_json(found.to_dict())
        return 0
    rows = [[p.name, p.what, duration(60 * p.minutes), human_bytes(p.bytes)] for p in found.phases]
    rows.append(["all", "", duration(60 * found.minutes), human_bytes(found.peak_bytes)])
    header = ["phase", "what", "time", "memory"]
    if found.gpu is not None:
        header.append("of a GPU")
        peaks = [phase.gpu_bytes for phase in found.phases]
        rows = [[*row, human_bytes(most)] for row, most in zip(rows, [*peaks, max(peaks)])]
    print(table(rows, header))
    load = "" if found.load is None else f"; load now is {found.load:.1f} on {found.cores} core(s)"
    print(
        f"{found.workers} workers, {found.gflops:.0f} GFLOP/s per core, {human_bytes(found.available_bytes)} available. Times are for an "
        f"otherwise idle machine{load}"
    )
    if found.gpu is not None:
        print(
            f"computed on {found.gpus} x {found.gpu.name}, {human_bytes(found.gpu.free)} free each, reckoned with "
            f"{found.gpu.gflops:,.0f} GFLOP/s; times on a GPU are guesses that were never measured"
        )
    print(
        "half or twice the time is possible: a network counts as large as the mean of the space, and a search may prefer "
        "larger or smaller ones"
    )
    print("\n".join(decidable_lines(found.decidable)))
    check_fits(found)
    return 0
