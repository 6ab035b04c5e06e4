"""pytest TESTFILE: what every proxy promises, and what this one means."""

import math
from pathlib import Path

from recnas.plugins import load_plugin
from recnas.proxies.base import Proxy
from recnas.proxies.engine import score
from recnas.proxies.registry import get_proxies
from recnas.testing.proxy_suite import ProxyConformance, TinyNetwork, tiny_batches

load_plugin(Path(__file__).with_name("FILE"))


class TestMine(ProxyConformance):
    batch_order_matters = True  # it reads the first batch alone

    def proxy(self) -> Proxy:
        return get_proxies(["MINE"])[0]


def test_it_is_between_the_smallest_and_the_largest_gradient() -> None:
    network = TinyNetwork(3, plain=True)
    found = score(network, tiny_batches(network), get_proxies(["MINE", "grad_norm"]))
    count = found["MINE"].terms["weights"]
    assert 0 < found["MINE"].value <= found["grad_norm"].value / count
    assert math.isfinite(found["MINE"].value)
