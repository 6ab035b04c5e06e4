"""A candidate inside the supernet and the standalone network with its slices are one function."""

from __future__ import annotations

import pytest
import torch
from numpy.random import default_rng

from recnas.model import memory
from recnas.model.nasrec import forward
from recnas.model.nasrec.subnet import Subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.arch import NasrecArch
from recnas.space.nasrec.layers import NetShape


def assert_same(supernet: Supernet, arch: NasrecArch, dense: torch.Tensor, embedded: torch.Tensor) -> None:
    candidate = supernet.candidate(arch)
    subnet = _subnet(supernet, arch)
    mine, theirs = candidate(dense, embedded), subnet(dense, embedded)
    torch.testing.assert_close(mine, theirs)
    (wrt_mine,) = torch.autograd.grad(mine.sum(), embedded, retain_graph=True)
    (wrt_theirs,) = torch.autograd.grad(theirs.sum(), embedded, retain_graph=True)
    torch.testing.assert_close(wrt_mine, wrt_theirs)
    mine.sum().backward()
    theirs.sum().backward()
    whole = dict(subnet.named_parameters())
    assert {param.name for param in candidate.plan.params} == set(whole)
    for param in candidate.plan.params:
        covered = torch.zeros_like(whole[param.name], dtype=torch.bool)
        for piece in param.pieces:
            mine, theirs = candidate.leaves[piece.leaf].grad, whole[param.name].grad[piece.target]
            # Without LayerNorm values span many orders of magnitude: an entry is exact relative to the largest.
            within = 1e-9 * float(theirs.abs().max()) + 1e-12
            torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=within, msg=f"gradient of {piece.leaf}")
            covered[piece.target] = True
        # What no slice covers multiplies padding: it exists for the parameter count only.
        assert not whole[param.name].grad[~covered].any()


def _subnet(supernet: Supernet, arch: NasrecArch) -> Subnet:
    return Subnet(arch, supernet.shape).double().copy_from(supernet)


def test_forward_and_gradients(space, layernorm, make_supernet, draw, inputs):
    supernet = make_supernet(space, layernorm=layernorm)
    for arch in draw(space, 40):
        assert_same(supernet, arch, *inputs())


@pytest.mark.parametrize("n_dense", [0, 16])
def test_without_dense_fields_and_with_exactly_embedding_width(space, n_dense, make_supernet, draw, inputs):
    supernet = make_supernet(space, n_dense=n_dense)
    for arch in draw(space, 8):
        assert_same(supernet, arch, *inputs(n_dense))


def test_silu_and_one_block(make_supernet, inputs):
    space = NasrecSpace("nasrec-full", blocks=1, dense_dims=(16, 32), sparse_dims=(16,))
    supernet = make_supernet(space, activation="silu")
    rng = default_rng(0)
    for _ in range(10):
        assert_same(supernet, space.sample(rng), *inputs())


@pytest.mark.parametrize("name", ["nasrec-small", "nasrec-full"])
def test_published_widths_in_float32(name):
    space = NasrecSpace(name, blocks=3)
    supernet = Supernet(space, NetShape(13, 26), torch.Generator().manual_seed(0))
    dense, embedded = torch.randn(4, 13), torch.randn(4, 26, 16)
    rng = default_rng(5)
    for _ in range(10):
        arch = space.sample(rng)
        with torch.no_grad():
            mine = supernet(arch, dense, embedded)
            theirs = Subnet(arch, supernet.shape).copy_from(supernet)(dense, embedded)
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


def test_keep_dead_changes_parameters_not_the_function(space, make_supernet, draw, inputs):
    supernet = make_supernet(space)
    for arch in draw(space, 5):
        full = Subnet(arch, supernet.shape, keep_dead=True).double().copy_from(supernet)
        live = _subnet(supernet, arch)
        assert set(dict(live.named_parameters())) <= set(dict(full.named_parameters()))
        torch.testing.assert_close(full(*inputs()), live(*inputs()))


def test_the_memory_saving_form_of_large_paths_is_the_same_function(space, make_supernet, draw, inputs, monkeypatch):
    supernet = make_supernet(space)
    monkeypatch.setattr(forward, "LARGE", 0)  # every path counts as large
    trims = []
    monkeypatch.setattr(memory, "trim", lambda: trims.append(1))
    for arch in draw(space, 8):
        # The twin joins its rows as small networks do: one weight, several inputs.
        assert_same(supernet, arch, *inputs())
    assert trims
