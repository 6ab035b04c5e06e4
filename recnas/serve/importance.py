"""Which columns a trained model uses: its loss on validation rows once a column's values are mixed up.

    rows = ScoredRows.draw(data, "valid", 50_000, seed=0)
    found = measure(model, rows, column_parts(model.schema, {"user": ["C1", "C7"]}), repeats=5, seed=0)
    found.parts[0].name, found.parts[0].logloss, found.parts[0].logloss_interval

Permutation importance: the values of a column are permuted over the rows, everything else stays, and the rise
of the log loss is what the model loses without that column. The columns of a group are permuted together, so a
row gets all of them from one other row. Two columns that say the same may both look unused, as the model can
still read the other; a group of the two tells.

An interval is that of the paired bootstrap (`bench.bootstrap`): rows are drawn again, the same for both sides,
and so are the repeats. It is about this model on such rows, not about another training.

Rows that have weights count in both losses as often as these say.

Memory is a batch of inputs plus a few numbers per row, whatever the number of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from recnas.bench.bootstrap import Interval, RowSums, judged, paired_bootstrap
from recnas.config import nearest
from recnas.data.prepared import PreparedData
from recnas.data.schema import Schema
from recnas.errors import ConfigError, DataError, RunError
from recnas.seeds import stream
from recnas.serve.load import TrainedModel

RESAMPLES = 2000


@dataclass(frozen=True)
class Part:
    """What is permuted at once: one column, or a group. dense, sparse: places among the model's numbers and ids."""

    name: str
    kind: str  # dense, sparse or group
    columns: tuple[str, ...]
    dense: tuple[int, ...]
    sparse: tuple[int, ...]


@dataclass(frozen=True)
class PartImportance:
    """What the model loses without a column or group; means over the repeats."""

    name: str
    kind: str
    columns: tuple[str, ...]
    logloss: float  # permuted less unpermuted
    logloss_interval: Interval
    auc_loss: float | None  # unpermuted less permuted; None if all rows have one label
    auc_loss_interval: Interval | None
    distinguishable: bool  # the interval of the log loss does not contain zero


@dataclass(frozen=True)
class Importance:
    """Columns and groups, the most important first, and what they were measured on."""

    parts: tuple[PartImportance, ...]
    logloss: float  # of the unpermuted rows
    auc: float | None
    rows: int
    rows_of_split: int
    split: str
    repeats: int
    seed: int
    level: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def column_parts(schema: Schema, groups: Mapping[str, Sequence[str]]) -> list[Part]:
    """Every input column by itself, then the groups."""
    dense: dict[str, int] = {field.name: place for place, field in enumerate(schema.dense)}
    sparse: dict[str, int] = {field.name: place for place, field in enumerate(schema.sparse)}

    def part(name: str, kind: str, columns: Sequence[str]) -> Part:
        return Part(
            name,
            kind,
            tuple(columns),
            tuple(dense[column] for column in columns if column in dense),
            tuple(place for column in columns if column in sparse for place in schema.id_columns(sparse[column])),
        )

    known = list(dict.fromkeys([*dense, *sparse]))
    parts = [part(name, "dense" if name in dense else "sparse", [name]) for name in known]
    for name, columns in groups.items():
        if name in known:
            raise ConfigError(
                f"The group {name!r} has the name of a column, so the two could not be told apart.",
                f"Choose another name: --group {name}_group={','.join(columns)}",
            )
        for column in columns:
            if column not in known:
                raise ConfigError(
                    f"The group {name!r} names {column!r}, which is no input of the model; {nearest(column, known)}",
                    f"--group {name}=a,b,c with columns that recnas inspect DIR lists",
                )
        parts.append(part(name, "group", list(dict.fromkeys(columns))))
    return parts


