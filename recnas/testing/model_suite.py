"""Tests every hand-crafted model should pass; inherit them in your own test file.

    class TestMyModel(ModelConformance):
        name = "my-model"

The model is built by its registered name, with its defaults, for a few shapes of data.
"""

from __future__ import annotations

import copy
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from recnas.baselines.base import Baseline, InputShape
from recnas.baselines.counts import count_macs, count_params
from recnas.baselines.zoo import build, fits, get_entry


class ModelConformance:
    """Override `name`; override `shapes` where the model cannot be built for all of them."""

    name: ClassVar[str]
    shapes: ClassVar[tuple[InputShape, ...]] = (InputShape(3, 5, 8), InputShape(0, 4, 8))
    rows = 6

    def made(self, shape: InputShape, seed: int = 0) -> Baseline:
        return build(self.name, shape, seed=seed).double()

    def given(self, model: Baseline, shape: InputShape, seed: int = 0) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        width = model.table_width(shape.width)
        dense = torch.randn(self.rows, shape.n_dense, generator=generator, dtype=torch.float64)
        return dense, torch.randn(self.rows, shape.n_sparse, width, generator=generator, dtype=torch.float64)

    def test_gives_one_finite_logit_per_row(self) -> None:
        for shape in self.shapes:
            model = self.made(shape).eval()
            logits = model(*self.given(model, shape))
            assert logits.shape == (self.rows,), f"logits have the shape {tuple(logits.shape)}, not [B]"
            assert logits.isfinite().all()

    def test_rows_do_not_see_each_other(self) -> None:
        for shape in self.shapes:
            model = self.made(shape).eval()
            dense, embedded = self.given(model, shape)
            alone = torch.cat([model(dense[i : i + 1], embedded[i : i + 1]) for i in range(self.rows)])
            torch.testing.assert_close(model(dense, embedded), alone)

    def test_the_seed_decides_the_weights(self) -> None:
        shape = self.shapes[0]
        random = torch.get_rng_state()
        first, same, other = self.made(shape, 1), self.made(shape, 1), self.made(shape, 2)
        assert torch.equal(torch.get_rng_state(), random), "the global random state was changed"
        pairs = list(zip(first.state_dict().values(), same.state_dict().values()))
        assert all(torch.equal(a, b) for a, b in pairs)
        assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters()))

    def test_every_parameter_and_every_input_matters(self) -> None:
        shape = self.shapes[0]
        model = self.made(shape)
        dense, embedded = (one.requires_grad_() for one in self.given(model, shape))
        model.begin_step(0)
        model(dense, embedded).square().sum().backward()
        idle = [name for name, leaf in model.named_parameters() if leaf.grad is None or not leaf.grad.any()]
        assert not idle, f"no gradient reaches {', '.join(idle)}"
        for what, inputs in (("dense column", dense), ("categorical column", embedded)):
            assert inputs.grad is not None, f"no {what} is read"
            used = inputs.grad.abs().sum(0).reshape(inputs.shape[1], -1).sum(1) > 0
            assert bool(used.all()), f"{what} {int((~used).nonzero()[0])} is not read"

    def test_the_output_bias_is_added_to_every_logit(self) -> None:
        shape = self.shapes[0]
        model = self.made(shape).eval()
        assert any(leaf is model.output_bias for leaf in model.parameters())
        given = self.given(model, shape)
        before = model(*given)
        with torch.no_grad():
            model.output_bias.add_(0.75)
        torch.testing.assert_close(model(*given), before + 0.75)

    def test_dropout_depends_on_seed_and_step_alone(self) -> None:
        shape = self.shapes[0]
        if "dropout" not in get_entry(self.name).settings.model_fields:
            pytest.skip("the model has no dropout")
        model = build(self.name, shape, {"dropout": 0.5}, seed=3).double().train()
        given = self.given(model, shape)
        model.begin_step(5)
        first = model(*given)
        model.begin_step(6)
        other = model(*given)
        model.begin_step(5)
        assert torch.equal(model(*given), first)
        assert not torch.equal(other, first), "dropout 0.5 changes nothing: use the layers of recnas.baselines.layers"

    def test_can_be_copied_saved_and_counted(self) -> None:
        shape = self.shapes[0]
        model = self.made(shape).eval()
        other = self.made(shape, 9).eval()
        other.load_state_dict(model.state_dict())
        given = self.given(model, shape)
        assert torch.equal(other(*given), model(*given))
        assert torch.equal(copy.deepcopy(model)(*given), model(*given))
        assert count_params(model) == sum(leaf.numel() for leaf in model.parameters())
        assert count_macs(self.made(shape).float(), shape) >= 0

    def test_its_grid_is_of_its_own_settings(self) -> None:
        entry = get_entry(self.name)
        assert fits(self.name, self.shapes[0].n_sparse)
        for option, values in entry.grid.items():
            for value in values:
                assert getattr(entry.settings.model_validate({option: value}), option) == value
