"""Validation log loss of architectures under the shared weights of a warmed supernet, as they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recnas.jobs.warmup import load_warmed
from recnas.progress import Progress
from recnas.threads import one_thread
from recnas.train.evaluate import evaluate


def shared_losses(
    run: Path | str, described: Sequence[dict[str, Any]], rows: int, progress: Progress | None = None
) -> list[float]:
    """One log loss per architecture, over the first `rows` validation rows."""
    supernet, embeddings, data, config = load_warmed(run)
    progress = progress or Progress(quiet=True)
    progress.phase("shared weights", len(described), "archs")
    losses = []
    for one in described:
        candidate = supernet.candidate(supernet.space.from_dict(one))
        with one_thread():
            metrics = evaluate(candidate, embeddings, data, "valid", batch_size=config.train.eval_batch_size, rows=rows)
        losses.append(metrics["logloss"])
        progress.advance(1)
    progress.end()
    return losses
