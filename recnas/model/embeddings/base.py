"""What every embedding backend is: tables with an optimizer of their own, read and written in two stages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.errors import RunError
from recnas.model.embeddings.attention import AttentionWeights
from recnas.model.embeddings.frozen import FrozenRows
from recnas.model.embeddings.row_map import RowMap
from recnas.model.embeddings.row_map import gather as gather
from recnas.model.embeddings.row_optim import TableOptimizer

Backend = Literal["auto", "fused", "plain", "sharded"]
Scale = float | Tensor  # what gradients are multiplied by: a number, or a scalar that is on the device

CHECKED_ON_DEVICE = 16  # batches whose ids are checked on a GPU, where looking at them waits for the device


def sum_by_row(rows: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct rows in rising order `[U]` and the summed gradient of each `[U, D]`.

    Equal rows are added in the order of the batch, each sum by one thread, so the result does not depend
    on the number of threads (which `index_add_` on a GPU would not promise).
    """
    ordered, order = torch.sort(rows, stable=True)
    touched, counts = torch.unique_consecutive(ordered, return_counts=True)
    return touched, F.embedding_bag(order, grad, counts.cumsum(0) - counts, mode="sum")


def sum_by_row_in_place(rows: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`sum_by_row` for a device: the result is as long as the input, so the host need not know how many rows differ.

    Returns:
        rows `[N]`, gradients `[N, D]` and how many are distinct, a scalar on the device. Places after the distinct ones
        repeat the first: an update that writes each row computes, and writes, the same there as in the first.
    """
    many = len(rows)
    ordered, order = torch.sort(rows, stable=True)
    begins = torch.ones_like(ordered, dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=begins[1:])
    number = begins.cumsum(0) - 1  # which of the distinct rows
    places = torch.arange(many, device=rows.device)
    starts = torch.full_like(places, many).scatter_reduce_(0, number, places, "amin")
    sums = F.embedding_bag(order, grad, starts, mode="sum")
    distinct = number[-1] + 1
    kept = torch.where(places < distinct, places, torch.zeros_like(places))
    first = starts.index_select(0, kept)
    return ordered.index_select(0, first), sums.index_select(0, kept), distinct


def scaled(grad: Tensor, scale: Scale) -> Tensor:
    if isinstance(scale, Tensor):
        return grad * scale.to(grad.device)
    return grad if scale == 1.0 else grad * scale


class TableReader:
    """Lookups only, on tables that may be shared: small to send to a worker process, and nothing to train.

    Readers in other processes see updates as they happen, row by row; search trains nothing meanwhile.
    """

    stacks: tuple[Tensor, ...]  # the tables, several one after the other, and what else is read

    def __init__(self, stack: Tensor, row_map: RowMap, attention: Sequence[Tensor] = ()) -> None:
        self.stacks, self.row_map = (stack, *attention), row_map

    @property
    def are_tables(self) -> tuple[bool, ...]:
        """Of `stacks`; the others are weights of attention."""
        return (True, *(False for _ in self.stacks[1:]))

    @torch.no_grad()
    def lookup(self, ids: Tensor) -> Tensor:
        """Ids as in a batch to `[B, F, D]`."""
        self.row_map.check(ids)
        return self.read(self.stacks, self.row_map.fold(ids))

    def read(self, stacks: Sequence[Tensor], ids: Tensor) -> Tensor:
        """The rows of folded ids in tables laid out like `stacks`, which a traced program holds as its own."""
        stack, *attention = stacks
        return self.row_map.vectors(stack, ids, attention)


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
        self._distinct: Tensor | None = None
        self._of_attention: list[Tensor] = []  # gradients of its weights
        self._applied = False

    def table_gradient(self) -> Tensor:
        """Gradient of every touched row `[U, D]`, duplicate ids of the batch added up.

        Its norm is the embeddings' share of a global norm as an optimizer with dense tables would see it;
        the norm of `leaf.grad` is the norm before duplicates meet. For `plain` this costs nothing extra.
        """
        sums = self._sums()[1]
        if self._distinct is not None:
            sums = sums * (torch.arange(len(sums), device=sums.device) < self._distinct)[:, None]
        if not self._of_attention:
            return sums
        return torch.cat([sums.flatten(), *(grad.flatten() for grad in self._of_attention)])

    def _sums(self) -> tuple[Tensor, Tensor]:
        """Distinct rows and their gradients; on a device repetitions of the first stand behind them."""
        if self._summed is None:
            grad = self.leaf.grad if self.leaf.grad is not None else torch.zeros_like(self.leaf)
            rows, flat, self._of_attention = self._embeddings._row_gradients(self.ids, grad.to(self.ids.device))
            if rows.device.type == "cpu" or not len(rows):
                self._summed = sum_by_row(rows, flat)
            else:
                *summed, self._distinct = sum_by_row_in_place(rows, flat)
                self._summed = (summed[0], summed[1])
        return self._summed

    def apply(self, scale: Scale = 1.0) -> None:
        """Update the touched rows with `scale * leaf.grad`. Without a gradient nothing happens."""
        if self._applied:
            raise RunError("this lookup was applied before; begin a new one for every step.")
        self._applied = True
        if self.leaf.grad is not None and self.leaf.numel():
            self._embeddings._update(self, scale)
            if self._embeddings.frozen is not None:
                self._embeddings.frozen.restore(self)
        self._kept = self._summed = None


class Embeddings(ABC):
    """All tables of one data set, and their optimizer. Use `build_embeddings` to make one.

    A backend gives `_open` and `_update`, and its tensors by name in `weights` and `state`.

    Attributes:
        weights: table `[rows, D]` by column name. state: the optimizer's numbers by part ("sums", "means" ...) and
            column name, `[rows, D]` or `[rows]`. Both alias the real memory.
        steps: how often the tables were updated.
        device: where lookups and gradients are; with `offload`, not where the tables are.
        frozen: rows that training leaves as they are; None: it changes all.
        check_every_batch: look for ids without a row in every batch (debugging on a GPU; a CPU always does).
    """

    backend: str

    def __init__(self, row_map: RowMap, width: int, optimizer: TableOptimizer, lr: float, device: torch.device) -> None:
        self.row_map, self.width = row_map, width
        self.optimizer, self.lr = optimizer, lr
        self.device = device
        self.weights: dict[str, Tensor] = {}
        self.state: dict[str, dict[str, Tensor]] = {part: {} for part in optimizer.parts}
        self.check_every_batch = False
        self.frozen: FrozenRows | None = None
        self._batches_seen = 0
        self._opened: list[Lookup] = []
        self.attention: AttentionWeights | None = None  # of sequences that are pooled by it

    # What a backend provides

    @abstractmethod
    def _open(self, ids: Tensor) -> tuple[Tensor, Any]:
        """Values `[B, F, D]` of folded ids, and whatever `_update` wants to find again."""

    @abstractmethod
    def _update(self, lookup: Lookup, scale: Scale) -> None:
        """Apply `scale * lookup.leaf.grad` to the rows of `lookup.ids`, duplicates summed first."""

    @abstractmethod
    def _stack(self) -> Tensor:
        """All tables one after the other, `[sum of rows, D]`, sharing their memory."""

    @abstractmethod
    def set_lr(self, lr: float) -> None:
        """Learning rate of lookups begun from now on (fused kernels take it along when they look up)."""

    # Training

    def begin(self, ids: Tensor) -> Lookup:
        """Look up `ids [B, F]` (with bags: `[B, n_ids]`) for a training step; see the module's example."""
        folded = self._fold(ids)
        values, kept = self._open(folded)
        lookup = Lookup(self, folded, values, kept)
        if self.frozen is not None:
            self.frozen.guard(lookup)
        return lookup

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

    def step(self, scale: Scale = 1.0) -> None:
        """Update the tables from every `__call__` since the last step that received a gradient."""
        opened = [lookup for lookup in self._opened if lookup.leaf.grad is not None]
        self._opened = []
        if len(opened) > 1:
            joined = Lookup(self, torch.cat([one.ids for one in opened]), torch.cat([one.leaf for one in opened]), None)
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
        return self.row_map.vectors(self._stack(), folded, self._attention()).to(self.device)

    def reader(self) -> TableReader:
        """Lookups for worker processes; call `share_memory_` first so that they read the same memory."""
        return TableReader(self._stack().detach(), self.row_map, self._attention())

    def share_memory_(self) -> None:
        """Move the tables (not the optimizer's sums) to memory that worker processes can read."""
        self._stack().share_memory_()
        for weights in self._attention():
            weights.share_memory_()

    def check_ids(self, ids: Tensor) -> None:
        """Raise `DataError`, naming the column, if a table has no row for an id."""
        self.row_map.check(ids)

    def _attention(self) -> list[Tensor]:
        return [] if self.attention is None else self.attention.tensors

    def _row_gradients(self, ids: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Row numbers of every value of folded ids, the gradient of each, and those of the weights of attention."""
        if not self.row_map.bags:  # the tables may have no common memory
            return self.row_map.stacked(ids), grad.flatten(0, 1), []
        return self.row_map.row_gradients(self._stack(), ids, grad, self._attention())

    def _fold(self, ids: Tensor) -> Tensor:
        ids = ids.to(self.row_map.device)
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
        return [
            TableSize(name, len(table), table.nbytes, sum(part[name].nbytes for part in self.state.values()))
            for name, table in self.weights.items()
        ]

    @property
    def steps(self) -> int:
        """How often the tables were updated, as far as their optimizer counts."""
        return 0

    def set_steps(self, steps: int) -> None:
        """Continue counting from there, after `load_state_dict`; nothing to do for an optimizer that does not count."""
        return

    def pieces(self) -> Iterator[tuple[int, Tensor]]:
        """The parts of tables that this process holds: their first column, and their values."""
        for table in self.weights.values():
            yield 0, table

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """`{"weights": {column: table}, "sums": {column: state}, ...}`, aliases of the live memory."""
        found = {
            "weights": {name: table.detach() for name, table in self.weights.items()},
            **{part: dict(tensors) for part, tensors in self.state.items()},
        }
        for part, tensors in self._attention_state().items():
            found[part] |= tensors
        return found

    def _attention_state(self) -> dict[str, dict[str, Tensor]]:
        return {} if self.attention is None else self.attention.state()

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
