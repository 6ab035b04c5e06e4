"""Embedding tables on torchrec's FusedEmbeddingBagCollection, which runs fbgemm's table-batched kernels.

The kernels apply Adagrad inside backward. Backward through their output therefore happens in one place
only, `_update`, and with a gradient that is already final. Adam and L2 are beyond the kernels (on a CPU they have
Adagrad and plain gradient steps only): lookups are then theirs, and the step is that of the plain backend.

torch, torchrec and fbgemm fit together in one combination of versions; `load_kernels` is the only place
that imports the latter two. Host memory on a CPU, device memory on a GPU by the same constructor; only the
CPU was run. Traps handled here: the constructor draws from torch's global random state; fbgemm logs
through the root logger, which would install a handler there.

On a CPU, two settings of the environment are worth knowing: THP_MEM_ALLOC_ENABLE=1 lets torch ask for huge
pages (a tenth less per step on gigabytes of tables), and OMP_WAIT_POLICY=PASSIVE keeps several threads from
spinning on cores that other processes want (ten times less on a busy machine).
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import torch
from torch import Tensor

from recnas.errors import BackendMissing
from recnas.model.embeddings.base import Embeddings, Lookup, Scale, scaled
from recnas.model.embeddings.jagged import JaggedIds
from recnas.model.embeddings.row_map import RowMap
from recnas.model.embeddings.row_optim import RowOptimizer, TableOptimizer

EXTRA = "torchrec"  # of recnas, which brings them
MATCHING = {"torch": "2.13", "torchrec": "1.8", "fbgemm-gpu": "1.8"}


@dataclass(frozen=True)
class Kernels:
    """What is used of torchrec; untyped because neither library ships types."""

    collection: Any
    table_config: Any
    jagged: Any
    rowwise_adagrad: Any


_loaded: Kernels | BackendMissing | None = None


def load_kernels() -> Kernels:
    """Import torchrec and fbgemm once; `BackendMissing` (each time) if they do not load."""
    global _loaded
    if _loaded is None:
        try:
            with _quiet():
                _loaded = _import_kernels()
        except Exception as error:  # a wrong triple fails as ImportError, OSError, RuntimeError, AttributeError ...
            _loaded = _missing(error)
            raise _loaded from error
    if isinstance(_loaded, BackendMissing):
        raise _loaded
    return _loaded


def _import_kernels() -> Kernels:
    import fbgemm_gpu  # noqa: F401 - first, so that its own error is the one reported
    from torchrec.modules.embedding_configs import EmbeddingBagConfig
    from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection
    from torchrec.optim import RowWiseAdagrad
    from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

    # torchrec asks this on every batch, and torch warns about the question once per process: ask it here.
    torch.fx._symbolic_trace.is_fx_tracing()
    return Kernels(FusedEmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor, RowWiseAdagrad)


def _missing(error: Exception) -> BackendMissing:
    found = []
    for name in MATCHING:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"{name} not installed")
    cause = (str(error).strip() or type(error).__name__).splitlines()[0]
    return BackendMissing(
        f"The fused embedding backend does not load here ({cause}); nor do tables that are sharded over processes. They need torch "
        f"{MATCHING['torch']}, torchrec {MATCHING['torchrec']} and fbgemm {MATCHING['fbgemm-gpu']} together; found {', '.join(found)}.",
        f"Install them: pip install 'recnas[{EXTRA}]' (without a GPU: scripts/setup). Or train in one process with "
        "embeddings.backend=plain, which needs neither.",
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep import-time chatter off the screen. Errors still raise; they are not chatter."""
    root, tracing = logging.getLogger(), logging.getLogger("torch.fx._symbolic_trace")
    # With no handler on the root, fbgemm's first message would install one and change all later logging.
    silencer = logging.NullHandler()
    was_disabled = tracing.disabled
    root.addHandler(silencer)
    tracing.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root.removeHandler(silencer)
        tracing.disabled = was_disabled


