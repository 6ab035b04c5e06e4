"""Which process holds which table: torchrec's planner, asked with recnas's settings.

The first process plans and the others are told, so that all shard alike; a plan that is impossible raises the
same error everywhere. Tables are split whole (`table-wise`), by columns or by rows. torchrec's CPU kernels
cannot split by rows. A split by columns would give the row-wise optimizer one sum per piece instead of one
per row, so the two are not combined.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
import torch.distributed as dist

from recnas.errors import ConfigError
from recnas.model.embeddings.fused import load_kernels
from recnas.model.embeddings.jagged import JaggedIds
from recnas.model.embeddings.row_map import RowMap
from recnas.model.embeddings.row_optim import Optimizer
from recnas.progress import human_bytes

Sharding = Literal["table-wise", "column-wise", "row-wise"]
_TORCHREC_NAMES = {
    "table-wise": ["table_wise"], "column-wise": ["column_wise"], "row-wise": ["row_wise", "table_row_wise"],
}  # fmt: skip
_SMALL_TABLE = 16 * 2**20  # bytes; smaller tables stay whole unless another way was asked for
_LEAST_COLUMNS = 8  # of a piece in a split by columns


@dataclass(frozen=True)
class Layout:
    """Tables without memory, the sharder that will split them, and the plan it follows."""

    collection: Any
    sharder: Any
    plan: Any
    device: torch.device


@contextmanager
def quiet() -> Iterator[None]:
    """torchrec's planner warns about its own defaults; errors still raise."""
    loud = logging.getLogger("torchrec")
    was = loud.level
    loud.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        loud.setLevel(was)


def meta_tables(
    keys: Sequence[str],
    rows: Sequence[int],
    width: int,
    optimizer: Optimizer | None = None,
    ids: JaggedIds | None = None,
) -> Any:
    """An EmbeddingBagCollection that takes no memory. With an optimizer, the planner counts its state too.

    `ids`: which fields read the tables, where not each has its own.
    """
    from torchrec.modules.embedding_modules import EmbeddingBagCollection
    from torchrec.optim import RowWiseAdagrad

    config = load_kernels().table_config
    features = [[key] for key in keys] if ids is None else ids.features()
    tables = [
        config(name=key, embedding_dim=width, num_embeddings=n, feature_names=names)
        for key, n, names in zip(keys, rows, features)
    ]
    weighted = ids is not None and ids.weighted
    with torch.random.fork_rng(devices=[]):
        collection = EmbeddingBagCollection(tables=tables, is_weighted=weighted, device=torch.device("meta"))
    if optimizer is not None:
        kind = torch.optim.Adagrad if optimizer == "adagrad" else RowWiseAdagrad
        for parameter in collection.parameters():
            parameter._optimizer_classes = [kind]
    return collection


def make_sharder(optimizer: Optimizer, lr: float, eps: float) -> Any:
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder

    kind = EmbOptimType.EXACT_ADAGRAD if optimizer == "adagrad" else EmbOptimType.EXACT_ROWWISE_ADAGRAD
    return EmbeddingBagCollectionSharder(fused_params={"optimizer": kind, "learning_rate": lr, "eps": eps})


def allowed(sharding: Sharding | None, optimizer: Optimizer, device_type: str) -> list[Sharding]:
    """The ways tables may be split here; `ConfigError` for one that was asked for and is not possible."""
    if sharding == "row-wise" and device_type == "cpu":
        raise ConfigError(
            "embeddings.sharding is row-wise, but torchrec's CPU kernels cannot split a table by rows.",
            "Use table-wise or column-wise, limit the rows with embeddings.cap or hash_rows, or train on GPUs.",
        )
    if sharding == "column-wise" and optimizer != "adagrad":
        raise ConfigError(
            "embeddings.sharding is column-wise, but rowwise-adagrad keeps one sum per whole row; split by columns "
            "it would compute something else.",
            "Use table-wise (row-wise on GPUs), or embeddings.optimizer=adagrad.",
        )
    ways: list[Sharding] = ["table-wise"]
    if optimizer == "adagrad":
        ways.append("column-wise")
    if device_type != "cpu":
        ways.append("row-wise")
    return [sharding] if sharding else ways


