"""Make the compact Parquet tables that recnas reads, from what the benchmarks' authors publish.

    import_table("nasbench201", "NATS-tss-v1_0-3ffb9-simple", "nb201.parquet")

A folder or a file of the authors' own format goes through the authors' own package, if it is installed (none of
them is needed otherwise). A Parquet or CSV file with the columns of `recnas.bench.nasbench201` or
`recnas.bench.vision_tables` is checked and written anew.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recnas.bench.nasbench201 import write_table
from recnas.bench.vision_tables import KINDS, SOURCES, VisionTable, read_any, where_from
from recnas.errors import BackendMissing, DataError, SpaceError
from recnas.files import write_atomic
from recnas.space.base import nearest_name
from recnas.space.nasbench201.arch import Nb201Arch

_PLAIN = (".parquet", ".csv")
_EPOCHS_101 = (4, 12, 36, 108)


def import_table(kind: str, source: Path | str, out: Path | str) -> dict[str, Any]:
    """Write `out`; returns rows, columns and bytes."""
    if kind not in KINDS:
        raise DataError(f"there is no benchmark called {kind!r}.", nearest_name(kind, KINDS))
    source, out = Path(source), Path(out)
    if not source.exists():
        raise where_from(kind, source)
    plain = source.suffix in _PLAIN
    if kind == "nasbench201":
        (_plain_201 if plain else _official_201)(source, out)
    else:
        if plain:
            table = read_any(source, kind)
        elif kind == "nasbench101":
            table = _official_101(source)
        else:
            raise DataError(
                f"{source} is not a table: NAS-Bench-301 publishes models that predict accuracies, and no list of cells.",
                "Predict the cells you want with its package (pip install nasbench301), save genotype,val_98 as CSV, and import that.",
            )
        VisionTable.of(kind, table, str(source))  # every fault is found before anything is written
        table = table.replace_schema_metadata(None)
        write_atomic(out, lambda file: pq.write_table(table, file, compression="zstd"))
    written = pq.read_metadata(out)
    return {
        "kind": kind,
        "out": str(out),
        "rows": written.num_rows,
        "columns": written.schema.names,
        "bytes": out.stat().st_size,
    }


def _plain_201(source: Path, out: Path) -> None:
    table = read_any(source, "nasbench201")
    if "arch" not in table.column_names:
        raise DataError(
            f"{source} has no column arch.",
            "Columns: arch (official text), index, and <data>_<split>_<epochs> in percent.",
        )
    archs = []
    for number, text in enumerate(table["arch"].to_pylist(), start=1):
        try:
            archs.append(Nb201Arch.from_text(str(text)))
        except SpaceError as error:
            raise DataError(f"{source} row {number}: {error.what}.", error.fix) from None
    if len(set(archs)) != len(archs):
        raise DataError(f"{source} lists a cell more than once.", "Keep one row per cell.")
    names = [name for name in table.column_names if _is_201(name)]
    if not names:
        raise DataError(f"{source} has no accuracies.", "Name them <data>_<split>_<epochs>, such as cifar10_valid_12.")
    columns = {name: table[name].to_numpy(zero_copy_only=False).astype(np.float64) for name in names}
    for name, values in columns.items():
        known = values[~np.isnan(values)]
        if "_seconds_" not in name and len(known) and not 1 < known.max() <= 100:
            raise DataError(f"{source}: the largest {name} is {known.max():.4g}.", "Accuracies are in percent.")
    index = table["index"].to_pylist() if "index" in table.column_names else range(len(archs))
    write_table(out, archs, list(index), columns)


def _is_201(name: str) -> bool:
    from recnas.bench.nasbench201 import _is_figure

    return _is_figure(name)


def _official_201(source: Path, out: Path) -> None:
    """Through nats_bench (a folder) or nas_201_api (a .pth file): both answer `get_more_info` alike."""
    if source.is_dir():
        api = _package("nats_bench", "nats_bench", "nasbench201").create(
            str(source), "tss", fast_mode=True, verbose=False
        )
    else:
        api = _package("nas_201_api", "nas-bench-201", "nasbench201").NASBench201API(str(source), verbose=False)
    asked = [  # column, the authors' name of the data set, the figure
        ("cifar10_valid", "cifar10-valid", "valid-accuracy"), ("cifar10_test", "cifar10", "test-accuracy"),
        ("cifar100_valid", "cifar100", "valid-accuracy"), ("cifar100_test", "cifar100", "test-accuracy"),
        ("imagenet16_valid", "ImageNet16-120", "valid-accuracy"), ("imagenet16_test", "ImageNet16-120", "test-accuracy"),
    ]  # fmt: skip
    archs = [Nb201Arch.from_text(api.arch(number)) for number in range(len(api))]
    columns: dict[str, np.ndarray] = {}
    for epochs in (12, 200):
        for column, dataset, figure in asked:
            found = [_figure(api, number, dataset, figure, epochs) for number in range(len(archs))]
            columns[f"{column}_{epochs}"] = np.array(found, dtype=np.float64)
    write_table(out, archs, list(range(len(archs))), columns)


def _figure(api: Any, number: int, dataset: str, figure: str, epochs: int) -> float:
    # is_random=False: the mean over the seeds the authors trained.
    return float(api.get_more_info(number, dataset, hp=str(epochs), is_random=False).get(figure, np.nan))


def _official_101(source: Path) -> pa.Table:
    """Through the authors' package, from a .tfrecord: the mean of the three trainings of every cell."""
    api = _package("nasbench.api", "nasbench", "nasbench101").NASBench(str(source))
    rows = []
    for name in api.hash_iterator():
        fixed, computed = api.get_metrics_from_hash(name)
        matrix, ops = np.asarray(fixed["module_adjacency"]), list(fixed["module_operations"])
        row: dict[str, Any] = {
            "hash": name,
            "adjacency": "".join(str(int(bit)) for bit in matrix.flatten()),
            "ops": ",".join(ops[1:-1]),
            "params": int(fixed["trainable_parameters"]),
        }
        for epochs in _EPOCHS_101:
            runs = computed.get(epochs, [])
            for column, figure in (
                ("val", "final_validation_accuracy"),
                ("test", "final_test_accuracy"),
                ("train_time", "final_training_time"),
            ):
                row[f"{column}_{epochs}"] = float(np.mean([run[figure] for run in runs])) if runs else None
        rows.append(row)
    return pa.Table.from_pylist(rows)


def _package(module: str, distribution: str, kind: str, load: Callable[[str], Any] = importlib.import_module) -> Any:
    try:
        return load(module)
    except ImportError:
        raise BackendMissing(
            f"files of {SOURCES[kind]} are read by its authors' package, which is not installed here.",
            f"pip install {distribution}; or give a .parquet or .csv with the columns of docs/vision.md.",
        ) from None
