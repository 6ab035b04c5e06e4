"""Embedding tables spread over the processes of a torch process group, on torchrec's sharded collection.

Every process looks up its own rows of the batch and receives values from whoever holds the tables. torchrec
does this in three stages (ids to the owners, look-up there, values back), and recnas cuts the graph twice:

    tables --kernel--> owned values | cut | --all-to-all--> values | cut | leaf -> network

`Lookup.apply` runs backward through the right part first, which brings the gradients to the owners, and
through the kernel, which updates the tables, only when they are final. So a global norm can be taken in
between, of the gradients summed over all processes, as in a single process.

All methods that read or write tables are collective: every process calls them, in the same order. State has
the layout of the other backends and is complete on the first process only.

Row-wise splitting and GPUs follow the same code but were never run; table-wise and column-wise were, on CPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from recnas.data.schema import Schema
from recnas.errors import ConfigError, RunError
from recnas.model.embeddings.base import (
    CHECKED_ON_DEVICE,
    Embeddings,
    Lookup,
    Scale,
    TableReader,
    TableSize,
    check_state,
    scaled,
    sum_by_row,
)
from recnas.model.embeddings.fused import load_kernels
from recnas.model.embeddings.jagged import JaggedIds, check_kernels_can
from recnas.model.embeddings.plain import normal_parts
from recnas.model.embeddings.row_map import RowMap
from recnas.model.embeddings.row_optim import Optimizer, TableOptimizer
from recnas.model.embeddings.sharding import Layout, Sharding, lay_out, owner, quiet


@dataclass(frozen=True)
class Shard:
    """A rectangle of a table and the process that holds it; the tensors are None elsewhere."""

    name: str
    owner: int
    rows: slice
    columns: slice
    weights: Tensor | None
    sums: Tensor | None

    def region(self, part: str, rowwise: bool) -> tuple[slice, ...]:
        return (self.rows,) if part == "sums" and rowwise else (self.rows, self.columns)


class _Exchange:
    """One look-up on its way: what the owner computed, what was sent, what arrived."""

    def __init__(self, ids: Any, owned: list[Tensor], sent: list[Tensor], values: Tensor) -> None:
        self.ids, self.owned, self.sent, self.values = ids, owned, sent, values
        self.returned = False

    def return_gradient(self, grad: Tensor) -> None:
        """Bring `grad [B, F, D]` of the values to the owners, summed over no one yet: each keeps every row."""
        if self.returned:
            return
        from torchrec.distributed.comm_ops import get_gradient_division

        # torchrec divides by the number of processes on the way back unless told not to.
        self.values.backward(grad * dist.get_world_size() if get_gradient_division() else grad)
        self.returned = True


class ShardedLookup(Lookup):
    """As `Lookup`, but its gradient of tables is that of the tables held here, all processes' rows summed."""

    def table_gradient(self) -> Tensor:
        """One flat vector. Squares of its norm add up over the processes. Collective."""
        assert isinstance(self._embeddings, ShardedEmbeddings)
        return self._embeddings._owned_gradient(self)


