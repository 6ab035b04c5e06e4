"""Embedding tables: one interface, interchangeable backends.

Tables are not parameters of a network. They live here with their own optimizer, are read by a lookup, and
are written only by `Lookup.apply`. A network receives `embedded [B, F, D]` and never sees a table.

    embeddings = build_embeddings(schema, width=16, lr=0.12, eps=1e-2, seed=7)
    lookup = embeddings.begin(batch.ids)
    loss = bce(network(batch.dense, lookup.leaf), batch.label)
    loss.backward()                                   # fills lookup.leaf.grad; no table changes here
    lookup.apply(scale=clip_scale([*gradients, lookup.table_gradient()], 5.0))

Two stages instead of one for two reasons: a fused kernel updates its tables inside backward, where nothing
could be clipped any more; and a backward pass made for scoring must not train. Behind the leaf, neither
can happen, and every backend behaves the same.

Backends: `fused` (torchrec on fbgemm's kernels), `plain` (one torch table) and `sharded` (torchrec over several
processes: `embeddings_sharded.py`); `auto` takes the faster that loads (`choose_backend`). State has the same
layout in all, so a checkpoint moves between them. They start from the same bits and agree to rounding
afterwards; each repeats itself bit for bit, with one thread or two. All of this was run on CPUs only.

Shape letters: B batch, F sparse fields, D embedding width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.data.schema import FIRST_VALUE_ID, UNKNOWN_ID, Schema
from recnas.errors import ConfigError, DataError, RunError

Backend = Literal["auto", "fused", "plain", "sharded"]
Optimizer = Literal["adagrad", "rowwise-adagrad"]

CHECKED_ON_DEVICE = 16  # batches whose ids are checked on a GPU, where looking at them waits for the device


class RowMap:
    """From the ids of a batch to rows of the tables: checks them, folds what a limit cut off, adds offsets.

    cap: ids from `cap` on share the row of unknown values. Ids are ordered by frequency, so the frequent
    keep their own rows. hash_rows: ids beyond wrap around over the rows after the reserved ones instead.
    """

    def __init__(self, schema: Schema, cap: int | None, hash_rows: int | None, device: torch.device) -> None:
        self.names = tuple(field.name for field in schema.sparse)
        self.true_rows = schema.table_rows
        limit = _one_limit(cap, hash_rows)
        self.rows = tuple(n if limit is None else min(n, limit) for n in self.true_rows)
        self.wraps = hash_rows is not None
        self.folds = self.rows != self.true_rows
        *starts, self.total = accumulate(self.rows, initial=0)
        self.starts = tuple(starts)
        self._size, self._true_size, self._offsets = (
            torch.tensor(numbers, dtype=torch.int64, device=device)
            for numbers in (self.rows, self.true_rows, self.starts)
        )
        self._wrap = (self._size - FIRST_VALUE_ID).clamp(min=1)  # a table of reserved rows only never wraps

    def check(self, ids: Tensor) -> None:
        """Raise `DataError` for the first column that holds an id its table does not have."""
        if ids.ndim != 2 or ids.shape[1] != len(self.names) or ids.dtype != torch.int64:
            raise DataError(
                f"ids must be int64 [B, {len(self.names)}], but are {ids.dtype} {list(ids.shape)}."
            )
        if ids.numel() == 0 or ids.is_meta:
            return
        wrong = (ids.amin(0) < 0) | (ids.amax(0) >= self._true_size)
        if not bool(wrong.any()):
            return
        column = int(wrong.nonzero()[0])
        name, rows, values = self.names[column], self.true_rows[column], ids[:, column]
        lowest, highest = int(values.min()), int(values.max())
        if lowest < 0:
            raise DataError(f"column {name} has id {lowest}; ids start at 0.", "Prepare the data again.")
        raise DataError(
            f"column {name} has id {highest} but its table has {rows} rows; the batches were prepared with "
            "other limits than the schema.",
            f"Prepare again with --cap {rows} or set embeddings.cap: null and use the schema.json beside the data.",
        )

    def fold(self, ids: Tensor) -> Tensor:
        """Ids within the rows each table really has."""
        if not self.folds:
            return ids
        if self.wraps:
            first = FIRST_VALUE_ID
            return torch.where(ids >= self._size, first + (ids - first) % self._wrap, ids)
        return torch.where(ids >= self._size, UNKNOWN_ID, ids)

    def stacked(self, ids: Tensor) -> Tensor:
        """Folded ids `[B, F]` as row numbers `[B F]` in all tables laid one after the other."""
        return (ids + self._offsets).flatten()


def _one_limit(cap: int | None, hash_rows: int | None) -> int | None:
    if cap is not None and hash_rows is not None:
        raise ConfigError("embeddings.cap and embeddings.hash_rows are both set.", "Keep one of them.")
    if cap is not None and cap < FIRST_VALUE_ID:
        raise ConfigError(f"embeddings.cap is {cap}; the reserved ids alone need {FIRST_VALUE_ID} rows.")
    if hash_rows is not None and hash_rows <= FIRST_VALUE_ID:
        raise ConfigError(
            f"embeddings.hash_rows is {hash_rows}; it must leave rows after the {FIRST_VALUE_ID} reserved."
        )
    return cap if cap is not None else hash_rows


def sum_by_row(rows: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct rows in rising order `[U]` and the summed gradient of each `[U, D]`.

    Equal rows are added in the order of the batch, each sum by one thread, so the result does not depend
    on the number of threads (which `index_add_` on a GPU would not promise).
    """
    ordered, order = torch.sort(rows, stable=True)
    touched, counts = torch.unique_consecutive(ordered, return_counts=True)
    return touched, F.embedding_bag(order, grad, counts.cumsum(0) - counts, mode="sum")


