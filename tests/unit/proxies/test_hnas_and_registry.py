"""The composable guarantee, and names."""

from __future__ import annotations

import pytest

from recnas.errors import ConfigError
from recnas.proxies.engine import score
from recnas.proxies.hnas import METRICS, HnasGuarantee
from recnas.proxies.ntk import ExactNtkCond
from recnas.proxies.registry import get_proxies, proxy_names
from recnas.proxies.saliency import Snip
from recnas.proxies.sigeo import Lambdas
from tests.unit.proxies.networks import Conv, batches, make


@pytest.mark.parametrize("metric", list(METRICS))
def test_guarantee_of_every_metric(metric: str):
    net = make("clicks")
    found = batches(net)
    parts = score(net, found, get_proxies([metric, "ntk_cond"]))
    m = parts[metric].terms.get("root", parts[metric].value)
    kappa = parts["ntk_cond"].value
    name = f"hnas_{metric}"
    result = score(net, found, get_proxies([name], mu=0.25, nu=2.0))[name]
    assert result.value == pytest.approx(kappa / m + 0.25 * (m * m - 2) ** 2)
    assert result.terms == pytest.approx({"metric": m, "kappa": kappa, "trade_off": 0.25 * (m * m - 2) ** 2})


def test_other_forms():
    net = make("mlp")
    found = batches(net)
    parts = score(net, found, get_proxies(["snip", "exact_ntk_cond"]))
    m, kappa = parts["snip"].value, parts["exact_ntk_cond"].value

    def value(**options) -> float:
        return score(net, found, [HnasGuarantee("snip", **options)])["hnas_snip"].value

    assert value(kappa=None) == pytest.approx(1 / m)
    assert value(kappa=None, mu=2.0, nu=9.0) == pytest.approx(1 / m + 2 * (m * m - 9) ** 2)
    assert value(mu=2.0, nu=9.0, power=0.5, kappa=ExactNtkCond()) == pytest.approx(kappa / m + 2 * abs(m * m - 9))
    own = HnasGuarantee(Snip())
    assert own.name == "hnas_snip"
    assert not own.higher_is_better


def test_guarantee_of_a_dead_network_says_which_part():
    net = Conv(alive=False)
    result = score(net, batches(net), get_proxies(["hnas_ntk_trace"]))["hnas_ntk_trace"]
    assert result.value == 1e30
    assert result.reason is not None
    assert result.reason.startswith("ntk_trace: ")


def test_bad_settings_are_refused():
    with pytest.raises(ConfigError, match="ntk_trace"):
        HnasGuarantee("ntk_trce")
    with pytest.raises(ConfigError, match="mu"):
        HnasGuarantee(mu=-1.0)


def test_names_and_order():
    names = proxy_names()
    assert len(names) == len(set(names)) >= 30
    assert [proxy.name for proxy in get_proxies(names)] == names
    assert all(proxy.__doc__ for proxy in get_proxies(names))


def test_options_reach_those_that_take_them():
    sigeo, params, hnas = get_proxies(["sigeo", "params", "hnas_snip"], lambdas=Lambdas(1, 2, 3), mu=0.5)
    assert sigeo.lambdas == Lambdas(1, 2, 3)
    assert hnas.mu == 0.5
    assert params.name == "params"
    get_proxies(["params"], lambdas=Lambdas())  # not an error: another proxy takes it


def test_every_mistake_is_listed_at_once():
    with pytest.raises(ConfigError) as caught:
        get_proxies(["sigoe", "params", "params", "naswott"], lamdas=1)
    message = str(caught.value)
    for part in (
        "'sigoe'",
        "'sigeo'",
        "'naswott'",
        "'naswot'",
        "'params' is asked for more than once",
        "'lamdas'",
        "'lambdas'",
    ):
        assert part in message
    with pytest.raises(ConfigError, match="no proxy is asked for"):
        get_proxies([])
