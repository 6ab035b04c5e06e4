"""Score a raw file with a trained model, using the preprocessing the model was trained with.

  recnas predict runs/criteo:best --raw new_rows.tsv --out predictions.parquet
  recnas predict runs/best:seed-2 --raw day_7.csv.gz --out predictions.csv

RUN is what `recnas search` or `recnas train` made (RUN:deepfm, of `recnas compare --keep`). The raw file has
the format that was prepared, with or without its label column; with labels, log loss and AUC are printed.
Rows keep their order; a row that cannot be read gets no probability, and the column `reason` says why.
"""

from __future__ import annotations

import argparse

from recnas.cli.options import add_output, count, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN[:best]", help="a run directory; RUN:best or RUN:seed-3 picks a seed")
    parser.add_argument(
        "--raw",
        nargs="+",
        required=True,
        metavar="FILE",
        help="raw files, folders or patterns; .gz and .zst are read as they are; - is standard input",
    )
    parser.add_argument("--out", metavar="FILE", help="predictions, .parquet or .csv (default: print the figures only)")
    parser.add_argument(
        "--data", metavar="DIR", help="the prepared data set, if it is not where the run was trained on it"
    )
    parser.add_argument(
        "--side", nargs="+", default=[], metavar="FILE", help="side files that are not beside the raw file"
    )
    parser.add_argument("--batch", type=count, metavar="N", help="rows per forward pass (default: that of evaluation)")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:N, or auto: a GPU if there is one")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.progress import Progress
    from recnas.serve.predict import predict

    result = predict(
        args.run,
        args.raw,
        args.out,
        data=args.data,
        side=tuple(args.side),
        batch=args.batch,
        device=args.device,
        progress=Progress(quiet=args.quiet),
    )
    if args.json:
        print_json(result)
        return 0
    model = result["model"]
    print(f"{model['key']}, seed {model['seed']}: {result['predicted']:,} of {result['rows']:,} rows predicted")
    print(f"  mean prediction  {result['mean_prediction']:.5f}")
    if "logloss" in result and result["logloss"] is None:
        print(f"  log loss         {result['reasons']['logloss']}")
    elif "logloss" in result:
        if result.get("weighted"):
            print("  figures count every row as often as its weight says")
        print(f"  click rate       {result['click_rate']:.5f}")
        print(f"  log loss         {result['logloss']:.5f}")
        auc = result["auc"]
        print(f"  AUC              {f'{auc:.5f}' if auc is not None else result['reasons']['auc']}")
        if result.get("unweighted"):
            print(f"  without a readable weight: {result['unweighted']:,} rows, predicted but not in these figures")
        if result["unlabelled"]:
            print(f"  without a readable label: {result['unlabelled']:,} rows, predicted but not in these figures")
    for name, mean in result.get("mean_predictions", {}).items():
        figures = result.get("labels", {}).get(name, {})
        shown = [("mean prediction", mean), *((what.replace("_", " "), value) for what, value in figures.items())]
        print(f"  {name}: {', '.join(f'{what} {value:.5f}' for what, value in shown if value is not None)}")
    if result["rejects"]:
        print(f"  rejected         {result['rejects']:,} rows; the first:")
        for fault in result["first_rejects"]:
            print(f"    row {fault['row']:,}: {fault['reason']}")
    if result["out"]:
        print(f"predictions: {result['out']}")
    return 0
