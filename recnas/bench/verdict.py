"""What a search can say to whoever has a model already: take the winner, or keep what you have; and what rows can decide."""

from __future__ import annotations

from collections.abc import Mapping

from recnas.runs.results import Decidable
from recnas.runs.search_result import HandCrafted, RaceResult


def race_verdict(known: HandCrafted, race: RaceResult, cost: Mapping[str, float], valid: float) -> str:
    """One sentence.

    Args:
        known: the best hand-crafted model. cost, valid: of the winner; `valid` is a log loss.
    """
    if known.difference is None:
        if race.searched_valid is None:
            return f"keep {known.name}: no searched network came to the end of the race"
        behind = race.searched_valid - valid
        return f"keep {known.name}: the best searched network is behind it by {behind:.5f} on validation"
    lead, (low, high) = -known.difference.logloss, known.difference.logloss_interval
    ends = f"[{-high:+.5f}, {-low:+.5f}]"
    costs = _costs(known, race, cost)
    cut = f" (the budget ended the training of {known.name})" if known.cut else ""
    if known.difference.real and lead > 0:
        return f"better than {known.name} by {lead:.5f} {ends} on validation{costs}{cut}"
    cheaper = cost.get("flops", 0.0) < known.cost.get("flops", 0.0)
    what = f"keep {known.name}, or take the winner for its cost" if cheaper else f"keep {known.name}"
    return f"{what}: the winner's lead of {lead:.5f} {ends} on validation may be chance{costs}{cut}"


def ratio(value: float) -> str:
    """As far as it means anything: 0.83; 2.1; 4,800."""
    return f"{float(f'{value:.2g}'):,.10g}"


def _costs(known: HandCrafted, race: RaceResult, cost: Mapping[str, float]) -> str:
    """FLOPs as a ratio, latency and table memory of both."""
    said = []
    if known.cost.get("flops"):
        said.append(f"at {ratio(cost['flops'] / known.cost['flops'])} times its FLOPs")
    mine, theirs = (one.get("latency_ms_512") for one in (race.latency, known.latency))
    if mine and theirs:
        said.append(f"{mine:.2g} ms against {theirs:.2g} ms for 512 rows")
    mine, theirs = (one.get("embedding_mb") for one in (cost, known.cost))
    if mine and theirs:
        said.append(f"tables of {mine:.3g} MB against {theirs:.3g} MB")
    return f", {', '.join(said)}" if said else ""


def decidable_lines(found: Mapping[str, Decidable]) -> list[str]:
    """In words, the split that judges first."""
    names = {"test": "test", "valid": "validation"}
    return [
        f"with {found[split].rows:,} {name} rows a difference in log loss under {found[split].usual:.4f} cannot be seen between models as unlike "
        f"as usual ({found[split].least:.4f} if they are much alike, {found[split].most:.4f} if they are very unlike)"
        for split, name in names.items()
        if split in found
    ]