class ScoredRows:
    """Some rows of a split, drawn at random and kept in file order; inputs are read batch by batch."""

    def __init__(self, data: PreparedData, split: str, index: np.ndarray) -> None:
        self.split, self.index, self.of = split, index, data.rows(split)
        self.dense, ids = np.asarray(data.array(split, "dense")), data.array(split, "ids")
        self.ids = ids if data.schema.bags else np.asarray(ids)  # bags are read where they are needed
        self.label = np.asarray(data.array(split, "label"))[index]
        self.weight = np.asarray(data.array(split, "weight"))[index] if data.weighted else None
        if self.weight is not None and not self.weight.any():
            raise DataError(
                f"The {len(index):,} rows drawn from the split {split} all have weight 0.",
                "Draw more of them: --rows N",
            )

    @classmethod
    def draw(cls, data: PreparedData, split: str, rows: int, seed: int) -> ScoredRows:
        there = data.rows(split)
        if there == 0:
            raise DataError(
                f"The split {split} of {data.path} has no rows, so nothing can be measured on it.",
                "Prepare more rows or with another --protocol, and train again: "
                "recnas prepare RECIPE --raw FILE --out DIR --protocol random-8-1-1",
            )
        index = np.arange(there)
        if rows < there:
            index = np.sort(stream(seed, "importance-rows").choice(there, rows, replace=False))
        return cls(data, split, index)

    def logits(self, model: TrainedModel, part: Part | None, order: np.ndarray | None, batch: int) -> np.ndarray:
        """Logits `[N]`, of several labels `[N, L]`; with `part`, row i has that part's values of row `order[i]`."""
        moved_dense, moved_ids = np.empty((0, 0)), np.empty((0, 0))
        if part is not None and order is not None:
            taken = self.index[order]
            moved_dense = self.dense[taken[:, None], list(part.dense)]
            moved_ids = self.ids[taken[:, None], list(part.sparse)]
        logits = np.empty(self.label.shape, dtype=np.float32)
        for start in range(0, len(self.index), batch):
            stop = min(start + batch, len(self.index))
            dense, ids = self.dense[self.index[start:stop]], self.ids[self.index[start:stop]].astype(np.int64)
            if part is not None:
                dense[:, list(part.dense)] = moved_dense[start:stop]
                ids[:, list(part.sparse)] = moved_ids[start:stop]
            logits[start:stop] = model.logits(torch.from_numpy(dense), torch.from_numpy(ids)).float().cpu().numpy()
        if not np.isfinite(logits).all():
            raise RunError(
                f"The scores of {model.path} are NaN or infinite: its training has diverged.",
                "Train again with a lower learning rate: lr=0.001",
            )
        return logits


def measure(
    model: TrainedModel,
    rows: ScoredRows,
    parts: Sequence[Part],
    *,
    repeats: int = 5,
    seed: int = 0,
    batch: int | None = None,
    resamples: int = RESAMPLES,
    on_pass: Callable[[int], None] | None = None,
) -> Importance:
    """Permute each part `repeats` times; `on_pass(rows)` is called after every pass over the rows.

    A part's permutations follow from the seed and its own columns, so its figures are the same whatever else
    is measured.
    """
    batch = batch or model.settings.eval_batch_size

    def scored(part: Part | None, repeat: int) -> RowSums:
        logits = rows.logits(model, part, _order(part, repeat), batch)
        if on_pass is not None:
            on_pass(len(rows.index))
        return judged(logits, rows.label, rows.weight, model.schema)

    def _order(part: Part | None, repeat: int) -> np.ndarray | None:
        if part is None:
            return None
        places = [*part.dense, *(model.schema.n_dense + place for place in part.sparse)]
        return stream(seed, "importance-order", repeat, *sorted(places)).permutation(len(rows.index))

    plain = scored(None, 0)
    measured, level = [], 0.95
    for part in parts:
        sums = [scored(part, repeat) for repeat in range(repeats)]
        rise = paired_bootstrap(sums, [plain], resamples=resamples, level=level, seed=seed)
        measured.append(
            PartImportance(
                name=part.name,
                kind=part.kind,
                columns=part.columns,
                logloss=rise.logloss,
                logloss_interval=rise.logloss_interval,
                auc_loss=None if rise.auc is None else -rise.auc,
                auc_loss_interval=None if rise.auc_interval is None else (-rise.auc_interval[1], -rise.auc_interval[0]),
                distinguishable=rise.real,
            )
        )
    return Importance(
        parts=tuple(sorted(measured, key=lambda part: -part.logloss)),
        logloss=plain.logloss,
        auc=plain.auc,
        rows=len(rows.index),
        rows_of_split=rows.of,
        split=rows.split,
        repeats=repeats,
        seed=seed,
        level=level,
    )
