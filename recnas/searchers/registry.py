"""Searchers by name. To add one: write its file with its settings, add it to `_LISTED`; one outside calls `register`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import Field, SerializeAsAny, TypeAdapter, ValidatorFunctionWrapHandler, WrapValidator

from recnas.config import Settings, check_settings
from recnas.errors import ConfigError
from recnas.plugins import Parts
from recnas.searchers.base import Searcher
from recnas.searchers.bohb import Bohb
from recnas.searchers.evolution import Evolution
from recnas.searchers.gradient.settings import GRADIENT_METHODS
from recnas.searchers.hnas import Hnas
from recnas.searchers.limits import Gate
from recnas.searchers.local import LocalSearch
from recnas.searchers.objective import Objectives
from recnas.searchers.optuna_sampler import OptunaSampler
from recnas.searchers.pool import PoolScores
from recnas.searchers.random_search import RandomSearch
from recnas.searchers.rank_pool import RankPool
from recnas.searchers.reinforce import Reinforce
from recnas.searchers.settings import SearcherSettings
from recnas.space.base import Space, nearest_name

_LISTED: tuple[type[Searcher[Any]], ...] = (
    Evolution,
    RandomSearch,
    LocalSearch,
    Hnas,
    RankPool,
    Reinforce,
    Bohb,
    OptunaSampler,
)
_SEARCHERS: dict[str, type[Searcher[Any]]] = {cls.name: cls for cls in _LISTED}
_PLUGGED: Parts[type[Searcher[Any]]] = Parts("search method", lambda: [*_SEARCHERS, *GRADIENT_METHODS])


def register(searcher: type[Searcher[Any]]) -> type[Searcher[Any]]:
    """Offer a searcher of a plugin under its `name`; stands above the class, as a decorator."""
    if not (inspect.isclass(searcher) and issubclass(searcher, Searcher)):
        raise ConfigError(f"{searcher!r} is no class derived from recnas.searchers.base.Searcher.")
    settings = getattr(searcher, "settings_class", None)
    if not (inspect.isclass(settings) and issubclass(settings, SearcherSettings)) or _method(settings) != searcher.name:
        raise ConfigError(
            f"The searcher {searcher.name!r} needs a settings_class whose `method` says the same.",
            f'class MySettings(SearcherSettings): method: Literal["{searcher.name}"] = "{searcher.name}"',
        )
    _PLUGGED.register(searcher.name, searcher)
    return searcher


def _method(settings: type[SearcherSettings]) -> Any:
    return settings.model_fields["method"].default


def _any_of(searchers: Iterable[type[Searcher[Any]]]) -> Any:
    """The settings of any of these, told apart by `method`."""
    return Annotated[Union[tuple(cls.settings_class for cls in searchers)], Field(discriminator="method")]  # noqa: UP007


def _of_a_plugin(value: Any, own: ValidatorFunctionWrapHandler) -> Any:
    """A method that recnas does not have is looked for in plugins, and then checked like all others."""
    method = value.get("method") if isinstance(value, Mapping) else getattr(value, "method", None)
    if not isinstance(method, str) or _PLUGGED.find(method) is None:
        return own(value)
    return TypeAdapter(_any_of([*_LISTED, *_PLUGGED.known().values()])).validate_python(value)


# The settings of any searcher, told apart by `method`: what the section `search` of a config may hold.
if TYPE_CHECKING:
    AnySearcher = SearcherSettings
else:
    AnySearcher = SerializeAsAny[Annotated[_any_of(_LISTED), WrapValidator(_of_a_plugin)]]


def searcher_names() -> tuple[str, ...]:
    """Every name `get_searcher` offers."""
    return (*_SEARCHERS, *_PLUGGED.every())


def method_names() -> list[str]:
    """Every name that is taken: those of `get_searcher`, and the searches along gradients."""
    return [*searcher_names(), *GRADIENT_METHODS]


def searcher_settings(name: str, settings: Mapping[str, Any] | None = None) -> Settings:
    """The settings of the searcher called `name`, checked; missing ones take their defaults."""
    return check_settings(_find(name).settings_class, dict(settings or {}), source=f"searcher {name}")


def get_searcher(
    name: str,
    space: Space[Any],
    objectives: Objectives,
    seed: int,
    settings: Settings | Mapping[str, Any] | None = None,
    gate: Gate[Any] | None = None,
    pool_scores: PoolScores | None = None,
) -> Searcher[Any]:
    """The searcher called `name`, ready to ask; see `recnas.searchers.base`.

    `pool_scores` goes to those that rank a pool before they propose (`hnas`, `rank-pool`); the others need none.
    """
    cls = _find(name)
    if not isinstance(settings, Settings):
        settings = searcher_settings(name, settings)
    if not isinstance(settings, cls.settings_class):
        raise ConfigError(
            f"searcher {name!r} was given {type(settings).__name__}", f"give it {cls.settings_class.__name__}"
        )
    return cls(space, objectives, seed, settings, gate, pool_scores)


def _find(name: str) -> type[Searcher[Any]]:
    cls = _SEARCHERS.get(name) or _PLUGGED.find(name)
    if cls is None:
        raise ConfigError(f"unknown searcher {name!r}", nearest_name(name, searcher_names()))
    return cls
