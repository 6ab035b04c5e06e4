"""What each model input is: names, order and table sizes, fitted on the training rows only.

A schema is a plain value without torch. `space.cost` counts parameters from it before any network
exists, `model.embeddings` allocates tables from it, and the prepared folder stores it as JSON.

Shape letters used throughout the project: B batch, I dense fields, F sparse fields, D embedding width, L labels.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from recnas.names import name_fault

MOST_ROWS = 1 << 31  # of a table: ids are 32-bit numbers
UNKNOWN_ID = 0  # rare in training, or never seen there
MISSING_ID = 1  # the cell was empty; trained like any other id
FIRST_VALUE_ID = 2  # kept values follow, most frequent first


@dataclass(frozen=True)
class DenseField:
    """One numeric input; `mean` and `std` describe the training rows after the transform, missing cells left out.

    A standardised input is (x - mean) / std; a missing cell is `fill` either way.
    """

    name: str
    transform: str = "log1p"
    mean: float = 0.0
    std: float = 1.0
    standardised: bool = False
    fill: float = 0.0
    edges: tuple[float, ...] = ()  # of transforms that are fitted: rising, quantiles of the training rows or as given


@dataclass(frozen=True)
class SparseField:
    """One categorical input; `rows` is the size of its table, ids 0 and 1 included."""

    name: str
    rows: int
    edges: tuple[float, ...] = ()  # of a number that is embedded by its bucket


@dataclass(frozen=True)
class LabelField:
    """One of several labels, and what its loss counts in the sum that is trained."""

    name: str
    weight: float = 1.0


@dataclass(frozen=True)
class Schema:
    """The inputs of every model trained on one prepared data set, and what it predicts if that is not one label."""

    dense: tuple[DenseField, ...]
    sparse: tuple[SparseField, ...]
    labels: tuple[LabelField, ...] = ()  # empty: one label, which needs no name

    @property
    def n_labels(self) -> int:
        """L: how many numbers a network gives for a row."""
        return max(1, len(self.labels))

    @property
    def n_dense(self) -> int:
        return len(self.dense)

    @property
    def n_sparse(self) -> int:
        return len(self.sparse)

    @property
    def table_rows(self) -> tuple[int, ...]:
        return tuple(field.rows for field in self.sparse)

    def embedding_bytes(self, width: int, bytes_per_value: int = 4) -> int:
        """Memory of all tables at embedding width D, optimizer state not counted."""
        return sum(self.table_rows) * width * bytes_per_value

    @classmethod
    def of_shape(cls, n_dense: int, rows: list[int] | tuple[int, ...]) -> Schema:
        """A schema with made-up names, for tests, benchmarks and `recnas cost --dense I --fields F`."""
        return cls(
            dense=tuple(DenseField(f"I{i + 1}") for i in range(n_dense)),
            sparse=tuple(SparseField(f"C{i + 1}", n) for i, n in enumerate(rows)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Without `edges` and `labels` where there are none, as schemas were before there were any."""
        whole = asdict(self)
        for field in (*whole["dense"], *whole["sparse"]):
            edges = field.pop("edges")
            if edges:
                field["edges"] = list(edges)
        if not whole["labels"]:
            del whole["labels"]
        return whole

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Schema:
        """Raises: ValueError, KeyError or TypeError if it is not what `to_dict` gives."""
        schema = cls(
            dense=tuple(DenseField(**_with_edges(field)) for field in data["dense"]),
            sparse=tuple(SparseField(**_with_edges(field)) for field in data["sparse"]),
            labels=tuple(LabelField(**label) for label in data.get("labels", ())),
        )
        schema._check()
        return schema

    def _check(self) -> None:
        for name in [*(field.name for field in self.dense), *(field.name for field in self.sparse)]:
            if fault := name_fault(name):
                raise ValueError(f"the name {name!r} {fault}")
        for label in self.labels:
            if (fault := name_fault(label.name)) or not (type(label.weight) in (int, float) and label.weight > 0):
                raise ValueError(f"the label {label.name!r} {fault or f'has the weight {label.weight!r}'}")
        for dense in self.dense:
            for value in (dense.mean, dense.std, dense.fill):
                if type(value) not in (int, float) or not math.isfinite(value):
                    raise ValueError(f"{dense.name}: {value!r} is no number")
        for sparse in self.sparse:
            if type(sparse.rows) is not int or not 0 < sparse.rows < MOST_ROWS:
                raise ValueError(f"{sparse.name}: {sparse.rows!r} is no number of rows")

        for name, edges in [(field.name, field.edges) for field in self.dense] + [
            (f.name, f.edges) for f in self.sparse
        ]:
            if any(type(edge) not in (int, float) or not math.isfinite(edge) for edge in edges) or list(
                edges
            ) != sorted(edges):
                raise ValueError(f"{name}: its edges do not rise")

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)


def _with_edges(field: dict[str, Any]) -> dict[str, Any]:
    return {**field, "edges": tuple(field.get("edges", ()))}
