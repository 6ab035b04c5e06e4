"""Count an architecture before it is built: parameters, multiply-adds, embedding memory.

  recnas cost arch.json --data data/criteo
  recnas cost arch.json --dense 13 --fields 26 --no-layernorm --json

`params` counts the standalone network as NASRec's code builds and publishes it, parts that the logit does not
depend on included; `live_params` counts what recnas builds and trains. Embedding tables are counted apart.
"""

from __future__ import annotations

import argparse

from recnas.cli.options import add_data, add_json, print_json, take_data


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "arch", metavar="ARCH", help="ARCH.json (recnas's own format or NASRec's), RUN:best or RUN:NUMBER"
    )
    parser.add_argument("overrides", nargs="*", metavar="data=DIR", help=argparse.SUPPRESS)
    add_data(parser)
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
    from recnas.tasks.archs import named_arch

    arch = named_arch(args.arch)
    data, rest = take_data(args.data, args.overrides)
    if rest:
        raise ConfigError(f"cost has no settings, and {' '.join(rest)} was given.", "Its options: recnas cost --help")
    if (data is None) == (args.dense is None or args.fields is None):
        raise ConfigError(
            f"The cost of {args.arch} depends on the inputs it reads.", "Give --data DIR, or --dense I and --fields F."
        )
    if data:
        schema = PreparedData.open(data).schema
    elif args.dense < 0 or args.fields < 1 or args.width < 1 or args.table_rows < 1:
        raise ConfigError("--dense must not be negative; --fields, --width and --table-rows must be at least 1.")
    else:
        schema = Schema.of_shape(args.dense, [args.table_rows] * args.fields)
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
    wanted = schema.table_columns(arch.table_columns(args.width, schema.n_sparse, schema.n_labels))
    columns = {f.name: n for f, n in zip(schema.sparse, wanted)}
    if args.json:
        print_json(
            {
                **facts,
                "table_columns": columns,
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
    full = arch.table_width(args.width, schema.n_labels)
    narrow = [f"{name} {n}" for name, n in columns.items() if 0 < n < full]
    dropped = [name for name, n in columns.items() if not n]
    if narrow:
        print(f"    narrower than {full} columns: {', '.join(narrow)}")
    if dropped:
        print(f"    without a table, so not read: {', '.join(dropped)}")
    return 0
