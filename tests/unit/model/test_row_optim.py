"""Steps of table optimizers against torch's own, and what L2 does."""

from __future__ import annotations

import pytest
import torch

from recnas.data.schema import Schema
from recnas.errors import ConfigError
from recnas.model.embeddings import build_embeddings
from recnas.model.embeddings.row_optim import RowOptimizer, TableOptimizer
from recnas.model.embeddings.sharded import build_sharded

ROWS, WIDTH, LR = 12, 4, 0.05


def optimizer(options: TableOptimizer) -> RowOptimizer:
    return RowOptimizer(options, ROWS, WIDTH, torch.empty)


def steps(n: int, all_rows: bool = False) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Distinct rows and their gradients."""
    random = torch.Generator().manual_seed(5)
    drawn = []
    for _ in range(n):
        rows = torch.arange(ROWS) if all_rows else torch.randperm(ROWS, generator=random)[:5].sort().values
        drawn.append((rows, torch.randn(len(rows), WIDTH, generator=random)))
    return drawn


def start() -> torch.Tensor:
    return torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1))


def test_adam_without_l2_is_torch_sparse_adam() -> None:
    mine, theirs = start(), start().requires_grad_()
    step, reference = optimizer(TableOptimizer("adam")), torch.optim.SparseAdam([theirs], lr=LR)
    for rows, grad in steps(20):
        step.step(mine, rows, grad, LR)
        theirs.grad = torch.sparse_coo_tensor(rows[None], grad, (ROWS, WIDTH), check_invariants=True)
        reference.step()
    torch.testing.assert_close(mine, theirs.detach(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", ["adam", "adagrad"])
def test_dense_l2_is_a_dense_optimizer_with_the_penalty_in_the_loss(kind) -> None:
    l2, eps = 0.3, 1e-3
    mine, theirs = start(), start().requires_grad_()
    step = optimizer(TableOptimizer(kind, eps=eps, l2=l2, l2_kind="dense"))
    reference: torch.optim.Optimizer = (
        torch.optim.Adam([theirs], lr=LR) if kind == "adam" else torch.optim.Adagrad([theirs], lr=LR, eps=eps)
    )
    for rows, grad in steps(20):
        step.step(mine, rows, grad, LR)
        reference.zero_grad()
        loss = (theirs[rows] * grad).sum() + l2 / 2 * theirs.square().sum()
        loss.backward()
        reference.step()
    torch.testing.assert_close(mine, theirs.detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["adam", "adagrad", "rowwise-adagrad"])
def test_lazy_l2_is_the_dense_one_where_every_row_is_in_every_batch(kind) -> None:
    lazy, dense = start(), start()
    one = optimizer(TableOptimizer(kind, l2=0.2))
    other = optimizer(TableOptimizer(kind, l2=0.2, l2_kind="dense"))
    for rows, grad in steps(15, all_rows=True):
        one.step(lazy, rows, grad, LR)
        other.step(dense, rows, grad, LR)
    torch.testing.assert_close(lazy, dense)
    assert not torch.allclose(lazy, start())


def test_lazy_l2_makes_up_for_the_steps_a_row_was_not_in() -> None:
    """Adagrad's sum of squares shows which gradient a row was given."""
    l2 = 0.5
    table = torch.ones(ROWS, WIDTH)
    step = optimizer(TableOptimizer("adagrad", l2=l2))
    nothing = torch.zeros(1, WIDTH)
    for _ in range(3):
        step.step(table, torch.tensor([0]), nothing, lr=0.0)
    step.step(table, torch.tensor([7]), nothing, lr=0.0)
    torch.testing.assert_close(step.state["sums"][0], torch.full((WIDTH,), 3 * l2**2))
    torch.testing.assert_close(step.state["sums"][7], torch.full((WIDTH,), (4 * l2) ** 2))
    assert step.state["seen"][[0, 7, 1]].tolist() == [3, 4, 0]
    step.step(table, torch.tensor([7]), nothing, lr=0.0)
    torch.testing.assert_close(step.state["sums"][7], torch.full((WIDTH,), (4 * l2) ** 2 + l2**2))


@pytest.mark.parametrize(
    "options", [{"optimizer": "adam"}, {"l2": 0.1}, {"optimizer": "adam", "l2": 0.1, "l2_kind": "dense"}]
)
def test_both_backends_take_the_same_steps_and_exchange_their_state(options) -> None:
    schema = Schema.of_shape(0, [9, 5])
    plain, fused, resumed = (
        build_embeddings(schema, 4, backend, lr=LR, seed=2, **options) for backend in ("plain", "fused", "plain")
    )
    random = torch.Generator().manual_seed(3)

    def train(tables, n: int) -> None:
        for _ in range(n):
            ids = torch.randint(5, (6, 2), generator=random)
            lookup = tables.begin(ids)
            (lookup.leaf * torch.randn(lookup.leaf.shape, generator=random)).sum().backward()
            lookup.apply(0.5)

    train(plain, 4)
    middle = {part: {name: t.clone() for name, t in tensors.items()} for part, tensors in plain.state_dict().items()}
    at = random.get_state()
    train(plain, 3)
    random.set_state(at)
    resumed.load_state_dict(middle)
    resumed.set_steps(4)
    train(resumed, 3)
    random.manual_seed(3)
    train(fused, 7)
    assert plain.steps == fused.steps == resumed.steps == 7
    for part, tensors in plain.state_dict().items():
        for name, tensor in tensors.items():
            assert torch.equal(tensor, resumed.state_dict()[part][name])
            torch.testing.assert_close(tensor, fused.state_dict()[part][name])


def test_tables_over_several_processes_have_adagrad_only() -> None:
    with pytest.raises(ConfigError, match=r"optimizer=adam does not work .* over several processes.*\n.*adagrad"):
        build_sharded(Schema.of_shape(0, [9]), optimizer="adam")
    with pytest.raises(ConfigError, match=r"embeddings.l2=0.1"):
        build_sharded(Schema.of_shape(0, [9]), l2=0.1)


def test_lazy_and_dense_l2_have_the_same_optimum_and_take_another_way_there() -> None:
    """Rows take turns, so a row is touched every second step: half of the pulls towards its target, all of the L2."""
    l2, target = 0.25, start()
    found = []
    for kind in ("lazy", "dense"):
        table, step = start() + 1, optimizer(TableOptimizer("adagrad", l2=l2, l2_kind=kind))
        after_ten = table
        for number in range(6000):
            rows = torch.arange(number % 2, ROWS, 2)
            step.step(table, rows, table[rows] - target[rows], 0.3)
            after_ten = table.clone() if number == 9 else after_ten
        found.append((after_ten, table))
    (early_lazy, lazy), (early_dense, dense) = found
    torch.testing.assert_close(lazy, target * 0.5 / (0.5 + l2), atol=0.02, rtol=0)
    torch.testing.assert_close(lazy, dense, atol=0.02, rtol=0)
    assert (early_lazy - early_dense).abs().max() > 0.02
