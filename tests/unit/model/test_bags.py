"""Bags in embedding tables: vectors, gradients and steps of every optimizer against a dense computation value by value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from recnas.data.schema import Bag, DenseField, Schema, SparseField
from recnas.errors import BackendMissing, ConfigError, DataError
from recnas.model.embeddings import FieldColumns, build_embeddings
from recnas.model.embeddings.fused import load_kernels

SCHEMA = Schema(
    (DenseField("x"),),
    (
        SparseField("user", 6),
        SparseField("item", 9),
        SparseField("genres", 7, bag=Bag(4, "sum")),
        SparseField("tags", 5, bag=Bag(3, "mean")),
        SparseField("last", 9, bag=Bag(5, "mean", "item")),
        SparseField("more", 7, bag=Bag(2, "mean", "genres")),
    ),
)
# What kernels cannot pool.
WITH_MAX = replace(
    SCHEMA,
    sparse=(
        *SCHEMA.sparse,
        SparseField("codes", 8, bag=Bag(4, "max")),
        SparseField("seen", 9, bag=Bag(3, "attention", "item")),
    ),
)
ROWS = 40
try:
    load_kernels()
    HAS_FUSED = True
except BackendMissing:
    HAS_FUSED = False
BACKENDS = ["plain", pytest.param("fused", marks=pytest.mark.skipif(not HAS_FUSED, reason="torchrec does not load"))]


def ids_of(schema: Schema, seed: int, rows: int = ROWS) -> torch.Tensor:
    """Rows with repeated values, empty bags and full ones."""
    rng = np.random.default_rng(seed)
    ids = np.ones((rows, schema.n_ids), dtype=np.int64)
    for number, field in enumerate(schema.sparse):
        places = schema.id_columns(number)
        if field.bag is None:
            ids[:, places.start] = rng.integers(0, field.rows, rows)
            continue
        for row in range(rows):
            count = rng.integers(0, field.bag.length + 1) if row > 1 else row * field.bag.length
            values = rng.integers(0, field.rows - 1, count)
            ids[row, places.start : places.start + count] = values + (values >= 1)  # never 1, which is no value
    return torch.from_numpy(ids)


def values_of(schema: Schema, ids: torch.Tensor, row: int, number: int) -> list[int]:
    places = schema.id_columns(number)
    values = ids[row, places.start : places.stop].tolist()
    return values if schema.sparse[number].bag is None else [value for value in values if value != 1]


def by_hand(schema: Schema, tables: dict[str, torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
    """`[B, F, D]`, one value at a time."""
    rows = []
    for row in range(len(ids)):
        fields = []
        for number, field in enumerate(schema.sparse):
            table, values = tables[field.table], values_of(schema, ids, row, number)
            vectors = [table[value] for value in values]
            if field.bag is None:
                fields.append(vectors[0])
            elif not vectors:
                fields.append(torch.zeros(table.shape[1], dtype=table.dtype))
            elif field.bag.pool == "attention":
                query = tables[field.table][values_of(schema, ids, row, 1)[0]]
                fields.append(sum(perceptron(tables[f"attention/{field.name}"], v, query) * v for v in vectors))
            elif field.bag.pool == "max":
                fields.append(torch.stack(vectors).max(0).values)
            else:
                total = torch.stack(vectors).sum(0)
                fields.append(total / len(vectors) if field.bag.pool == "mean" else total)
        rows.append(torch.stack(fields))
    return torch.stack(rows)


def perceptron(weights: torch.Tensor, value: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """What a value counts, as the paper says it and as the weights are laid out."""
    width = len(value)
    inputs = torch.cat([value, query, query - value, query * value])
    hidden = [torch.relu(inputs @ weights[: 4 * width, unit] + weights[4 * width, unit]) for unit in range(16)]
    return sum(h * weights[4 * width + 1, unit] for unit, h in enumerate(hidden)) + weights[4 * width + 2, 0]


class Dense:
    """All tables as dense float64, with an optimizer written out."""

    def __init__(self, schema, weights, kind: str, lr: float, eps: float, l2: float, l2_kind: str) -> None:
        self.schema, self.kind, self.lr, self.eps, self.l2, self.l2_kind = schema, kind, lr, eps, l2, l2_kind
        self.tables = {name: table.double().clone() for name, table in weights.items()}
        self.one = {name: torch.zeros_like(table) for name, table in self.tables.items()}
        self.two = {name: torch.zeros_like(table) for name, table in self.tables.items()}
        self.seen = {name: [0] * len(table) for name, table in self.tables.items()}
        self.steps = 0

    def step(self, ids: torch.Tensor, weight: torch.Tensor) -> dict[str, torch.Tensor]:
        leaves = {name: table.requires_grad_() for name, table in self.tables.items()}
        (by_hand(self.schema, leaves, ids) * weight.double()).sum().backward()
        self.steps += 1
        found = {}
        touched = {name: set() for name in leaves}
        for row in range(len(ids)):
            for number, field in enumerate(self.schema.sparse):
                touched[field.table] |= set(values_of(self.schema, ids, row, number))
        for name, leaf in leaves.items():
            table, grad = leaf.detach(), leaf.grad
            found[name] = grad.clone()
            l2 = 0.0 if name.startswith("attention/") else self.l2
            dense = (l2 and self.l2_kind == "dense") or name.startswith("attention/")
            for row in range(len(table)) if dense else sorted(touched[name]):
                own = grad[row].clone()
                if l2:
                    own += self.l2 * (1 if dense else self.steps - self.seen[name][row]) * table[row]
                    self.seen[name][row] = self.steps
                if self.kind == "adam":
                    self.one[name][row] = 0.9 * self.one[name][row] + 0.1 * own
                    self.two[name][row] = 0.999 * self.two[name][row] + 0.001 * own**2
                    mean = self.one[name][row] / (1 - 0.9**self.steps)
                    square = self.two[name][row] / (1 - 0.999**self.steps)
                    table[row] -= self.lr * mean / (square.sqrt() + 1e-8)
                    continue
                self.one[name][row] += own**2 if self.kind == "adagrad" else (own**2).mean()
                table[row] -= self.lr * own / (self.one[name][row].sqrt() + self.eps)
            self.tables[name] = table
        return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("kind", "l2", "l2_kind"),
    [
        ("adagrad", 0.0, "lazy"),
        ("rowwise-adagrad", 0.0, "lazy"),
        ("adam", 0.0, "lazy"),
        ("adagrad", 0.01, "lazy"),
        ("adam", 0.01, "dense"),
    ],
)
def test_steps_are_those_of_dense_tables(backend: str, kind: str, l2: float, l2_kind: str):
    schema = WITH_MAX if backend == "plain" else SCHEMA
    own = build_embeddings(schema, 8, backend, kind, lr=0.1, eps=1e-2, seed=3, l2=l2, l2_kind=l2_kind)
    assert set(own.weights) == {field.name for field in schema.sparse if field.table == field.name}
    dense = Dense(schema, own.state_dict()["weights"], kind, 0.1, 1e-2, l2, l2_kind)
    for seed in range(4):
        ids = ids_of(schema, seed)
        weight = torch.randn(ROWS, schema.n_sparse, 8, generator=torch.Generator().manual_seed(seed))
        lookup = own.begin(ids)
        expected = by_hand(schema, {name: table.detach() for name, table in dense.tables.items()}, ids)
        torch.testing.assert_close(lookup.leaf.detach().double(), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(own.lookup(ids).double(), expected, rtol=1e-4, atol=1e-5)
        (lookup.leaf * weight).sum().backward()
        grads = dense.step(ids, weight)
        norm = torch.sqrt(sum((grad**2).sum() for grad in grads.values()))
        torch.testing.assert_close(lookup.table_gradient().norm().double(), norm, rtol=1e-4, atol=1e-5)
        lookup.apply()
        for name, table in own.state_dict()["weights"].items():
            torch.testing.assert_close(table.double(), dense.tables[name].detach(), rtol=2e-4, atol=2e-5, msg=name)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_usual_loop_and_two_lookups_in_one_step(backend: str):
    schema = WITH_MAX if backend == "plain" else SCHEMA
    one, two = (build_embeddings(schema, 4, backend, seed=1) for _ in range(2))
    ids = ids_of(schema, 5)
    weight = torch.randn(ROWS, schema.n_sparse, 4)
    (one(ids) * weight).sum().backward()
    one.step()
    for half in (slice(0, 17), slice(17, None)):
        (two(ids[half]) * weight[half]).sum().backward()
    two.step()
    mine, other = one.state_dict()["weights"], two.state_dict()["weights"]
    for name, table in mine.items():
        torch.testing.assert_close(table, other[name])
    fresh = build_embeddings(schema, 4, backend, seed=2)
    fresh.load_state_dict(one.state_dict())
    assert torch.equal(fresh.lookup(ids), one.lookup(ids))


@pytest.mark.parametrize("backend", BACKENDS)
def test_tables_of_different_widths(backend: str):
    """A field keeps the leading columns of its vector; a shared table has those of the field that wants most."""
    schema = WITH_MAX if backend == "plain" else SCHEMA
    wanted = [2, 3, 0, 5, 8, 1, 4, 2][: schema.n_sparse]
    layout = FieldColumns(8, 0, tuple(wanted))
    held = dict(zip([field.name for field in schema.sparse], [2, 8, 1, 5, 8, 1, 4, 8]))
    full = build_embeddings(schema, 8, backend, seed=3)
    narrow = build_embeddings(schema, 8, backend, seed=3, layout=layout)
    mask = torch.zeros(schema.n_sparse, 8)
    for number, field in enumerate(schema.sparse):
        mask[number, : held[field.name]] = 1
    for seed in range(3):
        ids = ids_of(schema, seed)
        weight = torch.randn(ROWS, schema.n_sparse, 8, generator=torch.Generator().manual_seed(seed)) * mask
        lookups = [full.begin(ids), narrow.begin(ids)]
        torch.testing.assert_close(lookups[1].leaf.detach(), lookups[0].leaf.detach() * mask)
        torch.testing.assert_close(narrow.lookup(ids), lookups[1].leaf.detach())
        torch.testing.assert_close(narrow.reader().lookup(ids), lookups[1].leaf.detach())
        for lookup in lookups:
            (lookup.leaf * weight).sum().backward()
        torch.testing.assert_close(lookups[0].table_gradient().norm(), lookups[1].table_gradient().norm())
        for lookup in lookups:
            lookup.apply()
    for name, table in narrow.weights.items():
        torch.testing.assert_close(table[:, : held[name]], full.weights[name][:, : held[name]])


def test_rows_that_a_limit_folds_and_ids_without_a_row():
    own = build_embeddings(WITH_MAX, 4, "plain", seed=1, cap=4)
    ids = ids_of(WITH_MAX, 2)
    folded = torch.where(ids >= 4, 0, ids)
    torch.testing.assert_close(own.lookup(ids), own.lookup(folded))
    assert own.weights["item"].shape == (4, 4)
    wrong = ids.clone()
    wrong[3, -4] = 8
    with pytest.raises(DataError, match="column codes has id 8"):
        own.begin(wrong)
    with pytest.raises(DataError, match=r"int64 \[B, 23\]"):
        own.begin(ids[:, :-4])


def test_what_the_kernels_cannot_pool_is_left_to_the_plain_backend():
    assert build_embeddings(WITH_MAX, 4, "auto").backend == "plain"
    with pytest.raises(ConfigError, match="codes is pooled by max"):
        build_embeddings(WITH_MAX, 4, "fused")


def test_a_schema_knows_its_bags(tmp_path):
    assert Schema.from_dict(WITH_MAX.to_dict()) == WITH_MAX
    assert WITH_MAX.n_ids == 2 + 4 + 3 + 5 + 2 + 4 + 3
    assert list(WITH_MAX.id_columns(4)) == [9, 10, 11, 12, 13]
    assert WITH_MAX.table_rows == (6, 9, 7, 5, 0, 0, 8, 0)
    data = WITH_MAX.to_dict()
    data["sparse"][4]["rows"] = 10
    with pytest.raises(ValueError, match="no table of item with 10 rows"):
        Schema.from_dict(data)
    data = WITH_MAX.to_dict()
    data["sparse"] = data["sparse"][::-1]
    with pytest.raises(ValueError, match="before a field with one value"):
        Schema.from_dict(data)


def test_a_traced_program_pools_as_the_kernel_does():
    own = build_embeddings(WITH_MAX, 4, "plain", seed=1)
    reader = own.reader()

    class Read(torch.nn.Module):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return reader.read(reader.stacks, ids)

    program = torch.export.export(
        Read(), (ids_of(WITH_MAX, 0, 3),), dynamic_shapes=({0: torch.export.Dim("b", min=1)},)
    )
    assert not any("embedding_bag" in str(node.target) for node in program.graph.nodes)
    for rows in (1, 2, ROWS):
        ids = ids_of(WITH_MAX, rows, rows)
        torch.testing.assert_close(program.module()(ids), own.lookup(ids))


def test_attention_finds_the_value_that_goes_with_the_row():
    """A click is a row whose item is among the last ones: the mean of the last ones cannot tell, attention can."""
    schema = Schema((), (SparseField("item", 32), SparseField("last", 32, bag=Bag(4, "attention", "item"))))

    def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        rng = np.random.default_rng(seed)
        last, item = rng.integers(2, 32, (512, 4)), rng.integers(2, 32, 512)
        inside = rng.random(512) < 0.5
        item[inside] = last[inside, rng.integers(0, 4, inside.sum())]
        return torch.from_numpy(np.column_stack([item, last])), torch.from_numpy((last == item[:, None]).any(1)).float()

    def loss_of(pool: str) -> float:
        fields = (schema.sparse[0], replace(schema.sparse[1], bag=Bag(4, pool, "item")))
        own = build_embeddings(replace(schema, sparse=fields), 8, "plain", lr=0.1, seed=1)
        head = torch.nn.Parameter(torch.zeros(8))
        adam = torch.optim.Adam([head], lr=0.02)
        for step in range(400):
            ids, label = batch(step)
            lookup = own.begin(ids)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(lookup.leaf[:, 1] @ head, label)
            adam.zero_grad()
            loss.backward()
            adam.step()
            lookup.apply()
        return float(loss.detach())

    assert loss_of("mean") > 0.6
    assert loss_of("attention") < 0.45
