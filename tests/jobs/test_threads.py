"""The number of threads belongs to a run: another machine or environment that continues it changes no bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recnas.cli.main import main
from tests.jobs.search_helpers import as_yaml, small_search, what_counts

# Runs a search and interrupts it in its own process at the N-th step of progress that it reports; 0: never.
INTERRUPTED = """
import os, sys
config, out, after, cores = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if cores == 1:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from recnas.engines.execution import Execution
from recnas.jobs.search import search
from recnas.progress import Progress
from recnas.runs.folder import RunDir
from recnas.tasks.registry import kept_search, load_search

class Interrupting(Progress):
    steps = 0
    def advance(self, amount, note=""):
        self.steps += 1
        if self.steps == after:
            raise KeyboardInterrupt
        super().advance(amount, note)

settings = load_search(config) if config != "-" else kept_search(RunDir.open(out))
try:
    search(settings, out, Execution(progress=Interrupting(quiet=True)))
except KeyboardInterrupt:
    sys.exit(130)
"""


def run(config: Path | str, out: Path, after: int = 0, threads: int = 2, cores: int = 2) -> int:
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    arguments = [str(config), str(out), str(after), str(cores)]
    return subprocess.run([sys.executable, "-c", INTERRUPTED, *arguments], env=environment, timeout=600).returncode


def weights(run: Path) -> dict[str, bytes]:
    """Every file of weights that is left, by its place."""
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.rglob("*.safetensors"))}


@pytest.fixture(scope="module")
def config(criteo_data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    often = {"checkpoint_seconds": 0}  # after every step
    settings = small_search(
        criteo_data.path,
        supernet={**often, "batch_size": 256},
        final={"candidates": 2, "rows": 2000, "train": {**often, "batch_size": 1024, "clip": 1.0}},
    )
    return as_yaml(settings, tmp_path_factory.mktemp("threads") / "small.yaml")


@pytest.fixture(scope="module")
def straight(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("straight") / "run"
    assert run(config, out) == 0
    return out


@pytest.mark.parametrize("after", [4, 35])  # in the warm-up; in the retraining
def test_a_run_that_goes_on_with_fewer_threads_or_cores_gives_the_same_bits(
    config: Path, straight: Path, tmp_path: Path, after: int
):
    cut = tmp_path / "run"
    assert run(config, cut, after) == 130
    assert (cut / "winner").exists() == (after > 30)
    assert run("-", cut, threads=1, cores=1) == 0
    assert what_counts(cut) == what_counts(straight)
    assert weights(cut) == weights(straight)


def test_the_manifests_say_how_many_threads_there_were(straight: Path):
    for folder in (straight, straight / "warmup", straight / "winner"):
        assert json.loads((folder / "manifest.json").read_text())["threads"] == 2


def test_another_number_on_an_existing_run_is_refused(config: Path, straight: Path, capsys):
    assert main(["search", str(config), "--out", str(straight), "--quiet", "supernet.threads=1"]) == 2
    said = capsys.readouterr().err
    assert "threads was 2, now 1" in said
    assert "threads was 2, now 1" in said
