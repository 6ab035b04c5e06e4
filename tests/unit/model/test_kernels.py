"""Hand-written derivatives against torch's own, first and second, and under torch.func."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck, gradgradcheck

from recnas.model import kernels


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=generator, dtype=torch.float64) * scale).requires_grad_()


def test_linear_over_strided_pieces():
    storage = random(6, 20).detach()
    weights = [storage[:4, 0:3].requires_grad_(), storage[:4, 8:13].requires_grad_()]
    xs, bias = [random(5, 3), random(5, 5, seed=1)], random(4, seed=2)

    def function(bias, *tensors):
        return kernels.linear(tensors[:2], tensors[2:], bias)

    expected = F.linear(torch.cat(xs, 1), torch.cat(weights, 1), bias)
    torch.testing.assert_close(function(bias, *xs, *weights), expected)
    assert gradcheck(function, (bias, *xs, *weights))
    assert gradgradcheck(function, (bias, *xs, *weights))


def test_gradient_of_a_strided_weight_is_contiguous():
    weight = torch.randn(8, 40)[:5, 10:17].requires_grad_()
    kernels.linear((torch.randn(3, 7),), (weight,), None).sum().backward()
    assert weight.grad is not None
    assert weight.grad.is_contiguous()


def test_pairwise_dots_order_and_derivatives():
    x = random(2, 3, 5)
    products = kernels.pairwise_dots(x)
    pairs = [(i, j) for i in range(5) for j in range(i)]
    torch.testing.assert_close(products, torch.stack([(x[:, :, i] * x[:, :, j]).sum(1) for i, j in pairs], 1))
    # Products of the leading rows are the leading columns: what lets one weight serve every width.
    torch.testing.assert_close(kernels.pairwise_dots(x[:, :, :3]), products[:, :3])
    assert gradcheck(kernels.pairwise_dots, (x,))
    assert gradgradcheck(kernels.pairwise_dots, (x,))


@pytest.mark.parametrize("scale", [1.0, 30.0], ids=["small-scores", "large-scores"])
def test_attention(scale, monkeypatch):
    monkeypatch.setattr(kernels, "_SCORES_AT_A_TIME", 2 * 5 * 5)  # several steps, the last one short
    qkv = random(48, 3, 5, scale=scale)
    assert (kernels._largest_score(qkv, 8) < kernels._SAFE_SCORE) == (scale == 1.0)
    mine, plain = kernels.attention(qkv, 8), kernels.plain_attention(qkv, 8)
    torch.testing.assert_close(mine, plain)
    weights = torch.randn_like(mine)
    (a,) = torch.autograd.grad((mine * weights).sum(), qkv, create_graph=True)
    (b,) = torch.autograd.grad((plain * weights).sum(), qkv, create_graph=True)
    torch.testing.assert_close(a, b)
    (a,) = torch.autograd.grad(a.square().sum(), qkv)
    (b,) = torch.autograd.grad(b.square().sum(), qkv)
    torch.testing.assert_close(a, b)
    first = [torch.autograd.grad(f(qkv, 8).pow(2).sum(), qkv)[0] for f in (kernels.attention, kernels.plain_attention)]
    torch.testing.assert_close(*first)


def test_the_bound_on_scores_holds():
    for seed in range(5):
        qkv = random(48, 4, 6, seed=seed, scale=3.0).detach()
        query, key, _ = qkv.view(3, 8, 2, 4, 6).unbind(0)
        scores = torch.einsum("hebi,hebj->hbij", query, key) * kernels._scale(2)
        assert scores.abs().max() <= kernels._largest_score(qkv, 8)


def test_column_norm():
    x, gain, bias = random(4, 3, 5), random(4, seed=1), random(4, seed=2)
    expected = F.layer_norm(x.permute(1, 2, 0), (4,), gain, bias).permute(2, 0, 1)
    torch.testing.assert_close(kernels.column_norm(x, gain, bias), expected)
    assert gradcheck(kernels.column_norm, (x, gain, bias))
    assert gradgradcheck(kernels.column_norm, (x, gain, bias))


def test_per_example_gradients_of_a_whole_candidate(space, make_supernet, draw, inputs):
    supernet = make_supernet(space)
    dense, embedded = inputs()
    embedded = embedded.detach()
    for arch in draw(space, 3):
        candidate = supernet.candidate(arch)

        def one(params, x, e, candidate=candidate):
            return candidate.forward(params, x[None], e[None])[0]

        params = {name: leaf.detach() for name, leaf in candidate.leaves.items()}
        per_example = torch.func.vmap(torch.func.grad(one), (None, 0, 0))(params, dense, embedded)
        candidate(dense, embedded).sum().backward()
        for name, leaf in candidate.leaves.items():
            torch.testing.assert_close(per_example[name].sum(0), leaf.grad, msg=name)
