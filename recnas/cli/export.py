"""Write a trained model for serving: one program, its vocabularies, and an example that scores a raw row.

  recnas export runs/criteo:best --to pt2 --out served
  recnas export runs/best --to onnx --out served --seed 2
  recnas export runs/best --to onnx --int8 --out served        # tables in a third of the memory; says what it costs
  recnas export runs/cmp:deepfm --to pt2 --out served          # of recnas compare --keep

RUN is what `recnas search` or `recnas train` made. The program takes dense [B, I] float32 and ids [B, F]
int64 for any B and gives probabilities [B]; the tables are inside. Before the folder appears, the program is
checked against the model on validation rows, and score_row.py on raw rows. Score rows with it, lines of the
raw file (label and header may be there or not) or JSON objects:

  head -3 train.txt | python served/score_row.py
  echo '{"price": 3.5, "city": "London, UK"}' | python served/score_row.py
"""

from __future__ import annotations

import argparse

from recnas.cli.options import add_output, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN[:best]", help="a run directory; RUN:best or RUN:seed-3 picks a seed")
    parser.add_argument("--to", default="pt2", metavar="FORMAT", help="pt2 (torch.export, the default) or onnx")
    parser.add_argument("--out", required=True, metavar="DIR", help="a new folder")
    parser.add_argument("--seed", type=int, metavar="N", help="which training of the run, as RUN:seed-N")
    parser.add_argument(
        "--data", metavar="DIR", help="the prepared data set, if it is not where the run was trained on it"
    )
    parser.add_argument(
        "--int8", action="store_true", help="tables of 8-bit numbers; the log loss and AUC before and after are printed"
    )
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.progress import Progress, human_bytes
    from recnas.serve.export import export

    result = export(
        args.run,
        args.to,
        args.out,
        seed=args.seed,
        data=args.data,
        int8=args.int8,
        progress=Progress(quiet=args.quiet),
    )
    if args.json:
        print_json(result)
        return 0
    model, check = result["model"], result["check"]
    print(f"{model['key']}, seed {model['seed']}: {result['program']} ({human_bytes(result['bytes'])} in all)")
    print(
        f"  checked against the model on {check['rows']:,} {check['split']} rows in batches of "
        f"{', '.join(map(str, check['batch_sizes']))}: largest difference {check['max_abs_difference']:.2g}"
    )
    raw = check["raw"]
    print(
        f"  and score_row.py on {raw['rows']:,} raw rows ({raw['from_file']:,} lines of the raw file, {raw['rebuilt']:,} "
        f"rebuilt from the prepared data): largest difference {raw['max_abs_difference']:.2g}"
    )
    if int8 := result.get("int8"):
        tables, loss, auc = int8["tables"], int8["logloss"], int8["auc"]
        print(
            f"  tables of 8-bit numbers: {human_bytes(tables['bytes'])} instead of {human_bytes(tables['bytes_before'])}; on "
            f"{int8['rows']:,} {int8['split']} rows log loss {_change(loss)}, AUC {_change(auc)}"
        )
    print(
        f"score raw rows: python {result['out']}/score_row.py < rows    what it does: {result['out']}/rows.py, model.json"
    )
    return 0


def _change(figure: dict[str, float | None]) -> str:
    before, after = figure["before"], figure["after"]
    return "unknown" if before is None or after is None else f"{before:.5f} -> {after:.5f} ({after - before:+.6f})"
