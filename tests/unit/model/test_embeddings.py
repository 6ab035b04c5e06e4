"""The interface, on every backend: equality with dense tables, state, limits, reading, repeatability."""

from __future__ import annotations

import multiprocessing

import pytest
import torch
from torch import Tensor, nn

from recnas.data.schema import Schema, SparseField
from recnas.errors import ConfigError, DataError, RunError
from recnas.model.embeddings import Embeddings, TableReader, build_embeddings, sum_by_row

torch.set_num_threads(1)

ROWS = (40, 7, 300, 2)
SCHEMA = Schema(dense=(), sparse=tuple(SparseField(f"column.{i}", n) for i, n in enumerate(ROWS)))
BACKENDS = ("fused", "plain")
OPTIMIZERS = ("adagrad", "rowwise-adagrad")


def batches(count: int, size: int = 64, rows: tuple[int, ...] = ROWS) -> list[Tensor]:
    """Ids with many duplicates: 64 rows into tables of 2 to 300."""
    generator = torch.Generator().manual_seed(3)
    return [torch.stack([torch.randint(n, (size,), generator=generator) for n in rows], 1) for _ in range(count)]


def loss_of(embedded: Tensor) -> Tensor:
    """Something whose gradient differs by row, field and channel, and is not contiguous."""
    mix = torch.linspace(-1, 1, embedded.shape[2])
    rows = embedded.transpose(1, 2).contiguous()
    return ((rows * mix[:, None]).sum((1, 2)) - 0.3).pow(2).mean() + embedded.tanh().sum(2).prod(1).mean()


def train(embeddings: Embeddings, ids: list[Tensor], scale: float = 1.0) -> list[float]:
    losses = []
    for batch in ids:
        lookup = embeddings.begin(batch)
        loss = loss_of(lookup.leaf)
        loss.backward()
        lookup.apply(scale)
        losses.append(loss.item())
    return losses


