"""What each model input is: names, order and table sizes, fitted on the training rows only.

A schema is a plain value without torch. `space.cost` counts parameters from it before any network
exists, `model.embeddings` allocates tables from it, and the prepared folder stores it as JSON.

Shape letters used throughout the project: B batch, I dense fields, F sparse fields, D embedding width, L labels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from recnas.names import name_fault

MOST_ROWS = 1 << 31  # of a table: ids are 32-bit numbers
UNKNOWN_ID = 0  # rare in training, or never seen there
MISSING_ID = 1  # the cell was empty; trained like any other id. In a bag: no value here
FIRST_VALUE_ID = 2  # kept values follow, most frequent first
Pool = Literal["sum", "mean", "max", "attention"]


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
class Bag:
    """A field that holds several values a row: at most `length`, whose vectors are pooled into one.

    table: the field whose vocabulary and table the values use; None: they have their own.
    """

    length: int
    pool: Pool = "mean"
    table: str | None = None


@dataclass(frozen=True)
class SparseField:
    """One categorical input; `rows` is the size of its table, ids 0 and 1 included."""

    name: str
    rows: int
    edges: tuple[float, ...] = ()  # of a number that is embedded by its bucket
    bag: Bag | None = None  # None: one value a row

    @property
    def table(self) -> str:
        """The field whose table it reads."""
        return self.bag.table or self.name if self.bag else self.name

    @property
    def own_rows(self) -> int:
        """Of its own table: none if it reads another field's."""
        return self.rows if self.table == self.name else 0


@dataclass(frozen=True)
class LabelField:
    """One of several labels, and what its loss counts in the sum that is trained."""

    name: str
    weight: float = 1.0


@dataclass(frozen=True)
class Schema:
    """The inputs of every model trained on one prepared data set, and what it predicts if that is not one label.

    Bags are the last of the sparse fields.
    """

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
    def bags(self) -> tuple[SparseField, ...]:
        return tuple(field for field in self.sparse if field.bag)

    @property
    def bag_names(self) -> list[str]:
        return [field.name for field in self.bags]

    @property
    def n_single(self) -> int:
        """Sparse fields with one value a row."""
        return self.n_sparse - len(self.bags)

    @property
    def n_ids(self) -> int:
        """Ids of a row in a batch: one of every single field, then `length` of every bag."""
        return self.n_single + sum(field.bag.length for field in self.sparse if field.bag)

    def id_columns(self, field: int) -> range:
        """Where the ids of a sparse field are among those of a row."""
        start = min(field, self.n_single)
        for before in self.sparse[:field]:
            start += before.bag.length if before.bag else 0
        bag = self.sparse[field].bag
        return range(start, start + (bag.length if bag else 1))

    @property
    def table_rows(self) -> tuple[int, ...]:
        """Of every field's own table; 0 where it reads another field's."""
        return tuple(field.own_rows for field in self.sparse)

    def table_columns(self, columns: Sequence[int]) -> tuple[int, ...]:
        """Of every field's table, where each field wants so many columns: a table has those of the field that wants most."""
        most: dict[str, int] = {}
        for field, wanted in zip(self.sparse, columns):
            most[field.table] = max(wanted, most.get(field.table, 0))
        return tuple(most[field.table] for field in self.sparse)

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
        """Without `edges`, `bag` and `labels` where there are none, as schemas were before there were any."""
        whole = asdict(self)
        for field in whole["sparse"]:
            if field["bag"] is None:
                field.pop("bag")
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
            sparse=tuple(SparseField(**_with_bag(_with_edges(field))) for field in data["sparse"]),
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
        self._check_bags()
        for name, edges in [(field.name, field.edges) for field in self.dense] + [
            (f.name, f.edges) for f in self.sparse
        ]:
            if any(type(edge) not in (int, float) or not math.isfinite(edge) for edge in edges) or list(
                edges
            ) != sorted(edges):
                raise ValueError(f"{name}: its edges do not rise")

    def _check_bags(self) -> None:
        if any(field.bag for field in self.sparse[: self.n_single]):
            raise ValueError("a bag stands before a field with one value")
        by_name = {field.name: field for field in self.sparse}
        for field in self.bags:
            assert field.bag is not None
            if type(field.bag.length) is not int or field.bag.length < 1 or field.bag.pool not in get_args(Pool):
                raise ValueError(f"{field.name}: {field.bag!r} is no bag")
            owner = by_name.get(field.table)
            if owner is None or owner.table != owner.name or owner.rows != field.rows:
                raise ValueError(f"{field.name}: there is no table of {field.table} with {field.rows} rows")
            if field.bag.pool == "attention" and (owner is field or owner.bag):
                raise ValueError(f"{field.name}: attention needs the table of a field with one value")

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)


def _with_edges(field: dict[str, Any]) -> dict[str, Any]:
    return {**field, "edges": tuple(field.get("edges", ()))}


def _with_bag(field: dict[str, Any]) -> dict[str, Any]:
    return {**field, "bag": Bag(**field["bag"])} if field.get("bag") is not None else field
