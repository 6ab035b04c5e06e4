"""Damaged bytes in every kind of folder: named, or without an effect."""

from __future__ import annotations

import pytest

from tests.attack.bench import Bench
from tests.attack.damage import HOW, VICTIMS, Victim, damage, files_of, pristine
from tests.attack.tally import Outcome

SMALL = tuple(victim for victim in VICTIMS if victim.name != "export")  # which takes seconds: in scripts/attack


@pytest.mark.usefixtures("shim")
@pytest.mark.parametrize("victim", SMALL, ids=lambda victim: victim.name)
def test_damage_is_named_or_does_not_matter(bench: Bench, victim: Victim):
    files = files_of(pristine(bench, victim))
    damage(bench, victim, bench.rng.choice(files), bench.rng.choice(HOW))
    assert bench.tally.well, "\n".join(bench.tally.faults)


def test_a_flipped_bit_of_what_is_used_is_named(bench: Bench):
    for name, file in (
        ("prepared data", "train/ids.i32"),
        ("trained run", "schema.json"),
        ("comparison", "predictions/lr-seed-0.npy"),
    ):
        victim = next(one for one in VICTIMS if one.name == name)
        path = next(path for path in files_of(pristine(bench, victim)) if str(path) == file)
        damage(bench, victim, path, "flip")
    assert bench.tally.well, "\n".join(bench.tally.faults)
    assert sum(found[Outcome.REFUSED] for found in bench.tally.counts.values()) == 3