class TableReader:
    """Lookups only, on tables that may be shared: small to send to a worker process, and nothing to train.

    Readers in other processes see updates as they happen, row by row; search trains nothing meanwhile.
    """

    def __init__(self, stack: Tensor, row_map: RowMap) -> None:
        self.stack, self.row_map = stack, row_map

    @torch.no_grad()
    def lookup(self, ids: Tensor) -> Tensor:
        """`[B, F]` to `[B, F, D]`."""
        self.row_map.check(ids)
        return gather(self.stack, self.row_map.stacked(self.row_map.fold(ids)), ids.shape)


def gather(stack: Tensor, rows: Tensor, shape: torch.Size) -> Tensor:
    return stack.index_select(0, rows).view(*shape, stack.shape[1])


@dataclass(frozen=True)
class TableSize:
    """Memory of one table, in bytes."""

    name: str
    rows: int
    weights: int
    state: int


class Lookup:
    """One batch that was looked up for training, until its gradient has been applied.

    leaf: `[B, F, D]`, a leaf for autograd; what the network reads.
    """

    def __init__(self, embeddings: Embeddings, ids: Tensor, values: Tensor, kept: Any) -> None:
        self.leaf = values.detach().to(embeddings.device).requires_grad_()
        self.ids = ids  # folded, where the tables are
        self._embeddings, self._kept = embeddings, kept
        self._summed: tuple[Tensor, Tensor] | None = None
        self._applied = False

    def table_gradient(self) -> Tensor:
        """Gradient of every touched row `[U, D]`, duplicate ids of the batch added up.

        Its norm is the embeddings' share of a global norm as an optimizer with dense tables would see it;
        the norm of `leaf.grad` is the norm before duplicates meet. For `plain` this costs nothing extra.
        """
        return self._sums()[1]

    def _sums(self) -> tuple[Tensor, Tensor]:
        if self._summed is None:
            grad = self.leaf.grad if self.leaf.grad is not None else torch.zeros_like(self.leaf)
            rows = self._embeddings.row_map.stacked(self.ids)
            self._summed = sum_by_row(rows, grad.to(rows.device).flatten(0, 1))
        return self._summed

    def apply(self, scale: float = 1.0) -> None:
        """Update the touched rows with `scale * leaf.grad`. Without a gradient nothing happens."""
        if self._applied:
            raise RunError("this lookup was applied before; begin a new one for every step.")
        self._applied = True
        if self.leaf.grad is not None and self.leaf.numel():
            self._embeddings._update(self, scale)
        self._kept = self._summed = None


