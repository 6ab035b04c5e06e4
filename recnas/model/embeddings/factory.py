"""Tables by the name of their backend, and which backend `auto` stands for."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import torch

from recnas.data.schema import Schema
from recnas.errors import BackendMissing, ConfigError
from recnas.model.embeddings.base import Backend, Embeddings
from recnas.model.embeddings.columns import FieldColumns
from recnas.model.embeddings.fused import FusedEmbeddings, load_kernels
from recnas.model.embeddings.jagged import check_kernels_can, kernels_can
from recnas.model.embeddings.narrow import NarrowEmbeddings
from recnas.model.embeddings.plain import PlainEmbeddings, fill_normal
from recnas.model.embeddings.row_map import RowMap
from recnas.model.embeddings.row_optim import L2Kind, Optimizer, TableOptimizer


def build_embeddings(
    schema: Schema,
    width: int = 16,
    backend: Backend = "auto",
    optimizer: Optimizer = "adagrad",
    lr: float = 0.12,
    eps: float = 1e-2,
    device: torch.device | str = "cpu",
    seed: int | torch.Generator = 0,
    cap: int | None = None,
    hash_rows: int | None = None,
    offload: bool = False,
    l2: float = 0.0,
    l2_kind: L2Kind = "lazy",
    std: float | None = None,
    layout: FieldColumns | None = None,
    start_scale: float = 1.0,
) -> Embeddings:
    """Allocate and initialise the tables of a schema.

    Args:
        backend: `auto` is `fused` on a GPU if its libraries load and can do this width, else `plain`. `sharded`
            is the same here: all tables in one process. Over several, see `build_sharded`.
        optimizer: `adagrad` keeps one sum per value, `rowwise-adagrad` one per row (memory / D), `adam` two per value.
        eps: of Adagrad. l2, l2_kind: see `recnas.model.embeddings.row_optim`.
        seed: of the initial values; a generator gives one seed. std: their standard deviation; None: Xavier's.
        cap, hash_rows: at most so many rows per table; see `RowMap`.
        offload: tables stay in host memory, only batches and gradients travel to `device`. The copies were
            run with `device="cpu"` only.
        layout: which columns each field has; instead of `width`. start_scale: then a factor on the vectors' initial values.

    Raises:
        BackendMissing: `fused` was asked for and does not load here.
    """
    _check_choice("backend", backend, get_args(Backend))
    _check_choice("optimizer", optimizer, get_args(Optimizer))
    if layout is not None:
        width = 4  # what decides on a backend: tables of other widths are filled up
    if width < 1 or (backend == "fused" and width % 4):
        raise ConfigError(f"embeddings.width is {width}; fused needs a multiple of 4, plain any positive number.")
    if isinstance(seed, torch.Generator):
        seed = int(torch.randint(2**62, (), generator=seed))
    device = torch.device(device)
    home = torch.device("cpu") if offload else device
    if backend in ("auto", "sharded"):
        backend = choose_backend(home, width, schema.n_sparse) if kernels_can(schema) is None else "plain"
    if backend == "fused":
        check_kernels_can(schema, "fused", "Set embeddings.backend: plain.")
    options = TableOptimizer(optimizer, eps, l2, l2_kind)

    def allocate(schema: Schema, width: int) -> Embeddings:
        make = FusedEmbeddings if backend == "fused" else PlainEmbeddings
        return make(RowMap(schema, cap, hash_rows, home), width, options, lr, device, home)

    if layout is not None:
        layout = replace(layout, columns=schema.table_columns(layout.columns))
        parts = [
            allocate(
                replace(schema, sparse=tuple(schema.sparse[field] for field in group.fields)),
                group.columns + (-group.columns % 4 if backend == "fused" else 0),
            )
            for group in layout.groups
        ]
        narrow = NarrowEmbeddings(RowMap(schema, cap, hash_rows, home), layout, parts, options, lr, device)
        narrow.fill(seed, std, start_scale)
        return narrow
    embeddings = allocate(schema, width)
    for name, table in embeddings.weights.items():
        fill_normal(table, seed, name, std)
    if embeddings.attention is not None:
        embeddings.attention.fill(seed)
    return embeddings


def _check_choice(key: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"embeddings.{key} is {value!r}; choose one of {', '.join(choices)}.")


def choose_backend(home: torch.device, width: int, fields: int) -> Literal["fused", "plain"]:
    """What `auto` means for tables in the memory of `home`.

    On a CPU `plain` is the faster one (2.5 against 6.3 ms for a step of 512 rows and 26 fields on 2 cores:
    scripts/bench/embeddings) and needs 0.13 GB less, for it does not load torchrec. On a GPU the fused
    kernels replace dozens of small launches.
    """
    fits = home.type == "cuda" and width % 4 == 0 and fields > 0
    return "fused" if fits and _loads() else "plain"


def _loads() -> bool:
    try:
        load_kernels()
    except BackendMissing:
        return False
    return True