class FusedEmbeddings(Embeddings):
    """One collection of all tables."""

    backend = "fused"

    def __init__(
        self,
        row_map: RowMap,
        width: int,
        optimizer: TableOptimizer,
        lr: float,
        device: torch.device,
        home: torch.device,
    ) -> None:
        super().__init__(row_map, width, optimizer, lr, device)
        self._kernels = kernels = load_kernels()
        self._ids = JaggedIds(kernels, row_map)
        self._keys = self._ids.tables
        tables = [
            kernels.table_config(name=key, embedding_dim=width, num_embeddings=rows, feature_names=names)
            for key, rows, names in zip(self._keys, row_map.rows, self._ids.features())
        ]
        # An optimizer that is not used keeps as little as possible.
        rowwise = optimizer.kind == "rowwise-adagrad" or not optimizer.is_adagrad
        # The caller's random state is none of the constructor's business.
        with _quiet(), torch.random.fork_rng(devices=[home] if home.type == "cuda" else []):
            self._collection = kernels.collection(
                tables=tables,
                is_weighted=self._ids.weighted,
                optimizer_type=kernels.rowwise_adagrad if rowwise else torch.optim.Adagrad,
                optimizer_kwargs={"lr": lr, "eps": optimizer.eps},
                device=home,
            )
        self._fused = self._collection.fused_optimizer()
        state = self._fused.state_dict()["state"]
        for name, key in zip(row_map.names, self._keys):
            self.weights[name] = self._collection.embedding_bags[key].weight.detach()
            if optimizer.is_adagrad:
                self.state["sums"][name] = state[f"{key}.weight"][f"{key}.weight.momentum_1"]
        self._whole = _one_after_the_other(list(self.weights.values()))
        self._rows: RowOptimizer | None = None
        if not optimizer.is_adagrad:
            self._rows = RowOptimizer(optimizer, row_map.total, width, lambda shape: torch.empty(shape, device=home))
            for name, start, rows in zip(row_map.names, row_map.starts, row_map.rows):
                for part, tensor in self._rows.state.items():
                    self.state[part][name] = tensor[start : start + rows]

    def _open(self, ids: Tensor) -> tuple[Tensor, Any]:
        with torch.enable_grad():
            found = self._collection(self._ids.of(ids))
            values = found.values().view(len(ids), len(self._ids.keys), self.width)
            values = self._ids.in_order(values, found.keys())
        return values, values

    def _update(self, lookup: Lookup, scale: Scale) -> None:
        if self._rows is not None:
            rows, summed = lookup._sums()
            self._rows.step(self._whole, rows, scaled(summed, scale), self.lr)
            return
        values = lookup._kept
        if values is None:  # several lookups joined into one
            values, _ = self._open(lookup.ids)
        assert lookup.leaf.grad is not None
        grad = lookup.leaf.grad.to(values.device)
        values.backward(scaled(grad, scale))

    def _stack(self) -> Tensor:
        return self._whole

    @property
    def steps(self) -> int:
        return 0 if self._rows is None else self._rows.steps

    def set_steps(self, steps: int) -> None:
        if self._rows is not None:
            self._rows.steps = steps

    def set_lr(self, lr: float) -> None:
        if lr == self.lr:
            return
        self.lr = lr
        for group in self._fused.param_groups:
            group["lr"] = lr
        self._fused.step()  # hands the rate to the kernels; updates nothing


def _one_after_the_other(tables: list[Tensor]) -> Tensor:
    """One `[sum of rows, D]` view over tables that fbgemm keeps in a single allocation."""
    first, place = tables[0], tables[0].storage_offset()
    for table in tables:
        adjacent = table.storage_offset() == place and table.is_contiguous()
        if not adjacent or table.untyped_storage().data_ptr() != first.untyped_storage().data_ptr():
            raise BackendMissing(
                "This fbgemm build does not keep the tables in one block of memory, which lookups rely on.",
                "Install the matching versions with scripts/setup, or set embeddings.backend: plain.",
            )
        place += table.numel()
    return first.as_strided((sum(len(table) for table in tables), first.shape[1]), (first.shape[1], 1))
