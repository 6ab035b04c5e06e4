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
processes: `sharded.py`); `auto` takes the faster that loads (`choose_backend`). State has the same
layout in all, so a checkpoint moves between them. They start from the same bits and agree to rounding
afterwards; each repeats itself bit for bit, with one thread or two. All of this was run on CPUs only.

Shape letters: B batch, F sparse fields, D embedding width.
"""

from recnas.model.embeddings.base import Backend as Backend
from recnas.model.embeddings.base import Embeddings as Embeddings
from recnas.model.embeddings.base import Lookup as Lookup
from recnas.model.embeddings.base import TableReader as TableReader
from recnas.model.embeddings.base import TableSize as TableSize
from recnas.model.embeddings.base import check_state as check_state
from recnas.model.embeddings.base import gather as gather
from recnas.model.embeddings.base import sum_by_row as sum_by_row
from recnas.model.embeddings.columns import FieldColumns as FieldColumns
from recnas.model.embeddings.factory import build_embeddings as build_embeddings
from recnas.model.embeddings.narrow import NarrowReader as NarrowReader
from recnas.model.embeddings.row_map import RowMap as RowMap
from recnas.model.embeddings.row_optim import L2Kind as L2Kind
from recnas.model.embeddings.row_optim import Optimizer as Optimizer
