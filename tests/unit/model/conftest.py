"""One thread and small spaces: the model tests check numbers, not speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from numpy.random import default_rng

from recnas.model.nasrec.supernet import Supernet
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.arch import NasrecArch
from recnas.space.nasrec.layers import NetShape

SPACES = ("nasrec-small", "nasrec-full")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=SPACES)
def space(request: pytest.FixtureRequest) -> NasrecSpace:
    """Narrow, but with every width at which a Linear is left out (16 and 128)."""
    return NasrecSpace(request.param, blocks=4, dense_dims=(16, 32, 128, 256), sparse_dims=(8, 16, 24))


@pytest.fixture(params=[True, False], ids=["layernorm", "no-layernorm"])
def layernorm(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def make_supernet() -> Callable[..., Supernet]:
    """A float64 supernet whose gains and biases are not all 1 and 0, so that a mixed-up one shows."""

    def make(space: NasrecSpace, **options: object) -> Supernet:
        shape = NetShape(**{"n_dense": 5, "n_sparse": 7, **options})  # type: ignore[arg-type]
        generator = torch.Generator().manual_seed(1)
        supernet = Supernet(space, shape, generator).double()
        for name, storage in supernet.storages.items():
            if name.endswith("bias") or ".norm." in name:
                storage.add_(torch.rand(storage.shape, generator=generator) * 0.2)
        return supernet

    return make


@pytest.fixture
def draw() -> Callable[[NasrecSpace, int], list[NasrecArch]]:
    """Candidates, paths with several operators and connections, and the full path."""

    def sample(space: NasrecSpace, n: int) -> list[NasrecArch]:
        rng = default_rng(3)
        candidates = [space.sample(rng) for _ in range(n)]
        return [*candidates, *(space.sample_path(rng, "any-path") for _ in range(n // 4)), space.full_path()]

    return sample


@pytest.fixture
def inputs() -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """Small values: without LayerNorm, products of products grow fast."""

    def make(n_dense: int = 5, n_sparse: int = 7, batch: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(2)
        dense = torch.randn(batch, n_dense, generator=generator, dtype=torch.float64) * 0.1
        embedded = torch.randn(batch, n_sparse, 16, generator=generator, dtype=torch.float64) * 0.1
        return dense, embedded.requires_grad_()

    return make
