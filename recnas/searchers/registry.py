"""Searchers by name. To add one: write its file with its settings, add it to `_LISTED`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import Field

from recnas.config import Settings, check_settings
from recnas.errors import ConfigError
from recnas.searchers.base import Searcher
from recnas.searchers.bohb import Bohb
from recnas.searchers.evolution import Evolution
from recnas.searchers.hnas import Hnas
from recnas.searchers.limits import Gate
from recnas.searchers.local import LocalSearch
from recnas.searchers.objective import Objectives
from recnas.searchers.pool import PoolScores
from recnas.searchers.random_search import RandomSearch
from recnas.searchers.rank_pool import RankPool
from recnas.searchers.reinforce import Reinforce
from recnas.searchers.settings import SearcherSettings
from recnas.space.base import Space, nearest_name

_LISTED: tuple[type[Searcher[Any]], ...] = (Evolution, RandomSearch, LocalSearch, Hnas, RankPool, Reinforce, Bohb)
_SEARCHERS: dict[str, type[Searcher[Any]]] = {cls.name: cls for cls in _LISTED}

# The settings of any searcher, told apart by `method`: what the section `search` of a config may hold.
if TYPE_CHECKING:
    AnySearcher = SearcherSettings
else:
    AnySearcher = Annotated[
        Union[tuple(cls.settings_class for cls in _LISTED)],  # noqa: UP007
        Field(discriminator="method"),
    ]


def searcher_names() -> tuple[str, ...]:
    """Every name `get_searcher` offers."""
    return tuple(_SEARCHERS)


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
    cls = _SEARCHERS.get(name)
    if cls is None:
        raise ConfigError(f"unknown searcher {name!r}", nearest_name(name, _SEARCHERS))
    return cls
