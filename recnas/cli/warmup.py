"""Warm up a NASRec supernet on a share of the training rows.

  recnas warmup criteo/warmup --out runs/warm                 # a shipped config (recnas configs), or a path
  recnas warmup my.yaml --out runs/warm warmup.data_share=0.1 data=data/criteo

The same command after a crash continues from the last checkpoint. Over several processes or GPUs:

  torchrun --nproc-per-node 4 -m recnas warmup criteo/warmup --out runs/warm
"""

from __future__ import annotations

import argparse

from recnas.cli.options import add_data, add_output, print_json, with_data


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", help="a YAML file, or the name of a shipped config")
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help="settings by dotted key, such as warmup.data_share=0.1"
    )
    add_data(parser, "a prepared data set (default: the config's)")
    parser.add_argument("--out", required=True, metavar="RUN", help="run directory")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.cli.shipped import config_path
    from recnas.config import load_settings
    from recnas.progress import Progress, duration
    from recnas.train.distributed import join_ranks
    from recnas.train.settings import WarmupConfig
    from recnas.train.warmup import warmup

    config = load_settings(WarmupConfig, config_path(args.config), with_data(args.data, args.overrides))
    with join_ranks() as ranks:
        result = warmup(config, args.out, Progress(quiet=args.quiet or not ranks.first))
    if not ranks.first:
        return 0
    if args.json:
        print_json(result.to_json())
        return 0
    print(
        f"warmed up on {config.warmup.data_share:.2%} of the training rows: {result.steps:,} steps in {duration(result.seconds)}"
    )
    checked = result.valid_logloss_of_subnets
    if checked.mean is not None:
        spread = f" ± {checked.std:.5f}" if checked.std is not None else ""
        print(
            f"validation log loss of {checked.archs} random subnets with the shared weights: {checked.mean:.5f}{spread}"
        )
    print(f"supernet: {args.out}")
    return 0
