"""The options of `prepare` that decide its result."""

from __future__ import annotations

from dataclasses import dataclass

from recnas.config import check_settings
from recnas.data.prepare.split import USUAL_SHARES, WITH_SHARES, Shares
from recnas.data.raw.recipe import Recipe
from recnas.data.raw.sections import Rolling, check_shares
from recnas.errors import ConfigError


@dataclass(frozen=True)
class PrepareOptions:
    """What decides the result. Threads, memory and progress do not, and are not here."""

    protocol: str | None = None  # None: the recipe's
    seed: int = 2018
    min_count: int | None = None  # None: the recipe's
    cap: int | None = None  # most rows per table
    limit: int | None = None  # most raw rows read
    vocab_scope: str = "train"  # "all" counts every split, as some published work does: it leaks
    with_columns: tuple[str, ...] = ()  # optional columns of the recipe to keep
    on_error: str = "stop"  # or "skip": bad rows go to rejects.tsv
    split_index: str | None = None
    side: tuple[str, ...] = ()  # side files, where they are not beside the raw file
    parquet: bool = True  # also write train|valid|test.parquet for exchange
    shares: Shares | None = None  # None: the recipe's, or 8-1-1
    origins: int | None = None  # of the protocol rolling; None: the recipe's, or 3
    window: float | None = None  # share of all rows in a window; None: the recipe's, or 0.1
    origin: int | None = None  # which of them, from 1
    like: str | None = None  # prepared data whose vocabulary and statistics are used as they are
    extend: str | None = None  # the same, and new values get ids behind the old ones

    def shares_of(self, recipe: Recipe) -> Shares:
        return self.shares or recipe.shares or USUAL_SHARES

    def rolling(self, recipe: Recipe) -> Rolling:
        """Raises: ConfigError if origins and window do not go together."""
        given = {name: value for name in ("origins", "window") if (value := getattr(self, name)) is not None}
        values = {**(recipe.rolling.model_dump() if recipe.rolling else {}), **given}
        return check_settings(Rolling, values, "the protocol rolling")

    @staticmethod
    def takes_shares(protocol: str) -> bool:
        return protocol in WITH_SHARES

    def check(self, recipe: Recipe, protocol: str, ready: bool = False) -> None:
        """Refuse what cannot be; `ready`: the raw files come as a ready split."""
        faults = []
        if self.shares is not None:
            try:
                check_shares(self.shares)
            except ValueError as error:
                faults.append(f"--shares {error}")
            if not self.takes_shares(protocol):
                faults.append(f"--shares goes with --protocol {', '.join(WITH_SHARES)}; {protocol} has its own")
        rolls = protocol == "rolling"
        if not rolls and (self.origins is not None or self.window is not None):
            faults.append(f"--origins and --window go with --protocol rolling, not with {protocol}")
        if rolls and (self.like or self.extend):
            faults.append("--protocol rolling fits a vocabulary per origin: leave --like and --extend out")
        if rolls:
            count = self.rolling(recipe).origins
            if self.origin is None or not 1 <= self.origin <= count:
                faults.append(
                    f"one origin at a time: origin must be from 1 to {count} (got {self.origin}); `recnas prepare` makes all"
                )
        if self.limit is not None and ready:
            faults.append("--limit would read training rows only, as they come first: leave it out with --train")
        if self.min_count is not None and self.min_count < 1:
            faults.append(f"--min-count must be at least 1 (got {self.min_count})")
        if self.cap is not None and self.cap < 3:
            faults.append(f"--cap must be at least 3: unknown, missing and one value (got {self.cap})")
        if self.limit is not None and self.limit < 1:
            faults.append(f"--limit must be at least 1 (got {self.limit})")
        if self.seed < 0:
            faults.append(f"--seed must not be negative (got {self.seed})")
        unknown = [name for name in self.with_columns if name not in recipe.optional_names()]
        if unknown:
            known = ", ".join(recipe.optional_names()) or "none"
            faults.append(f"--with {', '.join(unknown)}: {recipe.name} has no such optional column (it has: {known})")
        if faults:
            raise ConfigError("The options do not fit:\n" + "\n".join(f"  - {fault}" for fault in faults))
