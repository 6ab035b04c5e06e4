"""What a searcher proposes and what became of it: plain values, ready for the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

from recnas.space.base import ArchT

CANDIDATE = "candidate"  # the `event` of a ledger line that a searcher wrote


@dataclass(frozen=True)
class Proposal(Generic[ArchT]):
    """One architecture to score.

    Attributes:
        index: its number in the search, from 0; the order in which values are told.
        key: `space.key(arch)`.
        origin: `init`, `mutation`, `random` or `neighbour`: how it came about.
        parents: indices of the proposals it was made from.
        changes: steps between the parent and it.
        same_as: index of an earlier proposal with the same key; not to be scored again.
        facts: what else a report may want, e.g. the generation; JSON-able.
        measured: what the limits measured to arrive here, rejected candidates included, by key.
    """

    index: int
    arch: ArchT
    key: str
    origin: str
    parents: tuple[int, ...] = ()
    changes: int = 0
    same_as: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether an earlier proposal is the same network: tell it without values."""
        return self.same_as is not None


@dataclass(frozen=True)
class Told(Generic[ArchT]):
    """A proposal with its values; `values` is None and `failed` says why if it could not be scored."""

    proposal: Proposal[ArchT]
    values: Mapping[str, float] | None
    failed: str | None
    costs: tuple[float, ...]  # the values as numbers to minimise

    def event(self, arch: Mapping[str, Any]) -> dict[str, Any]:
        """The ledger line, given the architecture as JSON-able data. Empty parts are left out."""
        proposal = self.proposal
        line: dict[str, Any] = {
            "event": CANDIDATE,
            "index": proposal.index,
            "key": proposal.key,
            "arch": dict(arch),
            "origin": proposal.origin,
            "parents": list(proposal.parents),
            "changes": proposal.changes,
            "values": None if self.values is None else dict(self.values),
        }
        extras = {
            "failed": self.failed,
            "same_as": proposal.same_as,
            "facts": dict(proposal.facts) or None,
            "measured": {key: dict(figures) for key, figures in proposal.measured.items()} or None,
        }
        return line | {name: value for name, value in extras.items() if value is not None}
