"""After a power cut the same command, or the one that its message names, leads to the same result."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.attack.bench import Bench
from tests.attack.powercut import Disk, cut_at, moments, record
from tests.attack.shim import Change
from tests.attack.tiny import PREPARE, SEARCH_JOB, TRAIN_JOB, Job


@pytest.mark.usefixtures("shim")
@pytest.mark.parametrize("job", [PREPARE, TRAIN_JOB, SEARCH_JOB], ids=lambda job: job.name)
def test_a_power_cut_costs_time_and_nothing_else(bench: Bench, job: Job):
    bench.reference(job)
    where, changes = record(bench, job)
    assert {change.what for change in changes} >= set("MCWFR")
    places = moments(changes)
    for mode, share in (("strict", 0.9), ("mixed", 0.6)):
        cut_at(bench, job, where, changes, places[int(share * len(places))], mode)
    assert bench.tally.well, bench.tally.faults


def test_the_model_drops_what_was_not_forced_to_disk(tmp_path: Path):
    disk, rng = Disk(Path("/run")), random.Random(0)
    for what, path, data in (
        ("M", "/run/out", b""), ("C", "/run/out/.a", b""), ("W", "/run/out/.a", b"kept"), ("F", "/run/out/.a", b""),
        ("R", "/run/out/.a", b"/run/out/a"), ("F", "/run/out", b""), ("C", "/run/out/b", b""), ("W", "/run/out/b", b"lost"),
        ("M", "/run/out/c", b""),
    ):  # fmt: skip
        disk.apply(Change(what, path, 0, data))
    disk.write(tmp_path / "strict", "strict", rng)
    assert {path.name for path in (tmp_path / "strict" / "out").iterdir()} == {"a"}
    assert (tmp_path / "strict" / "out" / "a").read_bytes() == b"kept"
    disk.write(tmp_path / "all", "all", rng)
    assert (tmp_path / "all" / "out" / "b").read_bytes() == b"lost"
    assert (tmp_path / "all" / "out" / "c").is_dir()