class ShardedEmbeddings(Embeddings):
    """Use `build_sharded` to make one."""

    backend = "sharded"

    def __init__(
        self, row_map: RowMap, width: int, optimizer: Optimizer, lr: float, eps: float, layout: Layout
    ) -> None:
        super().__init__(row_map, width, TableOptimizer(optimizer, eps), lr, layout.device)
        from torchrec.distributed.types import ShardingEnv

        self._kernels = load_kernels()
        self._ids = JaggedIds(self._kernels, row_map)
        self._keys = self._ids.tables
        self.plan = layout.plan
        group = dist.group.WORLD
        with quiet(), torch.random.fork_rng(devices=[layout.device] if layout.device.type == "cuda" else []):
            self._sharded = layout.sharder.shard(
                layout.collection, layout.plan.plan[""], ShardingEnv.from_process_group(group), layout.device
            )
        self._fused = self._sharded.fused_optimizer
        self.shards = self._find_shards()

    def _find_shards(self) -> list[Shard]:
        weights, states = self._sharded.state_dict(), self._fused.state_dict()["state"]
        found = []
        for name, key in zip(self.row_map.names, self._keys):
            table = weights[f"embedding_bags.{key}.weight"]
            here = {tuple(one.metadata.shard_offsets): one.tensor for one in table.local_shards()}
            state = next(iter(states.get(f"embedding_bags.{key}.weight", {}).values()), None)
            # The state's pieces come in the order of the weights'.
            sums = [one.tensor for one in state.local_shards()] if state is not None else []
            if len(sums) != len(here):
                raise RunError(f"torchrec keeps {len(here)} pieces of column {name} but {len(sums)} of its state.")
            sums_here = dict(zip(here, sums))
            for shard in table.metadata().shards_metadata:
                place = tuple(shard.shard_offsets)
                (top, left), (height, breadth) = place, shard.shard_sizes
                found.append(
                    Shard(name, owner(shard), slice(top, top + height), slice(left, left + breadth),
                          here.get(place), sums_here.get(place))
                )  # fmt: skip
        return found

    # Training

    def begin(self, ids: Tensor) -> ShardedLookup:
        folded = self._fold(ids)
        values, kept = self._open(folded)
        return ShardedLookup(self, folded, values, kept)

    def _open(self, ids: Tensor) -> tuple[Tensor, Any]:
        with torch.enable_grad():
            exchange = self._exchange(ids)
        return exchange.values, exchange

    def _exchange(self, ids: Tensor) -> _Exchange:
        bags = self._ids.of(ids)
        context = self._sharded.create_context()
        with quiet():
            given = self._sharded.input_dist(context, bags).wait().wait()
        owned = self._sharded.compute(context, given)
        sent = [one.detach().requires_grad_(torch.is_grad_enabled()) for one in owned]
        arrived = self._sharded.output_dist(context, sent).wait()
        values = arrived.values().view(len(ids), len(self._ids.keys), self.width)
        return _Exchange(given, owned, sent, self._ids.in_order(values, arrived.keys()))

    def _owned_gradient(self, lookup: Lookup) -> Tensor:
        exchange = self._returned(lookup)
        flat = []
        for ids, sent in zip(exchange.ids, exchange.sent):
            if sent.grad is None or not sent.numel():
                continue
            lengths = ids.lengths().view(-1, sent.shape[0])  # [fields that read tables held here, B]: how many ids
            widths = self._widths(ids.keys(), sent.shape[1])
            weights = None if ids.weights_or_none() is None else ids.weights().split(ids.length_per_key())
            tables: dict[tuple[str, int], list[tuple[Tensor, Tensor]]] = {}
            for number, (key, rows, present, grad) in enumerate(
                zip(ids.keys(), ids.values().split(ids.length_per_key()), lengths, sent.grad.split(widths, dim=1))
            ):
                of_rows = grad.repeat_interleave(present, 0)
                if weights is not None:
                    of_rows = of_rows * weights[number][:, None]
                piece = ids.keys()[:number].count(key)  # of columns; several fields may read the same
                tables.setdefault((self._ids.table_of(key), piece), []).append((rows.long(), of_rows))
            for read in tables.values():
                flat.append(sum_by_row(torch.cat([r for r, _ in read]), torch.cat([g for _, g in read]))[1].flatten())
        return torch.cat(flat) if flat else torch.zeros(1, device=self.device)

    def _widths(self, keys: list[str], total: int) -> list[int]:
        """Columns of each table piece held here, in the order of `keys` (of fields); a table may come in several pieces."""
        pieces: dict[str, list[int]] = {}
        for shard in self.shards:
            if shard.weights is not None:
                pieces.setdefault(shard.name, []).append(shard.weights.shape[1])
        names = dict(zip(self._keys, self.row_map.names))
        widths = [pieces[names[self._ids.table_of(key)]][0] for key in keys]  # pieces of one table are equally wide
        if sum(widths) != total:
            raise RunError(f"torchrec returned {total} columns where its plan has {sum(widths)}.")
        return widths

    def _returned(self, lookup: Lookup) -> _Exchange:
        if lookup._kept is None:  # several lookups joined into one
            lookup._kept = self._open(lookup.ids)[1]
        exchange: _Exchange = lookup._kept
        grad = lookup.leaf.grad if lookup.leaf.grad is not None else torch.zeros_like(lookup.leaf)
        exchange.return_gradient(grad)
        return exchange

    def _update(self, lookup: Lookup, scale: Scale) -> None:
        exchange = self._returned(lookup)
        pairs = [
            (owned, scaled(sent.grad, scale))
            for owned, sent in zip(exchange.owned, exchange.sent)
            if owned.numel() and sent.grad is not None
        ]
        if pairs:
            torch.autograd.backward([owned for owned, _ in pairs], [grad for _, grad in pairs])

    def set_lr(self, lr: float) -> None:
        if lr == self.lr:
            return
        self.lr = lr
        for group in self._fused.param_groups:
            group["lr"] = lr
        self._fused.step()  # hands the rate to the kernels; updates nothing

    # Reading

    @torch.no_grad()
    def lookup(self, ids: Tensor) -> Tensor:
        return self._exchange(self._fold(ids)).values

    def _fold(self, ids: Tensor) -> Tensor:
        ids = ids.to(self.device)
        if self.check_every_batch or ids.device.type == "cpu" or self._batches_seen < CHECKED_ON_DEVICE:
            self.row_map.check(ids)
        self._batches_seen += 1
        return self.row_map.fold(ids)

    def _stack(self) -> Tensor:
        raise RunError(
            "tables that are spread over processes have no common memory.",
            "Load the checkpoint in a single process.",
        )

    def reader(self) -> TableReader:
        return TableReader(self._stack(), self.row_map)

    # State

    def sizes(self) -> list[TableSize]:
        """Of whole tables, wherever their parts are."""
        per_row = 1 if self._rowwise else self.width
        return [
            TableSize(name, rows, 4 * rows * self.width, 4 * rows * per_row)
            for name, rows in zip(self.row_map.names, self.rows)
        ]

    def bytes_here(self) -> int:
        """Memory of the parts that this process holds."""
        return sum(
            tensor.nbytes for shard in self.shards for tensor in (shard.weights, shard.sums) if tensor is not None
        )

    def pieces(self) -> Iterator[tuple[int, Tensor]]:
        for shard in self.shards:
            if shard.weights is not None:
                yield shard.columns.start or 0, shard.weights

    @torch.no_grad()
    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """Whole tables in the host memory of the first process; elsewhere empty. Collective."""
        found = self._whole_tables() if dist.get_rank() == 0 else {"weights": {}, "sums": {}}
        for part, shard, mine in self._parts():
            if dist.get_rank() == 0:
                target = found[part][shard.name][shard.region(part, self._rowwise)]
                if mine is None:
                    mine = torch.empty(target.shape)
                    dist.recv(mine, shard.owner)
                target.copy_(mine)
            elif mine is not None:
                dist.send(mine.cpu().contiguous(), 0)
        return found

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take whole tables from the first process's `state` (of any backend); others pass anything. Collective."""
        if dist.get_rank() == 0:
            check_state(self._whole_tables(torch.device("meta")), state)
        for part, shard, mine in self._parts():
            if dist.get_rank() == 0:
                piece = state[part][shard.name][shard.region(part, self._rowwise)]
                if mine is not None:
                    mine.copy_(piece)
                else:
                    dist.send(piece.contiguous().cpu(), shard.owner)
            elif mine is not None:
                piece = torch.empty(mine.shape)
                dist.recv(piece, 0)
                mine.copy_(piece)

    @property
    def _rowwise(self) -> bool:
        return self.optimizer.kind == "rowwise-adagrad"

    def _parts(self) -> list[tuple[str, Shard, Tensor | None]]:
        return [(part, shard, getattr(shard, part)) for part in ("weights", "sums") for shard in self.shards]

    def _whole_tables(self, device: torch.device | None = None) -> dict[str, dict[str, Tensor]]:
        tail = () if self._rowwise else (self.width,)
        tables = list(zip(self.row_map.names, self.rows))
        return {
            "weights": {name: torch.empty(rows, self.width, device=device) for name, rows in tables},
            "sums": {name: torch.empty(rows, *tail, device=device) for name, rows in tables},
        }

    @torch.no_grad()
    def fill(self, seed: int, std: float | None = None) -> None:
        """Initial values: the same numbers that one process would draw."""
        for shard in self.shards:
            if shard.weights is None:
                continue
            rows = self.rows[self.row_map.names.index(shard.name)]
            for start, values in normal_parts(rows, self.width, seed, shard.name, std):
                first, last = max(start, shard.rows.start), min(start + len(values), shard.rows.stop)
                if first < last:
                    here = values[first - start : last - start, shard.columns]
                    shard.weights[first - shard.rows.start : last - shard.rows.start].copy_(here)


