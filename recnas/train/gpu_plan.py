"""How tables would be shared out over GPUs that are not here: memory per device, and torchrec's idea of the time.

The plan is the one that `torchrun ... recnas train` would make there, by the same function (`make_plan`), on
tables without memory. What a device holds:

    tables, optimizer state    by arithmetic from the plan's pieces
    embedding batches          torchrec's estimate of ids and values on their way in and out
    network                    weights, gradients, optimizer state and the buffer that adds gradients up, counted
    activations                recnas's estimate, the one of `recnas forecast`
    kept free                  a tenth, for the CUDA context, workspaces and fragmentation

Times are torchrec's estimates from bandwidths it assumes. Nothing of this was measured on a GPU.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from recnas.data.schema import Schema
from recnas.errors import ConfigError
from recnas.model.embeddings import Optimizer
from recnas.model.embeddings.fused import load_kernels
from recnas.model.embeddings.jagged import check_kernels_can
from recnas.model.embeddings.sharding import allowed, make_plan
from recnas.progress import human_bytes
from recnas.space.nasrec.arch import NasrecArch
from recnas.space.nasrec.cost import Cost, count
from recnas.space.plus.arch import PlusArch
from recnas.space.settings import SpaceSettings, make_ctr_space
from recnas.train.settings import TrainSettings

KEPT_FREE = 0.1  # of a device
MACS_PER_ACTIVATION = 50  # multiply-adds for each float kept for backward; as in `recnas forecast`
BUCKET = 4 * 2**24  # bytes of the buffer that adds up gradients; see recnas.train.distributed
MOST_DEVICES = 1024  # tried when something does not fit


@dataclass(frozen=True)
class Devices:
    """What the plan is for."""

    gpus: int
    memory: int  # bytes each
    hosts: int = 1

    def __post_init__(self) -> None:
        if self.gpus < 1 or self.hosts < 1 or self.gpus % self.hosts:
            raise ConfigError(
                f"{self.gpus} GPUs on {self.hosts} hosts: both must be at least 1, and every host has as many as the others."
            )


@dataclass(frozen=True)
class TablePlan:
    """One table of the plan. split: how torchrec cuts it. devices: which hold a piece, in order."""

    column: str
    rows: int
    width: int
    split: str
    kernel: str
    devices: tuple[int, ...]
    bytes: int  # with optimizer state


@dataclass(frozen=True)
class DeviceUse:
    """Memory of one device in bytes, and torchrec's estimate of its embedding work per step."""

    tables: int
    state: int
    batches: int
    network: int
    activations: int
    milliseconds: float

    @property
    def total(self) -> int:
        return self.tables + self.state + self.batches + self.network + self.activations


@dataclass(frozen=True)
class ShardingForecast:
    devices: Devices
    batch: int
    width: int
    optimizer: str
    network_params: int
    tables: tuple[TablePlan, ...]
    uses: tuple[DeviceUse, ...]

    @property
    def fullest(self) -> DeviceUse:
        return max(self.uses, key=lambda use: use.total)

    @property
    def milliseconds(self) -> float:
        """The slowest device's: the others wait for it."""
        return max(use.milliseconds for use in self.uses)

    def to_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "uses": [{**asdict(use), "total": use.total} for use in self.uses],
            "peak_bytes": self.fullest.total,
            "kept_free_bytes": int(KEPT_FREE * self.devices.memory),
            "step_ms_estimated_by_torchrec": self.milliseconds,
        }


class DoesNotFit(ConfigError):
    """No plan exists for these devices; the message says by how much, and what would do."""


def plan(
    schema: Schema,
    space: SpaceSettings,
    train: TrainSettings,
    devices: Devices,
    batch: int | None = None,
    arch: NasrecArch | None = None,
) -> ShardingForecast:
    """Plan for the tables of `schema` and the supernet of `space`, or one architecture.

    Raises:
        DoesNotFit: with what was tried and fits.
    """
    batch = batch or train.batch_size
    if batch % devices.gpus:
        raise ConfigError(
            f"a batch of {batch} rows does not divide among {devices.gpus} devices.",
            f"Use --batch {max(1, batch // devices.gpus) * devices.gpus}.",
        )
    if isinstance(arch, PlusArch) and arch.narrow:
        raise ConfigError(
            "the architecture has tables of different widths (narrow), which are kept in one process.",
            "Plan it without narrow in its file: every table then has the full width.",
        )
    check_kernels_can(schema, "sharded", "Train in one process, where tables are plain.")
    limit = train.embeddings.cap or train.embeddings.hash_rows
    case = _Case(
        rows={field.name: min(field.rows, limit or field.rows) for field in schema.sparse if field.own_rows},
        width=train.embeddings.width,
        optimizer=train.embeddings.optimizer,
        devices=devices,
        batch=batch,
    )
    network = _Network(schema, make_ctr_space(space).full_path() if arch is None else arch, train)
    found = case.try_plan(network)
    if found is None:
        raise _does_not_fit(case, network)
    return found


class _Network:
    """Memory of the dense part on one device, for any embedding width."""

    def __init__(self, schema: Schema, arch: NasrecArch, train: TrainSettings) -> None:
        self.schema, self.arch, self.train = schema, arch, train

    def cost(self, width: int) -> Cost:
        return count(self.arch, self.schema, width=width, layernorm=self.train.layernorm)

    def bytes(self, width: int) -> int:
        copies = 3 if self.train.optimizer == "adagrad" else 4  # weights, gradients, one or two moments
        weights = 4 * self.cost(width).params
        return copies * weights + min(BUCKET, weights)

    def activations(self, width: int, rows: int) -> int:
        return int(4 * rows * self.cost(width).macs / MACS_PER_ACTIVATION)


