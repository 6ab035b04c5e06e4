"""One server for all tests of this folder, and data to work on."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.attack.bench import Bench
from tests.attack.children import Children
from tests.attack.shim import build
from tests.attack.tally import Tally


@pytest.fixture(scope="session")
def whole_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    root = tmp_path_factory.mktemp("attack")
    (root / "work").mkdir()
    with Children(root / "children", build(root)) as children:
        yield Bench(root / "work", children, Tally(), random.Random(0))


@pytest.fixture
def bench(whole_bench: Bench) -> Bench:
    """With a tally and chance of the test's own."""
    whole_bench.tally, whole_bench.rng = Tally(), random.Random(0)
    return whole_bench


@pytest.fixture
def shim(bench: Bench) -> None:
    if bench.children.shim is None:
        pytest.skip("no C compiler: calls of the system cannot be made to fail here")
