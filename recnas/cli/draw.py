"""Draw an architecture as SVG, or two with what differs between them marked.

  recnas draw runs/first:best -o best.svg
  recnas draw runs/first:1 runs/first:best -o change.svg      # candidate 1 and the winner
  recnas draw my_arch.json -o my_arch.svg
  recnas draw 341311 -o cell.svg                              # a NAS-Bench-201 cell
  recnas draw "Genotype(normal=[...], ...)" -o cells.svg      # both cells of a DARTS architecture

Dense path above, sparse path below, interactions as bridges between them; what the logit does not depend on is
grey. No other program is needed; any browser shows the file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from recnas.cli.options import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "arch", metavar="ARCH", help="ARCH.json, RUN:best, RUN:NUMBER, a NAS-Bench-201 cell or a DARTS genotype"
    )
    parser.add_argument("second", metavar="SECOND", nargs="?", help="another one, to be compared with the first")
    parser.add_argument("-o", "--out", required=True, metavar="FILE.svg", help="where the picture goes")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.errors import ConfigError
    from recnas.files import make_place, write_text
    from recnas.report.draw import describe_differences, draw_file, find_arch

    out = Path(args.out)
    if out.suffix.lower() != ".svg":
        raise ConfigError(
            f"a drawing is written as .svg, not as {out.name!r}.",
            f"Use -o {out.with_suffix('.svg')}; any browser opens it, and most can print or save it in other formats.",
        )
    items = [find_arch(name) for name in (args.arch, args.second) if name is not None]
    make_place(out)
    write_text(out, draw_file(items))
    different = describe_differences(items)
    if args.json:
        print_json(
            {
                "out": args.out,
                "drawn": [item.label for item in items],
                "kind": items[0].kind.name,
                "differences": different,
            }
        )
        return 0
    if len(items) == 2:
        print("\n".join(different) if different else "the two are described alike")
    print(f"{args.out}: {' and '.join(item.label for item in items)}")
    return 0