class DenseTwin:
    """Whole tables with dense gradients, and the formulas written out or taken from torch."""

    def __init__(self, start: Embeddings, optimizer: str, lr: float, eps: float) -> None:
        self.tables = [nn.Parameter(table.detach().clone()) for table in start.weights.values()]
        self.sums = [torch.zeros(len(table)) for table in self.tables]
        self.rowwise, self.lr, self.eps = optimizer == "rowwise-adagrad", lr, eps
        self.adagrad = torch.optim.Adagrad(self.tables, lr=lr, eps=eps)

    def train(self, ids: list[Tensor], max_norm: float | None = None) -> list[float]:
        losses = []
        for batch in ids:
            self.adagrad.zero_grad()
            loss = loss_of(torch.stack([table[batch[:, i]] for i, table in enumerate(self.tables)], 1))
            loss.backward()
            if max_norm is not None:
                nn.utils.clip_grad_norm_(self.tables, max_norm)
            self.step_rows() if self.rowwise else self.adagrad.step()
            losses.append(loss.item())
        return losses

    def step_rows(self) -> None:
        with torch.no_grad():
            for table, total in zip(self.tables, self.sums):
                assert table.grad is not None
                total += table.grad.pow(2).mean(1)
                table -= self.lr * table.grad / (total.sqrt()[:, None] + self.eps)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_fifty_steps_equal_dense_tables(backend: str, optimizer: str) -> None:
    mine = build_embeddings(SCHEMA, 8, backend, optimizer, lr=0.12, eps=1e-2, seed=5)
    twin = DenseTwin(mine, optimizer, lr=0.12, eps=1e-2)
    ids = batches(50)
    assert train(mine, ids) == pytest.approx(twin.train(ids), abs=2e-5)
    for table, expected in zip(mine.weights.values(), twin.tables):
        torch.testing.assert_close(table, expected.detach(), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_backends_start_equal_and_stay_together(optimizer: str) -> None:
    fused, plain = (build_embeddings(SCHEMA, 8, backend, optimizer, seed=9) for backend in BACKENDS)
    for name in fused.weights:
        assert torch.equal(fused.weights[name], plain.weights[name])
        assert not fused.state["sums"][name].any()
    ids = batches(50)
    assert train(fused, ids) == pytest.approx(train(plain, ids), abs=2e-5)
    for name in fused.weights:
        torch.testing.assert_close(fused.state["sums"][name], plain.state["sums"][name], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_clipping_sees_summed_duplicates_like_dense_tables(backend: str) -> None:
    mine = build_embeddings(SCHEMA, 8, backend, seed=5)
    twin = DenseTwin(mine, "adagrad", lr=0.12, eps=1e-2)
    ids, max_norm = batches(20), 0.05
    for batch in ids:
        lookup = mine.begin(batch)
        loss_of(lookup.leaf).backward()
        lookup.apply(min(1.0, max_norm / (float(lookup.table_gradient().norm()) + 1e-6)))
    twin.train(ids, max_norm)
    for table, expected in zip(mine.weights.values(), twin.tables):
        torch.testing.assert_close(table, expected.detach(), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_touched_rows_change(backend: str) -> None:
    mine = build_embeddings(SCHEMA, 8, backend)
    before = {name: table.clone() for name, table in mine.weights.items()}
    train(mine, [torch.tensor([[3, 1, 299, 0], [3, 2, 5, 0]])])
    changed = [sorted(set((mine.weights[n] != before[n]).nonzero()[:, 0].tolist())) for n in before]
    assert changed == [[3], [1, 2], [5, 299], [0]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_backward_alone_never_trains(backend: str) -> None:
    mine = build_embeddings(SCHEMA, 8, backend)
    before = {name: table.clone() for name, table in mine.weights.items()}
    ids = batches(1)[0]
    loss_of(mine.begin(ids).leaf).backward()
    loss_of(mine(ids)).backward()
    mine.zero_grad()
    mine.step()
    values = mine.lookup(ids)
    assert not values.requires_grad
    with torch.no_grad():
        assert torch.equal(mine(ids), values)
    assert all(torch.equal(mine.weights[name], before[name]) for name in before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_lookup_is_the_rows(backend: str) -> None:
    mine = build_embeddings(SCHEMA, 8, backend)
    ids = batches(1)[0]
    expected = torch.stack([table[ids[:, i]] for i, table in enumerate(mine.weights.values())], 1)
    assert torch.equal(mine.lookup(ids), expected)
    assert torch.equal(mine.begin(ids).leaf.detach(), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_lookups_between_steps_are_one_larger_batch(backend: str) -> None:
    parts, whole = (build_embeddings(SCHEMA, 8, backend, seed=2) for _ in range(2))
    first, second = batches(2)
    weight = torch.randn(2, 64, 4, 8)
    (parts(first) * weight[0]).sum().backward()
    (parts(second) * weight[1]).sum().backward()
    parts.step(scale=0.5)
    lookup = whole.begin(torch.cat((first, second)))
    (lookup.leaf * weight.flatten(0, 1)).sum().backward()
    lookup.apply(scale=0.5)
    assert all(torch.equal(parts.weights[name], whole.weights[name]) for name in parts.weights)


@pytest.mark.parametrize("backend", BACKENDS)
def test_learning_rate_follows(backend: str) -> None:
    mine = build_embeddings(SCHEMA, 8, backend, lr=0.5)
    before = mine.weights["column.0"].clone()
    mine.set_lr(0.0)
    train(mine, batches(1))
    assert torch.equal(mine.weights["column.0"], before)
    mine.set_lr(0.1)
    train(mine, batches(1))
    assert not torch.equal(mine.weights["column.0"], before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_lookup_is_applied_once_and_only_with_a_gradient(backend: str) -> None:
    mine = build_embeddings(SCHEMA, 8, backend)
    before = mine.weights["column.2"].clone()
    lookup = mine.begin(batches(1)[0])
    lookup.apply()
    assert torch.equal(mine.weights["column.2"], before)
    with pytest.raises(RunError, match="applied before"):
        lookup.apply()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("source", "target"), [("fused", "plain"), ("plain", "fused"), ("fused", "fused")])
def test_state_moves_between_backends(source: str, target: str, optimizer: str) -> None:
    ids = batches(20)
    trained = build_embeddings(SCHEMA, 8, source, optimizer, seed=1)
    train(trained, ids[:10])
    state = {part: {n: t.clone() for n, t in tensors.items()} for part, tensors in trained.state_dict().items()}
    other = build_embeddings(SCHEMA, 8, target, optimizer, seed=2)
    other.load_state_dict(state)
    assert train(other, ids[10:]) == pytest.approx(train(trained, ids[10:]), abs=2e-5)


def test_state_that_does_not_fit_is_refused_untouched() -> None:
    mine = build_embeddings(SCHEMA, 8, "plain", seed=1)
    before = mine.weights["column.0"].clone()
    with pytest.raises(RunError, match=r"sums of column column.0 are \[40\] in the checkpoint but \[40, 8\] here"):
        mine.load_state_dict(build_embeddings(SCHEMA, 8, "plain", "rowwise-adagrad", seed=2).state_dict())
    with pytest.raises(RunError, match="absent"):
        mine.load_state_dict(build_embeddings(Schema.of_shape(0, ROWS), 8, "plain").state_dict())
    assert torch.equal(mine.weights["column.0"], before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_id_without_a_row_names_its_column(backend: str) -> None:
    mine = build_embeddings(SCHEMA, 8, backend)
    ids = torch.tensor([[0, 0, 0, 0], [0, 7, 0, 0]])
    with pytest.raises(DataError, match=r"column column\.1 has id 7 but its table has 7 rows.*(\n.*)--cap 7"):
        mine.begin(ids)
    with pytest.raises(DataError, match="id -1"):
        mine.lookup(-torch.eye(4, dtype=torch.int64))
    with pytest.raises(DataError, match="int64"):
        mine.check_ids(ids.float())
    with pytest.raises(DataError, match=r"\[B, 4\]"):
        mine.check_ids(ids[:, :3])


@pytest.mark.parametrize("backend", BACKENDS)
def test_cap_sends_rare_ids_to_unknown(backend: str) -> None:
    mine = build_embeddings(SCHEMA, 8, backend, cap=10)
    assert mine.rows == (10, 7, 10, 2)
    values = mine.lookup(torch.tensor([[9, 6, 9, 1], [10, 0, 299, 0]]))
    assert torch.equal(values[0, 2], mine.weights["column.2"][9])
    assert torch.equal(values[1, 0], mine.weights["column.0"][0])
    assert torch.equal(values[1, 2], mine.weights["column.2"][0])
    train(mine, batches(3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_hash_rows_wraps_and_keeps_reserved_rows(backend: str) -> None:
    mine = build_embeddings(SCHEMA, 8, backend, hash_rows=10)
    ids = torch.zeros(300, 4, dtype=torch.int64)
    ids[:, 2] = torch.arange(300)
    folded = mine.row_map.fold(ids)[:, 2]
    assert torch.equal(folded[:10], torch.arange(10))
    assert folded[2:].min() == 2
    assert folded.max() == 9
    assert folded[2:].bincount()[2:].float().std() < 1  # evenly filled
    train(mine, batches(3))


def test_sizes() -> None:
    mine = build_embeddings(SCHEMA, 8, "plain", "rowwise-adagrad")
    assert mine.nbytes == sum(ROWS) * (8 + 1) * 4
    assert [size.rows for size in mine.sizes()] == list(ROWS)
    assert build_embeddings(SCHEMA, 8, "fused").nbytes == sum(ROWS) * 16 * 4
    assert build_embeddings(Schema.of_shape(0, [10**9] * 26), 16, "plain", device="meta").nbytes == 26 * 10**9 * 128


@pytest.mark.parametrize("backend", BACKENDS)
def test_offload_keeps_tables_at_home(backend: str) -> None:
    ids = batches(10)
    near, far = (build_embeddings(SCHEMA, 8, backend, offload=offload) for offload in (False, True))
    assert train(near, ids) == train(far, ids)
    elsewhere = build_embeddings(SCHEMA, 8, backend, device="meta", offload=True)
    assert elsewhere.weights["column.0"].device.type == "cpu"
    assert elsewhere.begin(ids[0]).leaf.device.type == elsewhere.lookup(ids[0]).device.type == "meta"


def _read(reader: TableReader, ids: Tensor, results: multiprocessing.SimpleQueue) -> None:
    torch.set_num_threads(1)
    results.put(reader.lookup(ids).sum((1, 2)).tolist())


@pytest.mark.spawns
@pytest.mark.parametrize(("backend", "method"), [("plain", "fork"), ("fused", "fork"), ("plain", "spawn")])
def test_workers_read_shared_tables(backend: str, method: str) -> None:
    mine = build_embeddings(SCHEMA, 8, backend)
    before = {name: table.clone() for name, table in mine.weights.items()}
    mine.share_memory_()
    assert all(torch.equal(mine.weights[name], before[name]) for name in before)
    train(mine, batches(2))  # after sharing: readers must see this
    ids = batches(1)[0]
    context = torch.multiprocessing.get_context(method)
    results = context.SimpleQueue()
    workers = [context.Process(target=_read, args=(mine.reader(), ids, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    expected = mine.lookup(ids).sum((1, 2)).tolist()
    assert [results.get(), results.get()] == [pytest.approx(expected, abs=1e-5)] * 2
    for worker in workers:
        worker.join()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_repeats_bit_for_bit_with_one_and_two_threads(backend: str, optimizer: str) -> None:
    schema = Schema.of_shape(0, [1000, 50, 2000])
    ids = batches(4, size=3000, rows=schema.table_rows)

    def run(threads: int) -> dict[str, Tensor]:
        torch.set_num_threads(threads)
        try:
            mine = build_embeddings(schema, 16, backend, optimizer, seed=4)
            train(mine, ids)
        finally:
            torch.set_num_threads(1)
        return mine.state_dict()["weights"]

    first = run(1)
    for threads in (1, 2):
        assert all(torch.equal(first[name], table) for name, table in run(threads).items())


def test_initial_values_follow_the_column_not_its_place() -> None:
    whole = build_embeddings(SCHEMA, 8, "plain", seed=3)
    part = build_embeddings(Schema((), SCHEMA.sparse[2:]), 8, "plain", seed=3)
    assert torch.equal(whole.weights["column.2"], part.weights["column.2"])
    assert not torch.equal(whole.weights["column.2"], build_embeddings(SCHEMA, 8, "plain", seed=4).weights["column.2"])
    wide = build_embeddings(Schema.of_shape(0, [100_000]), 16, "plain").weights["C1"]
    assert float(wide.std()) == pytest.approx((2 / 100_016) ** 0.5, rel=0.01)
    generator = torch.Generator().manual_seed(1)
    assert build_embeddings(SCHEMA, 8, "plain", seed=generator).rows == ROWS


def test_settings_that_cannot_work_are_refused() -> None:
    for wrong in (
        {"backend": "gpu"}, {"optimizer": "sgd"}, {"backend": "fused", "width": 10}, {"cap": 1}, {"hash_rows": 2},
        {"cap": 5, "hash_rows": 5},
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            build_embeddings(SCHEMA, **wrong)  # type: ignore[arg-type]
    assert build_embeddings(SCHEMA, width=10).backend == "plain"


def test_no_sparse_columns() -> None:
    mine = build_embeddings(Schema.of_shape(3, []))
    lookup = mine.begin(torch.zeros(5, 0, dtype=torch.int64))
    lookup.leaf.sum().backward()
    lookup.apply()
    assert lookup.leaf.shape == (5, 0, 16)


def test_sum_by_row() -> None:
    rows, grad = torch.tensor([4, 1, 4, 4]), torch.arange(8.0).view(4, 2)
    touched, summed = sum_by_row(rows, grad)
    assert touched.tolist() == [1, 4]
    assert summed.tolist() == [[2, 3], [10, 13]]
