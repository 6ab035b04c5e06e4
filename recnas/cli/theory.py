"""What theory says about MLPs and training-free search, computed.

  recnas theory kernel relu-tanh+-swish                     # infinite-width kernel: smallest eigenvalue and its bounds
  recnas theory activations --layers 10                     # which activations Eigen-NAS puts on top
  recnas theory topology                                    # wide against deep (HNAS, theorem 3)
  recnas theory experiment1 --out runs/exp1                 # SiGeo's experiment 1, on scikit-learn's digits
  recnas theory experiment1 --out runs/exp1 data=mnist path=mnist/        # on MNIST files you have; resumable

Inputs of kernels are random points on the unit sphere.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from recnas.cli.options import add_output, add_workers, execution, print_json, table

if TYPE_CHECKING:
    import numpy as np


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("kernel", "activations", "topology", "experiment1"), help="what to compute")
    parser.add_argument(
        "items", nargs="*", metavar="ARCH | key=value", help="kernel: a network, + for a skip; experiment1: settings"
    )
    parser.add_argument("--rows", type=int, default=32, metavar="N", help="kernel, activations: inputs (default: 32)")
    parser.add_argument(
        "--inputs", type=int, default=64, metavar="d", help="kernel, activations: their dimension (default: 64)"
    )
    parser.add_argument(
        "--layers", type=int, metavar="L", help="layers of weights (default: activations 10, topology 3)"
    )
    parser.add_argument("--width", type=int, default=8, metavar="n", help="topology: width (default: 8)")
    parser.add_argument(
        "--draws", type=int, default=1000, metavar="N", help="topology: draws of the weights (default: 1000)"
    )
    parser.add_argument(
        "--reading",
        choices=("network", "paper"),
        default="network",
        help="kernels: of the network, or lemma 1 as printed",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the inputs and weights")
    parser.add_argument("--out", metavar="RUN", help="experiment1: run directory")
    add_workers(parser, "experiment1: processes of one thread", default=1)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.errors import ConfigError

    if args.items and args.action in ("activations", "topology"):
        raise ConfigError(f"{args.action} takes no {args.items[0]!r}.", f"recnas theory {args.action} --help")
    actions = {"kernel": _kernel, "activations": _activations, "topology": _topology, "experiment1": _experiment1}
    return actions[args.action](args)


def _kernel(args: argparse.Namespace) -> int:
    from recnas.errors import ConfigError
    from recnas.space.mlp import MlpArch
    from recnas.theory.bounds import bracket
    from recnas.theory.ntk import ntk

    if len(args.items) != 1:
        raise ConfigError("one network is needed.", "recnas theory kernel relu-tanh+-swish")
    arch = MlpArch.from_text(args.items[0], 1)
    x = _inputs(args)
    kernel = ntk(arch, x, args.reading)
    bounds, eigenvalue = bracket(arch, x, args.reading)
    found = {
        "arch": arch.text, "rows": args.rows, "inputs": args.inputs, "reading": args.reading,
        "min_eigenvalue": kernel.min_eigenvalue(), "mean_diagonal": kernel.mean_diagonal, "frobenius": kernel.frobenius,
        "bounded": bounds.eigenvalue, "eigenvalue": eigenvalue, "lower": bounds.lower, "upper": bounds.upper,
    }  # fmt: skip
    if args.json:
        print_json(found)
        return 0
    print(f"{arch.text}: {args.rows} inputs of {args.inputs} dimensions on the unit sphere")
    print(f"  smallest eigenvalue  {found['min_eigenvalue']:.6g}")
    print(f"  mean of diagonal     {found['mean_diagonal']:.6g}   (Eigen-NAS)")
    print(f"  Frobenius norm       {found['frobenius']:.6g}   (KNAS)")
    print(
        f"  theorem 1, eigenvalue {bounds.eigenvalue} from the top:  {bounds.lower:.4g} <= {eigenvalue:.6g} <= {bounds.upper:.4g}"
    )
    return 0


def _activations(args: argparse.Namespace) -> int:
    from recnas.errors import ConfigError
    from recnas.theory.eigen_nas import ranked, uniform_study

    layers = args.layers or 10
    if layers < 3:
        raise ConfigError(f"{layers} layers leave nothing to choose.", "Use --layers 3 or more.")
    x = _inputs(args)
    found = {skips: uniform_study(layers, x, skips, "min_eigenvalue", args.reading) for skips in (True, False)}
    if args.json:
        rows = [
            {
                "activation": one.arch.activations[0],
                "skips": skips,
                "min_eigenvalue": one.min_eigenvalue,
                "trace_bound": one.trace_bound,
            }
            for skips, some in found.items()
            for one in some
        ]
        print_json({"layers": layers, "rows": rows})
        return 0
    for skips, some in found.items():
        by_trace = [one.arch for one in ranked(some, "trace_bound")]
        shown = [
            [
                one.arch.activations[0],
                f"{one.min_eigenvalue:.4g}",
                f"{one.trace_bound:.4g}",
                str(by_trace.index(one.arch) + 1),
            ]
            for one in some
        ]
        print(f"{layers} layers, {'a skip around every layer' if skips else 'no skips'}, best first")
        print(table(shown, ["activation", "smallest eigenvalue", "mean of diagonal", "its place"]) + "\n")
    return 0


def _topology(args: argparse.Namespace) -> int:
    import numpy as np

    from recnas.theory.topology import compare_topologies, expected_deep

    layers = args.layers or 3
    seen = compare_topologies(args.width, layers, args.width, args.draws, args.seed)
    diagonal, error = np.diagonal(seen.deep_mean).mean(), np.diagonal(seen.deep_error).mean()
    found: dict[str, Any] = {
        "width": args.width, "layers": layers, "draws": args.draws,
        "wide": {"diagonal": float(seen.wide[0, 0]), "expected": float(layers * args.width), "kappa": seen.wide_kappa, "trace": seen.wide_trace},
        "deep": {"diagonal": float(diagonal), "expected": expected_deep(args.width, layers), "error": float(error),
                 "kappa": float(np.median(seen.deep_kappa)), "smallest_kappa": float(seen.deep_kappa.min()), "trace": float(seen.deep_trace.mean())},
    }  # fmt: skip
    if args.json:
        print_json(found)
        return 0
    rows = []
    for name in ("wide", "deep"):
        one = found[name]
        rows.append(
            [name, f"{one['diagonal']:.6g}", f"{one['expected']:.6g}", f"{one['kappa']:.4g}", f"{one['trace']:.4g}"]
        )
    print(table(rows, ["", "mean of diagonal", "expected", "condition number", "M_Trace"]))
    print(
        f"deep: mean diagonal over {args.draws} draws, +- {error:.2g}; median condition number, smallest {seen.deep_kappa.min():.3g}"
    )
    return 0


def _experiment1(args: argparse.Namespace) -> int:
    from recnas.config import apply_overrides, check_settings
    from recnas.errors import ConfigError
    from recnas.evaluators.two_layer import STATISTICS, Experiment1
    from recnas.jobs.sigeo_experiment1 import experiment1

    if not args.out:
        raise ConfigError("--out is needed.", "recnas theory experiment1 --out runs/exp1")
    data: dict = {}
    faults = apply_overrides(data, args.items)
    settings = check_settings(Experiment1, data, "the settings of experiment 1", faults)
    rows = experiment1(settings, args.out, execution(args))
    if args.json:
        print_json({"out": args.out, "data": settings.data, "rows": rows})
        return 0
    shown = []
    for name in STATISTICS:
        for split in ("train", "test"):
            some = [row for row in rows if row["statistic"] == name and row["loss"] == split]
            shown.append(
                [name, split, *("-" if row["spearman"] is None else f"{row['spearman']:+.3f}" for row in some)]
            )
    print(
        f"Spearman over {len(settings.widths)} widths on {settings.data}; +1: the better statistic, the lower the final loss"
    )
    print(table(shown, ["statistic", "final loss", *(f"{share:.0%} warm-up" for share in settings.warmup)]))
    print(f"{args.out}/result.json: {len(rows)} rows")
    return 0


def _inputs(args: argparse.Namespace) -> np.ndarray:
    from recnas.errors import ConfigError
    from recnas.theory.ntk import sphere

    if args.rows < 1 or args.inputs < 1:
        raise ConfigError("--rows and --inputs must be 1 or more.")
    return sphere(args.rows, args.inputs, args.seed)
