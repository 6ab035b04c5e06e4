"""Metrics of a network on one split, read in file order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from recnas.data.loader import BatchLoader
from recnas.data.prepared import PreparedData
from recnas.data.rank_batch import PartBatch
from recnas.model.embeddings import Embeddings
from recnas.train.distributed import current_ranks
from recnas.train.loop import Network
from recnas.train.metrics import metrics_of


@torch.no_grad()
def evaluate(
    network: Network,
    embeddings: Embeddings,
    data: PreparedData,
    split: str,
    *,
    batch_size: int = 4096,
    rows: int | None = None,
    device: torch.device | str = "cpu",
    on_rows: Callable[[int], None] | None = None,
    on_logits: Callable[[Tensor], None] | None = None,
) -> dict[str, Any]:
    """`logloss`, `auc` and the rest of `Metrics.result` or `LabelMetrics.result`; `rows` limits it to the first rows.

    A module is in eval mode meanwhile and gets its own mode back. `on_logits` sees the logits of every batch.
    Processes that train together share the rows of every batch; the first puts them in order again, so the
    metrics are as exact as in one process, and all are given its result.
    """
    ranks = current_ranks()
    loader = BatchLoader(
        data, split, batch_size, rows=rows, rank=ranks.rank, world=ranks.world, split_batches=ranks.several
    )
    metrics = metrics_of(data.schema)
    was_training = isinstance(network, nn.Module) and network.training
    if isinstance(network, nn.Module):
        network.eval()
    try:
        for batch in loader.epoch():
            batch = batch.to(device)
            logits, label, weight = network(batch.dense, embeddings.lookup(batch.ids)), batch.label, batch.weight
            if isinstance(batch, PartBatch):
                logits, label = ranks.rows(logits, batch.whole), ranks.rows(label, batch.whole)
                weight = None if weight is None else ranks.rows(weight, batch.whole)
            if ranks.first:
                metrics.update(logits, label, weight)
            if on_logits is not None:
                on_logits(logits)
            if on_rows is not None:
                on_rows(len(label))
    finally:
        if isinstance(network, nn.Module):
            network.train(was_training)
    return ranks.share(metrics.result() if ranks.first else {})