def build_sharded(
    schema: Schema,
    width: int = 16,
    optimizer: Optimizer = "adagrad",
    lr: float = 0.12,
    eps: float = 1e-2,
    device: torch.device | str = "cpu",
    seed: int = 0,
    cap: int | None = None,
    hash_rows: int | None = None,
    sharding: Sharding | None = None,
    memory: int | None = None,
    batch_rows: int = 512,
    l2: float = 0.0,
    std: float | None = None,
) -> ShardedEmbeddings:
    """Tables of a schema over the processes of the default group, started as `build_embeddings` starts them.

    Args:
        sharding: how to split; None leaves it to torchrec's planner.
        memory: bytes of tables and state one process may hold; None does not limit.
        batch_rows: rows of a batch per process, for the planner.
    """
    check_kernels_can(schema, "sharded", "Train in one process, where tables are plain.")
    if optimizer == "adam" or l2:
        asked = f"embeddings.l2={l2}" if l2 else "embeddings.optimizer=adam"
        raise ConfigError(
            f"{asked} does not work with tables that are spread over several processes: the kernels that update them "
            "have Adagrad only.",
            "Use embeddings.optimizer=adagrad and embeddings.l2=0, or train in one process.",
        )
    device = torch.device(device)
    row_map = RowMap(schema, cap, hash_rows, device)
    layout = lay_out(row_map, width, optimizer, lr, eps, device, sharding, memory, batch_rows)
    embeddings = ShardedEmbeddings(row_map, width, optimizer, lr, eps, layout)
    embeddings.fill(seed, std)
    return embeddings