class Embeddings(ABC):
    """All tables of one data set, and their optimizer. Use `build_embeddings` to make one.

    A backend gives `_open` and `_update`, and its tensors by name in `weights` and `sums`.

    Attributes:
        weights: table `[rows, D]` by column name. sums: Adagrad's sum of squares by column name, `[rows, D]`,
            or `[rows]` for the row-wise form. Both alias the real memory.
        device: where lookups and gradients are; with `offload`, not where the tables are.
        check_every_batch: look for ids without a row in every batch (debugging on a GPU; a CPU always does).
    """

    backend: str

    def __init__(
        self, row_map: RowMap, width: int, optimizer: Optimizer, lr: float, eps: float, device: torch.device
    ) -> None:
        self.row_map, self.width = row_map, width
        self.optimizer, self.lr, self.eps = optimizer, lr, eps
        self.device = device
        self.weights: dict[str, Tensor] = {}
        self.sums: dict[str, Tensor] = {}
        self.check_every_batch = False
        self._batches_seen = 0
        self._opened: list[Lookup] = []

    # What a backend provides

    @abstractmethod
    def _open(self, ids: Tensor) -> tuple[Tensor, Any]:
        """Values `[B, F, D]` of folded ids, and whatever `_update` wants to find again."""

    @abstractmethod
    def _update(self, lookup: Lookup, scale: float) -> None:
        """Apply `scale * lookup.leaf.grad` to the rows of `lookup.ids`, duplicates summed first."""

    @abstractmethod
    def _stack(self) -> Tensor:
        """All tables one after the other, `[sum of rows, D]`, sharing their memory."""

    @abstractmethod
    def set_lr(self, lr: float) -> None:
        """Learning rate of lookups begun from now on (fused kernels take it along when they look up)."""

    # Training

    def begin(self, ids: Tensor) -> Lookup:
        """Look up `ids [B, F]` for a training step; see the module's example."""
        folded = self._fold(ids)
        values, kept = self._open(folded)
        return Lookup(self, folded, values, kept)

    def __call__(self, ids: Tensor) -> Tensor:
        """`ids [B, F]` to `[B, F, D]`, for loops written in the usual order:

            loss_of(embeddings(ids)).backward(); embeddings.step(); embeddings.zero_grad()

        Lookups between two steps count as one larger batch (gradient accumulation). Under `no_grad` this
        is `lookup`.
        """
        if not torch.is_grad_enabled():
            return self.lookup(ids)
        self._opened.append(self.begin(ids))
        return self._opened[-1].leaf

    def step(self, scale: float = 1.0) -> None:
        """Update the tables from every `__call__` since the last step that received a gradient."""
        opened = [lookup for lookup in self._opened if lookup.leaf.grad is not None]
        self._opened = []
        if len(opened) > 1:
            joined = Lookup(
                self, torch.cat([one.ids for one in opened]), torch.cat([one.leaf for one in opened]), None
            )
            joined.leaf.grad = torch.cat([one.leaf.grad for one in opened if one.leaf.grad is not None])
            opened = [joined]
        for lookup in opened:
            lookup.apply(scale)

    def zero_grad(self) -> None:
        """Forget lookups that no step has used."""
        self._opened = []

    # Reading

    @torch.no_grad()
    def lookup(self, ids: Tensor) -> Tensor:
        """`ids [B, F]` to `[B, F, D]`, for scoring and evaluation: no graph, never an update."""
        folded = self._fold(ids)
        return gather(self._stack(), self.row_map.stacked(folded), folded.shape).to(self.device)

    def reader(self) -> TableReader:
        """Lookups for worker processes; call `share_memory_` first so that they read the same memory."""
        return TableReader(self._stack().detach(), self.row_map)

    def share_memory_(self) -> None:
        """Move the tables (not the optimizer's sums) to memory that worker processes can read."""
        self._stack().share_memory_()

    def check_ids(self, ids: Tensor) -> None:
        """Raise `DataError`, naming the column, if a table has no row for an id."""
        self.row_map.check(ids)

    def _fold(self, ids: Tensor) -> Tensor:
        ids = ids.to(self._stack().device)
        if self.check_every_batch or ids.device.type == "cpu" or self._batches_seen < CHECKED_ON_DEVICE:
            self.row_map.check(ids)
        self._batches_seen += 1
        return self.row_map.fold(ids)

    # Memory and state

    @property
    def rows(self) -> tuple[int, ...]:
        return self.row_map.rows

    @property
    def nbytes(self) -> int:
        """Memory of all tables and their optimizer state."""
        return sum(size.weights + size.state for size in self.sizes())

    def sizes(self) -> list[TableSize]:
        return [TableSize(name, len(w), w.nbytes, self.sums[name].nbytes) for name, w in self.weights.items()]

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """`{"weights": {column: table}, "sums": {column: state}}`, aliases of the live memory."""
        return {
            "weights": {name: table.detach() for name, table in self.weights.items()},
            "sums": dict(self.sums),
        }

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Copy in tables and optimizer state of any backend; nothing is written if something does not fit."""
        mine = self.state_dict()
        check_state(mine, state)
        for part, tensors in mine.items():
            for name, tensor in tensors.items():
                tensor.copy_(state[part][name])


def check_state(mine: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Mapping[str, Tensor]]) -> None:
    for part, tensors in mine.items():
        shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
        saved = {name: list(tensor.shape) for name, tensor in state.get(part, {}).items()}
        for name in [*shapes, *(name for name in saved if name not in shapes)]:
            if shapes.get(name) != saved.get(name):
                raise RunError(
                    f"the {part} of column {name} are {saved.get(name, 'absent')} in the checkpoint but "
                    f"{shapes.get(name, 'absent')} here: other data, width, row limit or embedding optimizer.",
                    "Use the data and the embeddings settings the checkpoint was made with.",
                )


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
) -> Embeddings:
    """Allocate and initialise the tables of a schema.

    Args:
        backend: `auto` is `fused` on a GPU if its libraries load and can do this width, else `plain`. `sharded`
            is the same here: all tables in one process. Over several, see `build_sharded`.
        optimizer: `adagrad` keeps one sum per value, `rowwise-adagrad` one per row (memory / D).
        seed: of the initial values; a generator gives one seed.
        cap, hash_rows: at most so many rows per table; see `RowMap`.
        offload: tables stay in host memory, only batches and gradients travel to `device`. The copies were
            run with `device="cpu"` only.

    Raises:
        BackendMissing: `fused` was asked for and does not load here.
    """
    from recnas.model.embeddings_choice import choose_backend
    from recnas.model.embeddings_fused import FusedEmbeddings
    from recnas.model.embeddings_plain import PlainEmbeddings, fill_xavier

    _check_choice("backend", backend, get_args(Backend))
    _check_choice("optimizer", optimizer, get_args(Optimizer))
    if width < 1 or (backend == "fused" and width % 4):
        raise ConfigError(
            f"embeddings.width is {width}; fused needs a multiple of 4, plain any positive number."
        )
    if isinstance(seed, torch.Generator):
        seed = int(torch.randint(2**62, (), generator=seed))
    device = torch.device(device)
    home = torch.device("cpu") if offload else device
    if backend in ("auto", "sharded"):
        backend = choose_backend(home, width, schema.n_sparse)
    row_map = RowMap(schema, cap, hash_rows, home)
    make = FusedEmbeddings if backend == "fused" else PlainEmbeddings
    embeddings = make(row_map, width, optimizer, lr, eps, device, home)
    for name, table in embeddings.weights.items():
        fill_xavier(table, seed, name)
    return embeddings


def _check_choice(key: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"embeddings.{key} is {value!r}; choose one of {', '.join(choices)}.")
