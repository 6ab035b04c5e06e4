"""Send a run to TensorBoard, MLflow, Weights & Biases or Optuna, from its ledger; also one that is still written.

  recnas track runs/first --to tensorboard                 # then: tensorboard --logdir runs/track/tensorboard
  recnas track runs/first --to mlflow --out shared/track   # a place of several runs
  recnas track runs/first --to optuna --storage sqlite:///studies.db

Only what is new is sent, so the command may be repeated. While a run is written, --track of search, train and compare does it.
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="run directory")
    parser.add_argument("--to", required=True, choices=("tensorboard", "mlflow", "wandb", "optuna"))
    parser.add_argument("--out", metavar="DIR", help="where trackers keep runs (default: track, beside the run)")
    parser.add_argument(
        "--storage", metavar="URL", help="of --to optuna: an Optuna storage, such as sqlite:///studies.db"
    )
    parser.add_argument("--study", metavar="NAME", help="of --to optuna: the study's name (default: the run's)")


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    from recnas.errors import BackendMissing, ConfigError
    from recnas.track.follow import send_run

    if args.to == "optuna":
        from recnas.track.optuna import to_optuna

        if args.storage is None:
            raise ConfigError(
                "--to optuna needs a storage.", f"recnas track {args.run} --to optuna --storage sqlite:///studies.db"
            )
        study = to_optuna(args.run, args.storage, args.study)
        print(f"study {study.study_name}: {len(study.trials):,} trials in {args.storage}")
        return 0
    if args.storage is not None or args.study is not None:
        raise ConfigError(f"--storage and --study go with --to optuna, not with {args.to}.")
    said: list[str] = []
    if not send_run(args.to, args.run, args.out, said.append):
        raise BackendMissing(said[0].removeprefix("note: "))
    place = Path(args.out) if args.out else Path(args.run).absolute().parent / "track"
    print(f"{args.run} is in {place / args.to}")
    return 0
