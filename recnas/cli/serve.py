"""Answer requests with the probabilities of a trained model, over HTTP.

  recnas serve runs/criteo:best --port 8000
  recnas serve served-onnx --port 8000                          # a folder of recnas export; needs no prepared data
  curl localhost:8000/schema                                     # what a row must have, and rows to try
  curl localhost:8000/predict -d '{"price": 3.5, "city": "London, UK"}'
  recnas serve runs/criteo:best --load-test 60 --connections 8   # how many requests a second, on this machine

POST /predict takes a row or a list of rows and gives {"probability": p} or {"probabilities": [...]}; rows that
cannot be read are named by number and field, with status 422. It listens on this machine only unless --host says
otherwise: whoever reaches the port may ask, so put what checks callers in front. Ctrl-C or SIGTERM end it after
the requests under way. Serve exports with a .pt2 file only if you know who made them: loading one can run code.
"""

from __future__ import annotations

import argparse

from recnas.cli.options import add_output, byte_size, count, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="RUN[:best]", help="a run, as for recnas predict; or a folder of recnas export"
    )
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="default: 8000; 0 takes a free one")
    parser.add_argument("--host", default="127.0.0.1", metavar="NAME", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--program",
        default="auto",
        metavar="NAME",
        help="onnx or torch (default: onnx where its packages are; an export has its own)",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="which training of the run, as RUN:seed-N")
    parser.add_argument(
        "--data", metavar="DIR", help="the prepared data set, if it is not where the run was trained on it"
    )
    parser.add_argument("--threads", type=count, default=1, metavar="N", help="of one computation (default: 1)")
    parser.add_argument("--most-rows", type=count, default=1000, metavar="N", help="rows of a request (default: 1000)")
    parser.add_argument(
        "--most-bytes", type=byte_size, default=1 << 20, metavar="SIZE", help="of a request (default: 1MB)"
    )
    parser.add_argument(
        "--load-test", type=float, metavar="SECONDS", help="measure a server process of its own instead, and end"
    )
    parser.add_argument(
        "--connections", type=count, default=8, metavar="N", help="of --load-test, one request each (default: 8)"
    )
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.serve.http.server import check_server

    check_server()
    return _serve(args) if args.load_test is None else _load_test(args)


def _serve(args: argparse.Namespace) -> int:
    from recnas.serve.http.app import Limits, make_app
    from recnas.serve.http.served import open_served
    from recnas.serve.http.server import bind, serve

    limits = Limits(args.most_rows, args.most_bytes)
    listening = bind(args.host, args.port)
    with listening:
        served = open_served(args.model, args.program, args.data, args.seed, args.threads)
        port = listening.getsockname()[1]
        host = f"[{args.host}]" if ":" in args.host else args.host

        def ready() -> None:
            if args.json:
                about = {"model": served.model, "seed": served.seed, "computed_by": served.computed_by}
                print_json({"url": f"http://{host}:{port}", "port": port, **about})
            else:
                print(f"{served.model}, seed {served.seed}, by {served.computed_by}: http://{host}:{port}")
                print(f"try: curl {host}:{port}/schema    end: Ctrl-C")
            flush()

        with served.kept:
            serve(make_app(served, limits), listening, ready)
    return 0


def flush() -> None:
    import sys

    sys.stdout.flush()


def _load_test(args: argparse.Namespace) -> int:
    from recnas.serve.http.load_test import load_test

    options = {"--program": args.program, "--seed": args.seed, "--data": args.data, "--threads": args.threads}
    given = [text for name, value in options.items() if value is not None for text in (name, str(value))]
    found = load_test([args.model, *given], args.load_test, args.connections)
    if args.json:
        print_json(found.to_dict())
        return 0
    print(
        f"{found.model} by {found.computed_by}: {found.requests_per_second:,.0f} requests a second over "
        f"{found.connections} connections, {found.requests:,} in {found.seconds:g} s"
    )
    print(f"  p50 {found.p50_ms:.2f} ms, p99 {found.p99_ms:.2f} ms; errors {found.errors:,}")
    print(f"  killed and started again: the same answers after {found.restart_seconds:.1f} s")
    if found.load_before is not None and found.load_before > 0.5:
        print(f"  this machine was busy before the test (load {found.load_before:.1f}, {found.cores} cores)")
    return 1 if found.errors else 0
