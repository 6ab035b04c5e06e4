"""Which space a config names, and how it is made."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from recnas.config import Settings
from recnas.errors import ConfigError, SpaceError
from recnas.space.base import Space
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.rules import ALIASES, RULES, SMALL
from recnas.space.plus import PLUS
from recnas.space.plus.rules import BLOCKS
from recnas.space.registry import get_space, space_options


class SpaceSettings(Settings):
    """Which architectures a run draws from. A setting that its space does not have is refused."""

    name: str = SMALL  # see docs; nasrec-small, nasrec-full, nasrec-plus, or a vision space
    blocks: int | None = Field(None, ge=1)  # nasrec
    table_widths: bool | None = None  # nasrec-plus: also search how wide each column's table is; 0: dropped
    connections: Literal["binomial", "uniform"] | None = None  # nasrec
    layers: int | None = Field(None, ge=3)  # mlp
    width: int | None = Field(None, ge=1)  # mlp

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: Any) -> Any:
        """NASRec's defaults are written out, so that a manifest says what was run."""
        if not isinstance(data, dict) or not isinstance(data.get("name", SMALL), str):
            return data
        name = ALIASES.get(data.get("name", SMALL), data.get("name", SMALL))
        with suppress(SpaceError):  # of a plugin: its rules are known once it is looked up
            space_options(str(name))
        defaults = {"blocks": 7, "connections": "binomial"} if name in RULES else {}
        defaults = {"blocks": BLOCKS} if name == PLUS else defaults
        return defaults | {key: value for key, value in data.items() if value is not None} | {"name": name}

    @model_validator(mode="after")
    def _fits(self) -> SpaceSettings:
        try:
            offered = space_options(self.name)
        except SpaceError as error:
            raise ValueError(f"{error.what}; {error.fix}") from None
        foreign = [name for name in self.options() if name not in offered]
        if foreign:
            has = f"it has {', '.join(offered)}" if offered else "it has no settings"
            raise ValueError(f"space {self.name} has no setting {', '.join(foreign)}; {has}")
        return self

    @model_serializer(mode="wrap")
    def _without_none(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}

    def options(self) -> dict[str, Any]:
        """What was set beside the name."""
        given = {name: getattr(self, name) for name in type(self).model_fields if name != "name"}
        return {name: value for name, value in given.items() if value is not None}

    def make(self) -> Space[Any]:
        """The space that is meant, whichever it is."""
        return get_space(self.name, **self.options())


def make_ctr_space(settings: SpaceSettings, fields: int = 0) -> NasrecSpace:
    """The space of a job that works on clicks; to draw from it, on data with so many categorical columns."""
    space = settings.make()
    if not isinstance(space, NasrecSpace):
        raise ConfigError(
            f"the architectures of {settings.name} read images, not clicks.",
            f"Set space.name to one of: {', '.join((*RULES, PLUS))}.",
        )
    return space.on(fields)
