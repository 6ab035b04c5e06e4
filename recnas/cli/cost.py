"""Count an architecture before it is built: parameters, multiply-adds, embedding memory.

  recnas cost arch.json --data data/criteo
  recnas cost arch.json --dense 13 --fields 26 --no-layernorm --json

`params` counts the standalone network as NASRec's code builds and publishes it, parts that the logit does not
depend on included; `live_params` counts what recnas builds and trains. Embedding tables are counted apart.
"""

from __future__ import annotations

import argparse

from recnas.cli.options import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "arch", metavar="ARCH.json", help="in recnas's own format or in NASRec's published one"
    )
    parser.add_argument("--data", metavar="DIR", help="a prepared data set")
    parser.add_argument("--dense", type=int, metavar="I", help="without --data: number of dense columns")
    parser.add_argument("--fields", type=int, metavar="F", help="without --data: number of sparse columns")
    parser.add_argument(
        "--table-rows",
        type=int,
        default=10_000,
        metavar="N",
        help="without --data: rows of every table (default: 10000)",
    )
    parser.add_argument("--width", type=int, default=16, metavar="D", help="embedding width (default: 16)")
    parser.add_argument("--no-layernorm", action="store_true", help="the form of NASRec's final training")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.data.prepared import PreparedData
    from recnas.data.schema import Schema
    from recnas.errors import ConfigError
    from recnas.progress import human, human_bytes
    from recnas.space.nasrec.cost import count
    from recnas.space.nasrec.json import load_arch

    if (args.data is None) == (args.dense is None or args.fields is None):
        raise ConfigError("The cost depends on the data.", "Give --data DIR, or --dense I and --fields F.")
    if args.data:
        schema = PreparedData.open(args.data).schema
    elif args.dense < 0 or args.fields < 1 or args.width < 1 or args.table_rows < 1:
        raise ConfigError(
            "--dense must not be negative; --fields, --width and --table-rows must be at least 1."
        )
    else:
        schema = Schema.of_shape(args.dense, [args.table_rows] * args.fields)
    arch = load_arch(args.arch)
    cost = count(arch, schema, width=args.width, layernorm=not args.no_layernorm)
    whole = count(arch, schema, width=args.width, layernorm=not args.no_layernorm, live_only=False)
    facts = {
        "key": arch.key,
        "space": arch.space,
        "params": whole.params,
        "live_params": cost.params,
        "macs": cost.macs,
        "embedding_params": cost.embedding_params,
        "embedding_bytes": cost.embedding_bytes,
        "blocks": len(arch.blocks),
        "live_blocks": cost.live_blocks,
    }
    if args.json:
        print_json(
            {
                **facts,
                "by_block": [
                    {part.name: {"params": part.params, "macs": part.macs} for part in block.parts}
                    for block in cost.blocks
                ],
            }
        )
        return 0
    print(f"{arch.space}, {cost.live_blocks} of {len(arch.blocks)} blocks live, key {arch.key}")
    print(f"  parameters       {whole.params:>12,}  ({cost.params:,} live)")
    print(f"  multiply-adds    {cost.macs:>12,}  per row ({human(cost.macs)})")
    print(f"  embedding tables {cost.embedding_params:>12,}  ({human_bytes(cost.embedding_bytes)})")
    return 0
