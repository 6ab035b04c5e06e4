"""Plan how the tables of a training would be spread over GPUs, without having them.

  recnas plan criteo/warmup --tables criteo-1tb --gpus 8 --memory 80GB
  recnas plan criteo/warmup --data data/criteo --gpus 16 --hosts 2 --memory 40GB --batch 65536 supernet.embeddings.width=64

Prints where torchrec's planner would put each table, what every device would hold, and torchrec's estimate of the
time that tables take per step. The network counted is the config's whole supernet, or --arch.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from recnas.cli.options import add_data, add_json, byte_size, count, print_json, table, take_data

if TYPE_CHECKING:
    from recnas.train.gpu_plan import ShardingForecast


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", help="a YAML file of warmup or search, or the name of a shipped one")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="settings by dotted key")
    parser.add_argument("--gpus", type=int, required=True, metavar="N", help="devices in all")
    parser.add_argument("--memory", type=byte_size, required=True, metavar="SIZE", help="of one device, like 80GB")
    parser.add_argument("--hosts", type=int, metavar="H", help="machines (default: one for every 8 devices)")
    group = parser.add_mutually_exclusive_group()
    add_data(group, "a prepared data set (default: the config's)")
    group.add_argument("--tables", metavar="NAME", help="published table sizes: criteo, criteo-1tb, criteo-1tb-40m")
    parser.add_argument("--batch", type=count, metavar="B", help="rows of a batch, all devices together")
    parser.add_argument(
        "--arch", metavar="ARCH", help="count this network (ARCH.json, RUN:best) instead of the supernet"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.cli.shipped import config_path
    from recnas.config import load_settings, read_config
    from recnas.data.known_tables import known_tables
    from recnas.data.prepared import PreparedData
    from recnas.tasks.archs import named_arch
    from recnas.tasks.settings import CtrSearchConfig
    from recnas.train.gpu_plan import Devices, plan
    from recnas.train.settings import WarmupConfig

    path = config_path(args.config)
    folder, overrides = take_data(args.data, args.overrides)
    config: WarmupConfig | CtrSearchConfig
    if set(read_config(path)) <= set(WarmupConfig.model_fields):
        config = load_settings(WarmupConfig, path, overrides)
    else:
        config = load_settings(CtrSearchConfig, path, overrides)
    if args.tables:
        known = known_tables(args.tables)
        schema, source = known.schema(), known.source
    else:
        data = PreparedData.open(folder or config.data)
        schema, source = data.schema, f"prepared data in {data.path}"
    hosts = args.hosts if args.hosts is not None else max(1, args.gpus // 8 if args.gpus % 8 == 0 else 1)
    arch = named_arch(args.arch) if args.arch else None
    found = plan(schema, config.space, config.supernet, Devices(args.gpus, args.memory, hosts), args.batch, arch)
    if args.json:
        print_json({**found.to_dict(), "source": source})
        return 0
    _print(found, source, "the architecture" if arch else "the supernet")
    return 0


def _print(found: ShardingForecast, source: str, network: str) -> None:
    from recnas.progress import human_bytes
    from recnas.train.gpu_plan import KEPT_FREE

    devices = found.devices
    rows = sum(one.rows for one in found.tables)
    print(f"tables: {source}")
    print(
        f"{len(found.tables)} tables, {rows:,} rows of width {found.width}, {found.optimizer}; {devices.gpus} GPUs of "
        f"{human_bytes(devices.memory)} on {devices.hosts} host(s); batch {found.batch:,}, "
        f"{-(-found.batch // devices.gpus):,} rows per device\n"
    )
    lines = [
        [
            one.column,
            f"{one.rows:,}",
            str(one.width),
            human_bytes(one.bytes),
            one.split,
            one.kernel,
            ranges(one.devices),
        ]
        for one in found.tables
    ]
    print(table(lines, ["table", "rows", "width", "with state", "split", "kernel", "devices"]))
    full, free = found.fullest, KEPT_FREE * devices.memory
    parts = [
        ("tables", [use.tables for use in found.uses], full.tables),
        ("optimizer state", [use.state for use in found.uses], full.state),
        ("embedding batches (torchrec's estimate)", [use.batches for use in found.uses], full.batches),
        (f"{network}: {found.network_params:,} parameters", [full.network], full.network),
        ("its activations (estimate)", [full.activations], full.activations),
    ]
    lines = [[name, human_bytes(most), human_bytes(sum(each) / len(each))] for name, each, most in parts]
    mean = sum(use.total for use in found.uses) / len(found.uses)
    lines.append(["all", human_bytes(full.total), human_bytes(mean)])
    lines.append(["kept free (a tenth)", human_bytes(free), human_bytes(free)])
    print("\n" + table(lines, ["memory per device", "fullest", "mean"]))
    print(
        f"\nlook-ups, updates and exchange of the tables: {found.milliseconds:.3g} ms per step on the slowest device. This is "
        "torchrec's\nestimate from bandwidths it assumes, not a measurement; the network's own time is not in it."
    )


def ranges(numbers: tuple[int, ...]) -> str:
    """`(0, 1, 2, 5)` as `0-2, 5`."""
    ordered = sorted(set(numbers))
    parts: list[list[int]] = []
    for number in ordered:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