def constraints(rows: dict[str, int], width: int, ways: Sequence[Sharding], world: int) -> dict[str, Any]:
    """For the planner, by table: the ways to split it, and only with kernels that update in place.

    Left to itself the planner would also cut tables of three rows into slivers.
    """
    from torchrec.distributed.planner.types import ParameterConstraints

    if world == 1:  # nothing to split over
        ways = ["table-wise"]
    piece = max(_LEAST_COLUMNS, -(-width // world // 4) * 4)  # fbgemm wants multiples of 4
    while piece < width and width % piece:
        piece += 4
    found = {}
    for key, n in rows.items():
        small = 4 * n * width < _SMALL_TABLE and "table-wise" in ways
        types = [name for way in (["table-wise"] if small else ways) for name in _TORCHREC_NAMES[way]]
        found[key] = ParameterConstraints(
            sharding_types=types, compute_kernels=["fused"], min_partition=min(piece, width)
        )
    return found


def make_plan(
    rows: dict[str, int],
    width: int,
    optimizer: Optimizer,
    ways: Sequence[Sharding],
    device_type: str,
    world: int,
    local_world: int,
    memory: int | None,
    batch_rows: int,
) -> tuple[Any, list[Any]]:
    """torchrec's plan, and the options it chose, with memory and estimated time of every piece.

    Args:
        rows: of each table by torchrec's name. memory: bytes per device for tables, state and their batches.
        batch_rows: per device.

    Raises:
        PlannerError: of torchrec, if nothing fits.
    """
    from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
    from torchrec.distributed.planner.proposers import GreedyProposer, UniformProposer
    from torchrec.distributed.planner.storage_reservations import FixedPercentageStorageReservation

    cap = {"ddr_cap" if device_type == "cpu" else "hbm_cap": memory} if memory is not None else {}
    chosen = _Chosen()
    with quiet():
        planner = EmbeddingShardingPlanner(
            topology=Topology(world_size=world, compute_device=device_type, local_world_size=local_world, **cap),
            batch_size=batch_rows,
            storage_reservation=FixedPercentageStorageReservation(0.0),
            constraints=constraints(rows, width, ways, world),
            debug=False,
            stats=[chosen],
            # Without the grid search, which tries thousands of combinations if there are few enough.
            proposer=[GreedyProposer(), GreedyProposer(use_depth=False), UniformProposer()],
        )
        collection = meta_tables(list(rows), list(rows.values()), width, optimizer)
        plan = planner.plan(collection, [make_sharder(optimizer, 0.1, 0.1)])
    return plan, chosen.options


class _Chosen:
    """Where the planner would write its report; keeps the choice instead."""

    options: list[Any]

    def log(self, **facts: Any) -> None:
        self.options = list(facts["best_plan"])


def lay_out(
    row_map: RowMap,
    width: int,
    optimizer: Optimizer,
    lr: float,
    eps: float,
    device: torch.device,
    sharding: Sharding | None,
    memory: int | None,
    batch_rows: int,
) -> Layout:
    """Plan on the first process, tell all. memory: bytes a process may use for tables and their state."""
    kernels = load_kernels()  # which says what is missing, in every process
    world = dist.get_world_size()
    if width % 4:
        raise ConfigError(f"embeddings.width is {width}; sharded tables need a multiple of 4.")
    ways = allowed(sharding, optimizer, device.type)
    ids = JaggedIds(kernels, row_map)
    keys = ids.tables
    collection = meta_tables(keys, row_map.rows, width, ids=ids)
    sharder = make_sharder(optimizer, lr, eps)
    told: list[Any] = [None, None]
    if dist.get_rank() == 0:
        local = int(os.environ.get("LOCAL_WORLD_SIZE", world))
        rows = dict(zip(keys, row_map.rows))
        try:
            told[0], _ = make_plan(rows, width, optimizer, ways, device.type, world, local, memory, batch_rows)
        except Exception as error:
            told[1] = _does_not_fit(error, row_map, width, optimizer, ways, memory, world)
    dist.broadcast_object_list(told, 0)
    if told[1] is not None:
        raise told[1]
    return Layout(collection, sharder, told[0], device)


def _does_not_fit(
    error: Exception,
    row_map: RowMap,
    width: int,
    optimizer: Optimizer,
    ways: Sequence[Sharding],
    memory: int | None,
    world: int,
) -> ConfigError:
    """The planner's refusal in numbers; anything else it says is passed on."""
    from torchrec.distributed.planner.types import PlannerError

    cause = (str(error).strip() or type(error).__name__).splitlines()[0]
    if not isinstance(error, PlannerError) or memory is None:
        return ConfigError(f"torchrec found no way to share out the tables: {cause}")
    per_row = 4 * (2 * width if optimizer == "adagrad" else width + 1)
    largest = max(range(len(row_map.rows)), key=row_map.rows.__getitem__)
    pieces = (
        1
        if list(ways) == ["table-wise"]
        else world
        if "row-wise" in ways
        else min(world, max(1, width // _LEAST_COLUMNS))
    )
    return ConfigError(
        f"the tables and their optimizer state need {human_bytes(per_row * row_map.total)} in all, the largest piece "
        f"(of column {row_map.names[largest]}) {human_bytes(per_row * row_map.rows[largest] / pieces)}; {world} processes "
        f"with {human_bytes(memory)} each cannot hold them beside the batches.",
        "Use more processes, embeddings.optimizer=rowwise-adagrad, a smaller embeddings.width, or limit the rows "
        "with embeddings.cap or embeddings.hash_rows. To plan ahead: recnas plan",
    )


def owner(shard: Any) -> int:
    """The process that holds a shard of torchrec's."""
    return cast(int, shard.placement.rank())