@dataclass(frozen=True)
class _Case:
    """Everything that decides whether a plan exists."""

    rows: dict[str, int]
    width: int
    optimizer: Optimizer
    devices: Devices
    batch: int

    @property
    def rows_each(self) -> int:
        return -(-self.batch // self.devices.gpus)

    def budget(self, network: _Network) -> int:
        """Bytes of a device that tables, state and their batches may take."""
        dense = network.bytes(self.width) + network.activations(self.width, self.rows_each)
        return int((1 - KEPT_FREE) * self.devices.memory) - dense

    def state_bytes(self, rows: int, columns: int) -> int:
        """A row-wise sum is one number for each row of a piece; recnas never splits such rows."""
        return 4 * rows * (columns if self.optimizer == "adagrad" else 1)

    def table_bytes(self) -> int:
        return sum(4 * n * self.width + self.state_bytes(n, self.width) for n in self.rows.values())

    def try_plan(self, network: _Network) -> ShardingForecast | None:
        load_kernels()  # which says what is missing
        from torchrec.distributed.planner.types import PlannerError

        budget, devices = self.budget(network), self.devices
        if budget <= 0 or self.table_bytes() > budget * devices.gpus:
            return None
        columns = list(self.rows)
        keys = {f"t{i}": n for i, n in enumerate(self.rows.values())}
        ways = allowed(None, self.optimizer, "cuda")
        try:
            _, options = make_plan(
                keys, self.width, self.optimizer, ways, "cuda", devices.gpus, devices.gpus // devices.hosts, budget,
                self.rows_each,
            )  # fmt: skip
        except PlannerError:
            return None
        tables = []
        sums = [[0, 0, 0, 0.0] for _ in range(devices.gpus)]  # tables, state, batches, milliseconds
        for option in sorted(options, key=lambda option: int(option.name[1:])):
            column = columns[int(option.name[1:])]
            for shard in option.shards:
                rows, width = shard.size
                weights, state = 4 * rows * width, self.state_bytes(rows, width)
                use = sums[shard.rank]
                use[0] += weights
                use[1] += state
                use[2] += max(0, shard.storage.hbm - weights - state)
                use[3] += shard.perf.total
            n = self.rows[column]
            tables.append(
                TablePlan(
                    column, n, self.width, option.sharding_type, option.compute_kernel,
                    tuple(shard.rank for shard in option.shards), 4 * n * self.width + self.state_bytes(n, self.width),
                )
            )  # fmt: skip
        dense, kept = network.bytes(self.width), network.activations(self.width, self.rows_each)
        uses = tuple(
            DeviceUse(int(w), int(s), int(b), dense, kept, float(ms)) for w, s, b, ms in sums
        )  # fmt: skip
        params = network.cost(self.width).params
        return ShardingForecast(
            devices, self.batch, self.width, self.optimizer, params, tuple(tables), uses
        )  # fmt: skip

    def with_(self, **changes: Any) -> _Case:
        return _Case(**{**{name: getattr(self, name) for name in self.__dataclass_fields__}, **changes})


def _does_not_fit(case: _Case, network: _Network) -> DoesNotFit:
    devices, budget = case.devices, case.budget(network)
    need = case.table_bytes()
    if budget <= 0:
        what = (
            f"the network alone leaves no room: it needs {human_bytes(network.bytes(case.width))} and its activations "
            f"{human_bytes(network.activations(case.width, case.rows_each))} of {human_bytes(devices.memory)} per device."
        )
        return DoesNotFit(what, "Use a smaller --batch, a smaller space, or devices with more memory.")
    room = budget * devices.gpus
    what = (
        f"tables and optimizer state need {human_bytes(need)}; {devices.gpus} device(s) of "
        f"{human_bytes(devices.memory)} have room for {human_bytes(room)} of them beside the network: "
    )
    if need > room:
        what += f"{human_bytes(need - room)} too much."
    else:
        what += "enough in all, but torchrec finds no way to cut the tables so that every device can hold its pieces."
    fits = _remedies(case, network)
    return DoesNotFit(what, "What fits: " + "; ".join(fits) + "." if fits else "Nothing that was tried fits alone.")


def _remedies(case: _Case, network: _Network) -> list[str]:
    """Single changes under which torchrec does find a plan."""
    found = []
    per_host = case.devices.gpus // case.devices.hosts
    gpus = 2 * case.devices.gpus
    while gpus <= MOST_DEVICES:
        hosts = -(-gpus // max(per_host, min(gpus, 8)))
        more = case.with_(devices=Devices(gpus, case.devices.memory, hosts), batch=max(case.batch, gpus))
        if more.try_plan(network):
            found.append(f"--gpus {gpus}")
            break
        gpus *= 2
    if case.optimizer == "adagrad" and case.with_(optimizer="rowwise-adagrad").try_plan(network):
        found.append("supernet.embeddings.optimizer=rowwise-adagrad")
    for width in range(case.width - 4, 3, -4):
        if case.with_(width=width).try_plan(network):
            found.append(f"supernet.embeddings.width={width}")
            break
    limit = 2 ** (max(case.rows.values()).bit_length() - 1)
    while limit >= 2**10:
        if case.with_(rows={k: min(n, limit) for k, n in case.rows.items()}).try_plan(network):
            found.append(f"supernet.embeddings.hash_rows={limit}")
            break
        limit //= 2
    return found
