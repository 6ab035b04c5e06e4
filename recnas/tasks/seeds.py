"""What a search on clicks begins with: the architectures that `search.seeds` names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recnas.baselines.base import InputShape
from recnas.baselines.encoded import encode
from recnas.baselines.zoo import ZOO, find_name, fits
from recnas.config import nearest
from recnas.data.schema import Schema
from recnas.errors import ConfigError, RecnasError
from recnas.searchers.settings import SearcherSettings
from recnas.space.nasrec import NasrecSpace
from recnas.space.plus import PLUS
from recnas.space.plus.convert import from_nasrec
from recnas.tasks.archs import named_arch, published

EVERY = "zoo"  # all hand-crafted models that fit the data
PUBLISHED = "published"  # all shipped architectures of others that fit


@dataclass(frozen=True)
class Seed:
    """`name` as the user knows it; `hand_crafted`: it is a model of the zoo."""

    name: str
    arch: Any
    hand_crafted: bool = False


def seeds_of(
    search: SearcherSettings, space: NasrecSpace, schema: Schema, width: int, count: Callable[[Any], object]
) -> list[Seed]:
    """Every seed once, in the order named.

    Args:
        width: of the vectors. count: of an architecture on the data; raises what does not fit.

    Raises:
        ConfigError: a seed is unknown or does not fit, or there are more than the search can begin with.
    """
    found: dict[str, Seed] = {}
    for name in search.seeds:
        fitting = _published if name == PUBLISHED else _fitting
        for seed in fitting(name, space, schema, width, count):
            found.setdefault(space.key(seed.arch), seed)
    check_room(search, len(found))
    return list(found.values())


def _fitting(
    name: str, space: NasrecSpace, schema: Schema, width: int, count: Callable[[Any], object]
) -> Iterator[Seed]:
    for seed in _named(name, space, schema, width):
        try:
            space.validate(seed.arch)
            count(seed.arch)
        except RecnasError as error:
            raise ConfigError(
                f"search.seeds: {seed.name} does not fit {space.name} on these data: {error.what}",
                error.fix or "Leave it out of search.seeds.",
            ) from None
        yield seed


def _published(
    name: str, space: NasrecSpace, schema: Schema, width: int, count: Callable[[Any], object]
) -> Iterator[Seed]:
    """As many as fit."""
    reasons: dict[str, str] = {}
    for one in published():
        try:
            yield from _fitting(one, space, schema, width, count)
        except RecnasError as error:
            reasons[one] = error.what
    if len(reasons) == len(published()):
        raise ConfigError(
            f"search.seeds has {name}, and none of them fits: {next(iter(reasons.values()))}",
            f"Set space.name={PLUS}, which holds them.",
        )


def check_room(search: SearcherSettings, seeds: int) -> None:
    most, setting = search.room
    if seeds > most:
        raise ConfigError(
            f"search.seeds are {seeds} architectures, and this search begins with {most} at most.",
            f"Set search.{setting}={seeds} or more, or name fewer seeds.",
        )


def _named(name: str, space: NasrecSpace, schema: Schema, width: int) -> Iterator[Seed]:
    known = find_name(name)
    if name == EVERY or known is not None:
        if space.name != PLUS:
            raise ConfigError(
                f"search.seeds has {name}, and {space.name} cannot express hand-crafted models.",
                f"Set space.name={PLUS}, or name architecture files.",
            )
        shape = InputShape.of(schema, width)
        for model in [known] if known is not None else [one for one in ZOO if fits(one, schema.n_sparse)]:
            try:
                yield Seed(model, encode(model, shape), hand_crafted=True)
            except RecnasError as error:
                raise ConfigError(f"search.seeds: {model} does not fit: {error.what}", error.fix) from None
        return
    shipped = published()
    if ":" not in name and not name.endswith(".json") and not Path(name).exists() and name not in shipped:
        raise ConfigError(
            f"search.seeds has {name!r}, which is no model; {nearest(name, [EVERY, PUBLISHED, *ZOO, *shipped])}",
            f"Seeds are {EVERY}, {PUBLISHED}, names of models and of published architectures, ARCH.json or RUN:best.",
        )
    arch = named_arch(name)
    if space.name == PLUS and arch.space != PLUS:
        arch = from_nasrec(arch)
    if arch.space != space.name:
        raise ConfigError(
            f"search.seeds: {name} is an architecture of {arch.space}, and this search has the space {space.name}.",
            f"Set space.name={arch.space if arch.space == PLUS else PLUS}, which holds it, or leave it out.",
        )
    yield Seed(name, arch)
