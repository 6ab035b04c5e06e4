"""Leaf views, saving, refusing what does not fit."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from numpy.random import default_rng

from recnas.errors import SpaceError
from recnas.model.nasrec.init import RESIDUAL_GAIN
from recnas.model.nasrec.subnet import Subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.layers import NetShape
from recnas.space.nasrec.plan import build_plan


def small(name: str = "nasrec-full", blocks: int = 3) -> NasrecSpace:
    return NasrecSpace(name, blocks=blocks, dense_dims=(16, 32), sparse_dims=(8, 16))


def build(space: NasrecSpace, seed: int = 0, **options) -> Supernet:
    return Supernet(space, NetShape(**{"n_dense": 5, "n_sparse": 7, **options}), torch.Generator().manual_seed(seed))


def test_leaves_share_memory_and_never_overlap(space, make_supernet, draw):
    supernet = make_supernet(space)
    for arch in draw(space, 10):
        storages = supernet.storages
        before = {name: storage.clone() for name, storage in storages.items()}
        used = {name: torch.zeros_like(storage) for name, storage in storages.items()}
        for leaf in supernet.leaves(arch).values():
            assert leaf.is_leaf
            leaf.detach().add_(1.0)
        for name, region in supernet.plan(arch).regions.values():
            used[name][region] += 1.0
        for name, storage in storages.items():
            assert used[name].max() <= 1, f"two leaves of {name} overlap"
            torch.testing.assert_close(storage, before[name] + used[name])


def test_gradients_stay_in_their_slices():
    space = small()
    supernet = build(space)
    candidate = supernet.candidate(space.sample(default_rng(0)))
    candidate(torch.randn(4, 5), torch.randn(4, 7, 16)).sum().backward()
    assert all(storage.grad is None for storage in supernet.storages.values())
    for leaf in candidate.leaves.values():
        assert leaf.grad is not None
        assert leaf.grad.untyped_storage().nbytes() == leaf.numel() * leaf.element_size()


def test_parts_that_are_not_live_are_not_listed():
    space = small()
    supernet = build(space)
    rng = default_rng(1)
    for _ in range(30):
        candidate = supernet.candidate(space.sample(rng))
        candidate(torch.rand(3, 5), torch.rand(3, 7, 16)).sum().backward()
        unused = [name for name, leaf in candidate.leaves.items() if leaf.grad is None]
        assert not unused


def test_leaf_names_are_paths_that_name_their_slot():
    arch = small().full_path()
    names = build_plan(arch, NetShape(5, 7, dense_max=32, sparse_max=16), sliced=True).regions
    assert names["blocks.3.fc.weight.2"] == ("blocks.3.fc.weight", (slice(0, 32), slice(5 + 32, 5 + 64)))
    assert names["blocks.3.efc.weight.1.merge"] == (
        "blocks.3.efc.weight",
        (slice(0, 16), slice(7 + 16, 7 + 24)),
    )
    assert "blocks.3.gate.square.weight.0.2" in names  # rows gate input 0, columns read input 2


def test_same_seed_same_bits():
    space = small()
    arch = space.sample(default_rng(2))
    dense, embedded = torch.rand(6, 5), torch.rand(6, 7, 16)
    results = []
    for _ in range(2):
        candidate = build(space, seed=4).candidate(arch)
        logits = candidate(dense, embedded)
        logits.sum().backward()
        results.append((logits.detach(), {name: leaf.grad for name, leaf in candidate.leaves.items()}))
    assert torch.equal(results[0][0], results[1][0])
    assert all(torch.equal(grad, results[1][1][name]) for name, grad in results[0][1].items())


def test_initial_values():
    supernet = build(small())
    for name, storage in supernet.storages.items():
        if name.endswith(".norm.weight"):
            residual = ".attention.out." in name or ".ffn.out." in name
            assert (storage == (RESIDUAL_GAIN if residual else 1.0)).all()
        elif name.endswith("bias"):
            assert not storage.any()
        else:
            bound = (6 / sum(storage.shape)) ** 0.5
            assert 0.7 * bound < storage.abs().max() <= bound


def test_state_dict_round_trip_through_a_file():
    space, file = small(), io.BytesIO()
    torch.save(build(space, seed=1).state_dict(), file)
    file.seek(0)
    other = build(space, seed=2)
    other.load_state_dict(torch.load(file, weights_only=True))
    for name, storage in build(space, seed=1).storages.items():
        assert torch.equal(storage, other.storages[name])


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (lambda: build(small("nasrec-small")), "space"),
        (lambda: build(small(blocks=2)), "blocks"),
        (lambda: build(small(), layernorm=False), "layernorm"),
        (lambda: build(small(), n_sparse=8), "n_sparse"),
    ],
)
def test_a_checkpoint_of_another_supernet_is_refused(other, differs):
    mine = build(small())
    before = copy.deepcopy(mine.storages)
    with pytest.raises(SpaceError, match=f"(?s)different: {differs}.*checkpoint: .*this run: ") as error:
        mine.load_state_dict(other().state_dict())
    assert "space=nasrec-full, blocks=3" in str(error.value)
    assert all(torch.equal(before[name], storage) for name, storage in mine.storages.items())


def test_an_architecture_of_another_space_is_refused():
    with pytest.raises(SpaceError, match="does not fit the supernet"):
        build(small()).leaves(small("nasrec-small").sample(default_rng(0)))


def test_moving_and_sharing_memory_keep_leaves_connected():
    space = small()
    supernet = build(space).to(torch.float64).share_memory()
    assert all(storage.is_shared() for storage in supernet.storages.values())
    leaves = supernet.leaves(space.full_path())
    name, leaf = next(iter(leaves.items()))
    assert leaf.dtype == torch.float64
    leaf.detach().fill_(3.0)
    storage, region = supernet.plan(space.full_path()).regions[name]
    assert (supernet.storages[storage][region] == 3.0).all()


def test_a_transformer_needs_a_width_of_whole_heads():
    with pytest.raises(SpaceError, match="8 heads"):
        build(small(), width=12)


def test_subnet_functional_and_deepcopy_agree():
    arch = small().sample(default_rng(3))
    subnet = Subnet(arch, NetShape(5, 7), torch.Generator().manual_seed(0))
    dense, embedded = torch.rand(2, 5), torch.rand(2, 7, 16)
    twin = copy.deepcopy(subnet)
    assert torch.equal(subnet(dense, embedded), twin(dense, embedded))
    assert torch.equal(subnet(dense, embedded), subnet.functional(dict(twin.named_parameters()), dense, embedded))
