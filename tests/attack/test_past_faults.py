"""What once went wrong and no attacker here meets by himself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.attack.bench import Bench
from tests.attack.damage import VICTIMS, pristine, use
from tests.attack.kills import run_killed_at
from tests.attack.shim import KILL, Fault
from tests.attack.snapshot import different, snapshot
from tests.attack.tiny import SEARCH_JOB, WARMUP

WARM = next(victim for victim in VICTIMS if victim.name == "warm-up")


def a_copy(bench: Bench, source: Path) -> Path:
    return Path(shutil.copytree(source, bench.out()))


def test_a_warm_up_without_its_weights_is_not_scored_with_random_ones(bench: Bench):
    folder = a_copy(bench, pristine(bench, WARM))
    shutil.rmtree(folder / "supernet")
    ended = use(bench, WARM, folder)
    assert ended.refused, ended
    assert str(folder) in ended.err


@pytest.mark.usefixtures("shim")
def test_the_warm_up_of_another_seed_is_not_taken_for_ones_own(bench: Bench):
    out, others = bench.out(), bench.out()
    bench.must([*WARMUP.argv(bench.base, others), "seed=5"])
    ended = bench.children.run(SEARCH_JOB.argv(bench.base, out), fault=Fault("rename", 9, KILL), below=bench.folder)
    assert ended.killed, ended
    assert (out / "warmup").exists()
    shutil.rmtree(out / "warmup")
    shutil.copytree(others, out / "warmup")
    ended = bench.children.run(SEARCH_JOB.argv(bench.base, out))
    assert ended.refused, ended
    assert "warmup" in ended.err


@pytest.mark.usefixtures("shim")
def test_a_search_that_was_killed_in_its_trainings_is_resumed_by_its_folder_alone(bench: Bench):
    """The settings come from the manifest then, and how often checkpoints are written is not among them."""
    whole, out = bench.reference(SEARCH_JOB), bench.out()
    run_killed_at(bench, SEARCH_JOB, "rename", [])  # which counts them
    at = int(0.8 * bench.calls[SEARCH_JOB.name]["rename"])
    ended = bench.children.run(SEARCH_JOB.argv(bench.base, out), fault=Fault("rename", at, KILL), below=bench.folder)
    assert ended.killed, ended
    assert list(out.glob("*/**/step-*")), "no checkpoint to go on from"
    bench.must(["search", "--resume", str(out), "--workers", "1", "--quiet"])
    assert different(whole, snapshot(out.parent)) == []


def test_trainings_that_diverge_are_said_and_end_no_search_without_a_word(bench: Bench):
    argv = [*SEARCH_JOB.argv(bench.base, bench.out()), "final.train.lr=3e12"]
    ended = [bench.children.run(argv) for _ in range(2)]
    for one in ended:
        assert one.refused, one
        assert "every finalist failed in training" in one.err


def test_a_limit_that_nothing_meets_ends(bench: Bench):
    ended = bench.children.begin([*SEARCH_JOB.argv(bench.base, bench.out()), "limits.latency_ms_1=1e-7"]).wait(
        longest=120
    )
    assert ended.refused, ended
    assert "latency_ms_1" in ended.err
