"""NASRec networks report their layers truly, and listening does not change what they compute."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from recnas.model import observe
from recnas.model.nasrec.scorable import ScoredNasrec
from recnas.model.nasrec.subnet import Subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.layers import NetShape

SHAPE = NetShape(n_dense=4, n_sparse=5, width=16)


def networks(name: str, n: int):
    space = NasrecSpace(name, blocks=4)
    supernet = Supernet(space, SHAPE, torch.Generator().manual_seed(1)).double()
    rng = np.random.default_rng(3)
    for _ in range(n):
        arch = space.sample(rng)
        yield ScoredNasrec.of(supernet.candidate(arch))
        yield ScoredNasrec.of(Subnet(arch, SHAPE, torch.Generator().manual_seed(2)).double())


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    return torch.randn(6, 4, generator=generator).double(), torch.randn(6, 5, 16, generator=generator).double()


@pytest.mark.parametrize("name", ["nasrec-small", "nasrec-full"])
def test_listening_changes_nothing_and_every_matrix_is_reported_once(name: str):
    for network in networks(name, 12):
        quiet = network.forward(network.params, inputs())
        with observe.listen(observe.Observed()) as observed:
            heard = network.forward(network.params, inputs())
        torch.testing.assert_close(heard, quiet)
        by_identity = {id(tensor): leaf for leaf, tensor in network.params.items()}
        reported = [by_identity[id(use.weight)] for use in observed.layers]
        assert sorted(reported) == sorted(leaf for leaf, tensor in network.params.items() if tensor.dim() > 1)
        assert observed.features is not None
        assert observed.features.shape[0] == 6


@pytest.mark.parametrize("name", ["nasrec-small", "nasrec-full"])
def test_outputs_are_sums_of_reported_products(name: str):
    for network in networks(name, 6):
        with observe.listen(observe.Observed()) as observed:
            logits = network.forward(network.params, inputs())
        outputs = {id(use.output): use.output for use in observed.layers}
        gradients = dict(zip(outputs, torch.autograd.grad(logits.sum(), list(outputs.values()), retain_graph=True)))
        truth = torch.autograd.grad(logits.sum(), [use.weight for use in observed.layers])
        for use, true in zip(observed.layers, truth):
            moved = F.linear(use.input.movedim(use.axis, -1), use.weight)
            assert moved.movedim(-1, use.axis).shape == use.output.shape
            d = gradients[id(use.output)].movedim(use.axis, -1).flatten(0, -2)
            torch.testing.assert_close(d.t() @ use.input.movedim(use.axis, -1).flatten(0, -2), true)
            assert use.output.shape[use.batch_axis] == 6


def test_without_norms_a_positive_network_grows_with_its_inputs():
    network = next(networks("nasrec-small", 1))
    params = {name: tensor.detach().abs() for name, tensor in network.params.items()}
    ones = tuple(torch.ones_like(x) for x in inputs())
    with observe.without_norms():
        once = network.forward(params, ones)
        twice = network.forward(params, tuple(2 * x for x in ones))
    assert (twice > once).all()
    assert not torch.allclose(network.forward(params, ones), once)
