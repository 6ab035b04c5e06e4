"""Every listed proxy, and the test networks themselves, keep the promises of the shipped suites."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from recnas.proxies.base import Proxy
from recnas.proxies.registry import get_proxies, proxy_names
from recnas.testing.proxy_suite import ProxyConformance, ScoredNetworkConformance, TinyNetwork, tiny_batches
from tests.unit.proxies.networks import batches, make

NEVER_DEGENERATE: dict[str, Any] = {"flaws": ()}
ANY_ORDER: dict[str, Any] = {"batch_order_matters": False}
# The kernel of equal examples has rank one, and no gradient varies between equal batches.
SINGULAR: dict[str, Any] = {"flaws": ("constant logits", "equal examples")}
PROMISES: dict[str, dict[str, Any]] = {
    # The head's bias still has a gradient that varies with the labels, so SiGeo's own terms exist.
    "sigeo": {**ANY_ORDER, "flaws": ("equal examples",)},
    "zico": {**ANY_ORDER, "flaws": ("equal examples",)},
    "fisher_rao": {**ANY_ORDER, **NEVER_DEGENERATE},
    "train_loss": {**ANY_ORDER, **NEVER_DEGENERATE},
    "sigeo_released": {"flaws": ("constant logits",)},
    "sigeo_released_vision": {"flaws": ()},
    "params": {**ANY_ORDER, **NEVER_DEGENERATE, "scale_degree": 0.0},
    "flops": {**ANY_ORDER, **NEVER_DEGENERATE, "scale_degree": 0.0},
    "l2_norm": {**ANY_ORDER, **NEVER_DEGENERATE, "scale_degree": 1.0},
    # Three layers, each as strong: the logits have degree 3, their gradient degree 2.
    "synflow": {**ANY_ORDER, "scale_degree": 3.0, "flaws": ("constant logits",)},
    "zen": {**ANY_ORDER, "scale_degree": 0.0, "flaws": ("constant logits",)},
    "ntk_trace": {"scale_degree": 2.0},
    "exact_ntk_trace": {"scale_degree": 2.0},
    "eigen_nas": {"scale_degree": 4.0},
    "ntk_min_eig": {"scale_degree": 4.0, **SINGULAR},
    "exact_ntk_min_eig": {"scale_degree": 4.0, **SINGULAR},
    "ntk_cond": {"scale_degree": 0.0, **SINGULAR},
    "exact_ntk_cond": {"scale_degree": 0.0, **SINGULAR},
    "naswot": {"scale_degree": 0.0, **SINGULAR},
    "jacob_cov": {"scale_degree": 0.0, "flaws": ("constant logits", "dead relu", "equal examples")},
    "epe_nas": {"scale_degree": 0.0, "flaws": ("constant logits", "dead relu", "equal examples")},
}


@pytest.mark.parametrize("name", proxy_names())
class TestListedProxies(ProxyConformance):
    @pytest.fixture(autouse=True)
    def _choose(self, name: str) -> None:
        self._name = name
        for promise, value in PROMISES.get(name, {}).items():
            setattr(self, promise, value)

    def proxy(self) -> Proxy:
        return get_proxies([self._name])[0]


@pytest.mark.parametrize("kind", ["mlp", "clicks", "conv", "conv-free"])
class TestNetworks(ScoredNetworkConformance):
    @pytest.fixture(autouse=True)
    def _choose(self, kind: str) -> None:
        self._net = make(kind)

    def case(self):
        return self._net, batches(self._net)[0]


@pytest.mark.parametrize("classes", [None, 3])
class TestTinyNetwork(ScoredNetworkConformance):
    @pytest.fixture(autouse=True)
    def _choose(self, classes: int | None) -> None:
        self._net = TinyNetwork(classes)

    def case(self):
        return self._net, tiny_batches(self._net)[0]


def test_promises_name_real_proxies():
    assert set(PROMISES) <= set(proxy_names())


def test_the_suite_catches_a_proxy_that_misbehaves():
    """Each promise broken once."""
    from recnas.proxies.base import Score

    class Rude(Proxy):
        name = "rude"

        def score(self, stats):
            leaf = next(iter(stats.network.params.values()))
            with torch.no_grad():
                leaf.add_(1.0)
            return Score(float(leaf.detach().sum()) + float(torch.rand(())))

    class Suite(ProxyConformance):
        scale_degree = 0.0
        batch_order_matters = False

        def proxy(self):
            return Rude()

    for test in (
        "leaves_no_trace",
        "is_deterministic",
        "does_not_depend_on_the_other_proxies",
        "scale_of_the_weights",
        "order_of_batches",
        "flawed_networks_never_give_nan",
    ):
        with pytest.raises(AssertionError):
            getattr(Suite(), f"test_{test}")()
