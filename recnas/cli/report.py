"""Write one file about one or more runs: the verdict first, then models, search, proxy against truth, data, facts.

  recnas report runs/first -o report.html                      # opens in any browser, needs no network
  recnas report runs/first runs/random runs/compare -o report.html
  recnas report runs/first correlations.json -o report.md      # for a pull request

A RUN is a directory of search, compare, train, warmup or bench; a file is what `recnas correlate --json` printed.
Runs that are not finished are reported as far as they got. Every figure is also kept as SVG and CSV.
"""

from __future__ import annotations

import argparse

from recnas.cli.options import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run directories, all on the same data")
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="report.html or report.md")
    parser.add_argument(
        "--files", metavar="DIR", help="folder for SVG and CSV (default: beside the report, NAME_files)"
    )
    parser.add_argument("--no-files", action="store_true", help="the report alone")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.report.write import write_report

    written = write_report(args.runs, args.out, args.files, keep_files=not args.no_files)
    if args.json:
        print_json(written)
        return 0
    print(written["verdict"])
    print(f"{written['out']}: {written['bytes'] / 1e6:.2f} MB", end="")
    print(f"; figures and tables: {written['files']} ({len(written['written'])} files)" if written["files"] else "")
    return 0
