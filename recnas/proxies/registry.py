"""Proxies by name.

    get_proxies(["sigeo", "naswot", "params"], lambdas=Lambdas.for_case("ctr", warmed=True))

Options go to every asked proxy that takes one of that name. To add a proxy, write its class and list it here;
one outside the package calls `register` (see docs/plugins.md).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from recnas.errors import ConfigError
from recnas.plugins import Parts
from recnas.proxies import (
    grasp,
    hnas,
    jacobian,
    naswot,
    ntk,
    saliency,
    sigeo,
    sigeo_released,
    size,
    synflow,
    zen,
)
from recnas.proxies.base import Proxy
from recnas.space.base import nearest_name

_LISTED: tuple[type[Proxy], ...] = (
    sigeo.SiGeo,
    sigeo_released.SiGeoReleased,
    sigeo_released.SiGeoReleasedVision,
    sigeo.ZiCo,
    sigeo.FisherRao,
    sigeo.TrainingLoss,
    saliency.GradNorm,
    saliency.GradNormTotal,
    ntk.GradNormSamples,
    saliency.Snip,
    saliency.Plain,
    saliency.L2Norm,
    saliency.Fisher,
    saliency.NasiTrace,
    saliency.Knas,
    grasp.Grasp,
    ntk.NtkTrace,
    ntk.NtkCond,
    ntk.NtkMinEig,
    ntk.ExactNtkTrace,
    ntk.ExactNtkCond,
    ntk.ExactNtkMinEig,
    ntk.EigenNas,
    synflow.SynFlow,
    naswot.Naswot,
    jacobian.JacobCov,
    jacobian.EpeNas,
    zen.Zen,
    size.Params,
    size.Flops,
)

_MAKERS: dict[str, Callable[..., Proxy]] = {
    **{kind.name: kind for kind in _LISTED},
    **{f"hnas_{metric}": partial(hnas.HnasGuarantee, metric) for metric in hnas.METRICS},
}
_PLUGGED: Parts[Callable[..., Proxy]] = Parts("proxy", lambda: _MAKERS)


def register(proxy: type[Proxy]) -> type[Proxy]:
    """Offer a proxy of a plugin under its `name`; stands above the class, as a decorator."""
    if not (inspect.isclass(proxy) and issubclass(proxy, Proxy)):
        raise ConfigError(f"{proxy!r} is no class derived from recnas.proxies.base.Proxy.")
    _PLUGGED.register(proxy.name, proxy)
    return proxy


def proxy_names() -> list[str]:
    """Every name `get_proxies` knows."""
    return [*_MAKERS, *_PLUGGED.every()]


def _maker(name: str) -> Callable[..., Proxy] | None:
    return _MAKERS.get(name) or _PLUGGED.find(name)


def meanings() -> dict[str, str]:
    """What each proxy is, in a line: the first one its class is described by."""
    found = {}
    for name, (proxy,) in ((name, get_proxies([name])) for name in proxy_names()):
        line = (inspect.getdoc(type(proxy)) or "").partition("\n")[0]
        found[name] = f"{line} M is {name.removeprefix('hnas_')}." if name.startswith("hnas_") else line
    return found


def get_proxies(names: Sequence[str], **options: Any) -> list[Proxy]:
    """The proxies of these names, in order.

    Args:
        names: from `proxy_names()`; each at most once.
        options: given to those of them that take one of the name: `lambdas` (sigeo, sigeo_released),
            `last_layer_only` and `steps` (sigeo_released), `mu`, `nu`, `power`, `kappa` (hnas_...).
            An option none of the asked proxies takes is ignored; one no proxy takes is an error.

    Raises:
        ConfigError: naming every unknown name, repeated name and unknown option at once.
    """
    makers = {name: maker for name in names if (maker := _maker(name)) is not None}
    faults = [
        f"no proxy is called {name!r}: {nearest_name(name, proxy_names())}." for name in names if name not in makers
    ]
    faults += [f"{name!r} is asked for more than once." for name in dict.fromkeys(names) if names.count(name) > 1]
    known = sorted({option for maker in (*_MAKERS.values(), *makers.values()) for option in _options(maker)})
    faults += [f"no proxy takes an option {o!r}: {nearest_name(o, known)}." for o in options if o not in known]
    if not names:
        faults.append("no proxy is asked for.")
    if faults:
        raise ConfigError(
            "\n".join(faults), "Correct score.proxies (or --proxies); one of a plugin needs --plugin FILE."
        )
    return [makers[name](**{o: options[o] for o in _options(makers[name]) if o in options}) for name in names]


def _options(maker: Callable[..., Proxy]) -> Mapping[str, inspect.Parameter]:
    if inspect.isclass(maker) and maker.__init__ is object.__init__:
        return {}
    return inspect.signature(maker).parameters
