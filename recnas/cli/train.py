"""Train an architecture from scratch and report validation and test metrics over seeds.

  recnas train arch.json --data data/criteo --out runs/best --seeds 3
  recnas train arch.json --data data/criteo --out runs/best lr=0.1 layernorm=false embeddings.width=16

  recnas train --from runs/monday --data data/tuesday --out runs/tuesday

The same command after a crash continues from the last checkpoint. Over several processes or GPUs, with tables
that are divided among them:

  torchrun --nproc-per-node 4 -m recnas train arch.json --data data/criteo --out runs/best
"""

from __future__ import annotations

import argparse

from recnas.cli.options import add_data, add_output, add_track, print_json, take_data


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "arch",
        metavar="ARCH",
        nargs="?",
        help="ARCH.json (recnas's own format or NASRec's), RUN:best or RUN:NUMBER; with --from it is the run's own",
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="training settings, such as lr=0.1 or embeddings.cap=500000",
    )
    add_data(parser)
    parser.add_argument("--out", required=True, metavar="RUN", help="run directory")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="how many trainings (default: 1)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed (default: 0)")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="RUN",
        help="go on from the weights of a training or of a search's winner (RUN, RUN:best or RUN:seed-N), with its architecture and "
        "settings, on data that were prepared like its own (recnas prepare --like or --extend)",
    )
    add_track(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.bench.floor import not_better
    from recnas.config import apply_overrides, check_settings
    from recnas.data.prepared import PreparedData
    from recnas.data.quality import warn_of_data
    from recnas.errors import ConfigError
    from recnas.progress import Progress
    from recnas.serve.continued import warm_start
    from recnas.tasks.archs import named_arch
    from recnas.track.follow import tracking
    from recnas.train.distributed import join_ranks
    from recnas.train.settings import TrainSettings
    from recnas.train.standalone import train

    if args.seeds < 1 or args.seed < 0:
        raise ConfigError("--seeds must be at least 1 and --seed not negative.")
    given = list(args.overrides)
    if args.start is not None and args.arch is not None:
        if "=" not in args.arch:
            raise ConfigError(
                f"--from {args.start} goes on with its own architecture, so {args.arch} cannot be given too.",
                f"recnas train --from {args.start} --data DIR --out RUN",
            )
        given.insert(0, args.arch)
    if args.start is None and args.arch is None:
        raise ConfigError("an architecture is needed.", "recnas train ARCH --data DIR --out RUN")
    path, overrides = take_data(args.data, given, "recnas train ARCH --data DIR --out RUN")
    values: dict = {}
    faults = apply_overrides(values, overrides)
    settings = check_settings(TrainSettings, values, "the training settings", faults, overrides)
    warm = None
    if args.start is None:
        arch = named_arch(args.arch)
        data = PreparedData.open(str(path))
    else:
        data = PreparedData.open(str(path))
        model, arch, warm = warm_start(args.start, data)
        values = model.settings.model_dump(mode="json")
        faults = apply_overrides(values, overrides)
        settings = check_settings(TrainSettings, values, "the training settings", faults, overrides)
    with join_ranks() as ranks:
        if warm is not None and ranks.several:
            raise ConfigError("--from goes on in one process.", "Leave torchrun out.")
        progress = Progress(quiet=args.quiet or not ranks.first)
        warn_of_data(data, progress)
        with tracking(args.track, args.out, progress.note):
            result = train(arch, data, args.out, settings, args.seeds, args.seed, progress, warm=warm)
    if not ranks.first:
        return 0
    if args.json:
        print_json(result.to_json())
        return 0
    print(
        f"{result.key}: {result.params:,} parameters, {result.macs:,} multiply-adds per row, {len(result.seeds)} seed(s)"
    )
    for split, spreads in (("valid", result.valid), ("test", result.test)):
        if spreads:
            print(f"  {split:<5}  {'  '.join(f'{name} {spread}' for name, spread in spreads.items())}")
    entropy = result.test.get("normalized_entropy")
    if below := not_better(None if entropy is None else entropy.mean):
        print(
            f"warning: {below}, on test. Usual reasons: dense columns that are far from the size of one, a rate that is "
            "too high (lr=0.0005), or too few rows"
        )
    print(f"weights and details: {args.out}")
    return 0
