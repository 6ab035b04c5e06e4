"""NASI on NAS-Bench-201 with T and 4 T steps over three seeds, beside its published accuracies.

    RECNAS_SHARED=../shared scripts/test -m paper tests/paper/test_nasi.py

Needs nb201.parquet and cifar10_train_sample.npz in the folder data of RECNAS_SHARED. Half an hour on one core; it goes
on where it was stopped (RECNAS_PAPER_RUNS, default paper-runs/). The paper says neither T for this space nor how wide
and deep its supernet is; here T = 100, and the sizes are the shipped config's. What a step measures does not depend on
mu, nu and the scale of steps, so that one run is read under all of them. Figures are written to README.md.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest

from recnas.bench.nasbench201 import DATASETS, Nb201Table
from recnas.jobs.search_kinds import load_search
from recnas.jobs.search_nasi import search_nasi
from recnas.jobs.search_oneshot import NasiConfig
from recnas.model.cell_supernet_plans import PLANS
from recnas.progress import Progress
from recnas.search.nasi import Nasi, slope
from recnas.search.oneshot_settings import NasiSettings

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("RECNAS_SHARED", ROOT.parent / "shared")) / "data"
TABLE, IMAGES = SHARED / "nb201.parquet", SHARED / "cifar10_train_sample.npz"
SEEDS = 3
STEPS = {"T": 100, "4T": 400}
# Test accuracy on CIFAR-10 / CIFAR-100 / ImageNet16-120 in NASI's table 4.
PUBLISHED = {"T": (93.08, 69.51, 40.87), "4T": (93.55, 71.20, 44.84)}
MU = 2.0  # of the run itself: the slope of R is then 1 or -1, and no gradient is lost
VARIANTS: dict[str, dict[str, Any]] = {
    "mu 2, nu mean (the paper's for DARTS)": {"mu": 2.0, "nu": "mean"},
    "mu 1, nu adaptive from 1,000 (its for small spaces)": {"mu": 1.0, "nu": "adaptive", "nu_first": 1000.0},
    "mu 1, nu mean": {"mu": 1.0, "nu": "mean"},
    "mu 0: T alone": {"mu": 0.0, "nu": "mean"},
}


@pytest.mark.paper
@pytest.mark.timeout(0)
@pytest.mark.skipif(not (TABLE.exists() and IMAGES.exists()), reason=f"needs {TABLE} and {IMAGES}")
def test_nasi_finds_good_cells_without_training(paper_runs, write_down):
    table = Nb201Table.read(TABLE)
    found: dict[tuple[str, str, str], list[tuple[float, ...]]] = {}
    for seed in range(SEEDS):
        out = paper_runs / f"nasi-{max(STEPS.values())}-{seed}"
        overrides = [f"seed={seed}", f"search.nasi.steps={max(STEPS.values())}", f"search.nasi.mu={MU}", "search.nasi.nu=mean",
                     "search.nasi.scale=largest", f"table={TABLE}", f"images.path={IMAGES}"]  # fmt: skip
        config = load_search(ROOT / "configs" / "nasbench201" / "nasi.yaml", overrides)
        assert isinstance(config, NasiConfig)
        search_nasi(config, out, Progress())
        events = [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()]
        for name, settings in VARIANTS.items():
            for scale in ("largest", "own"):
                for length, steps in STEPS.items():
                    arch = chosen(events, NasiSettings(**settings, scale=scale, steps=steps))
                    found.setdefault((name, scale, length), []).append(tuple(table.of(arch, data, "test", 200) for data in DATASETS))
    write_down("nasi", as_lines(found))
    random = fmean(table.accuracy("cifar10", "test", 200))
    best = max(fmean(accuracies[0] for accuracies in runs) for runs in found.values())
    assert best > random, "no better than a random cell"


def chosen(events: list[dict[str, Any]], settings: NasiSettings) -> Any:
    """What the steps of a ledger amount to under other settings."""
    plan = PLANS["nasbench201"].make(10, 32)
    state = Nasi(settings, [decision.size for decision in plan.decisions])
    state.random = [event["trace"] for event in events if event["event"] == "random"]
    for event in events:
        if event["event"] != "candidate" or state.done:
            continue
        if event.get("values") is None:
            state.tell_failed()
            continue
        trace = event["trace"]
        of_trace = np.array(event["gradient"]) * slope(trace, MU, event["nu"])  # the slope is 1 or -1, its own inverse
        state.tell(trace, of_trace * slope(trace, settings.mu, state.nu()))
    return plan.arch(state.choices())


def as_lines(found: dict[tuple[str, str, str], list[tuple[float, ...]]]) -> list[str]:
    lines = [
        f"### NASI on NAS-Bench-201, {SEEDS} seeds, a supernet of 4 channels and 5 cells per stage, 3,805 CIFAR-10 images",
        "",
        "Test accuracy in percent after 200 epochs of the cells that were chosen: mean and standard deviation over seeds. Published (the",
        "paper's steps and supernet are not known): "
        + "; ".join(f"{name} {' / '.join(f'{value:.2f}' for value in figures)}" for name, figures in PUBLISHED.items())
        + ".",
        "",
        "| mu and nu | steps divided by | length | CIFAR-10 | CIFAR-100 | ImageNet16-120 |",
        "|---|---|---|---|---|---|",
    ]
    divided = {"largest": "the largest norm so far (published)", "own": "their own norm"}
    for (name, scale, length), accuracies in found.items():
        cells = [f"{fmean(values):.2f} ± {stdev(values):.2f}" for values in zip(*accuracies)]
        lines.append(f"| {name} | {divided[scale]} | {length} = {STEPS[length]} | {' | '.join(cells)} |")
    return lines
