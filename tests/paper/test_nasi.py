"""NASI on NAS-Bench-201 with T and 4 T steps, compared with its published accuracies.

    RECNAS_SHARED=../shared scripts/test -o timeout=0 -m paper tests/paper/test_nasi.py

Needs nb201.parquet and cifar10_train_sample.npz in the folder data of RECNAS_SHARED. An hour and a half on one core; it continues
where it was stopped (RECNAS_PAPER_RUNS, default paper-runs/). The paper says neither T for this space nor how wide and
deep its supernet is. Here T is 100 steps of the published estimator, as on DARTS, and for `averages`, whose steps cost a
fraction, one pass over 50,000 images in batches of 64, as the paper has on NAS-Bench-1Shot1. What a step measures does
not depend on mu, nu and the scale of steps, so that one run is read under all of them. Tables are written to docs/results/nasi.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
import pytest

from recnas.bench.nasbench201 import DATASETS, Nb201Table
from recnas.bench.score_table import ScoreTable
from recnas.engines.execution import Execution
from recnas.jobs.search import search
from recnas.model.supernets.registry import SUPERNETS
from recnas.progress import Progress
from recnas.runs.folder import RunDir
from recnas.runs.records import Candidate, RandomTrace, read_lines
from recnas.searchers.gradient.nasi import Nasi, slope
from recnas.searchers.gradient.settings import NasiSettings
from recnas.space.nasbench201.key import key
from recnas.tasks.registry import load_search
from recnas.tasks.settings import GradientSearchConfig

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SHARED = Path(os.environ.get("RECNAS_SHARED", ROOT.parent / "shared")) / "data"
TABLE, IMAGES = SHARED / "nb201.parquet", SHARED / "cifar10_train_sample.npz"
SCORES = HERE / "data" / "nb201_scores.parquet"
Accuracies = tuple[float, ...]  # by data set
# Test accuracy on CIFAR-10 / CIFAR-100 / ImageNet16-120 in NASI's table 4, four searches each.
PUBLISHED = {"T": (93.08, 69.51, 40.87), "4T": (93.55, 71.20, 44.84)}
MU = 2.0  # of the published estimator's runs: the slope of R is then 1 or -1, and no gradient is lost
READINGS: dict[str, dict[str, Any]] = {
    "mu 2, nu mean (the paper's for DARTS)": {"mu": 2.0, "nu": "mean"},
    "mu 1, nu adaptive from 1,000 (its for small spaces)": {"mu": 1.0, "nu": "adaptive", "nu_first": 1000.0},
    "mu 1, nu mean": {"mu": 1.0, "nu": "mean"},
    "mu 1, nu median": {"mu": 1.0, "nu": "median"},
    "mu 0: T alone": {"mu": 0.0, "nu": "mean"},
}
PUBLISHED_RULE, OWN_NORM, AVERAGES = "published", "steps by their own norm", "averages"
RULES: dict[str, dict[str, Any]] = {PUBLISHED_RULE: {}, OWN_NORM: {"scale": "own"}, AVERAGES: {"estimator": "averages"}}
needs_files = pytest.mark.skipif(not (TABLE.exists() and IMAGES.exists()), reason=f"needs {TABLE} and {IMAGES}")
pytestmark = [pytest.mark.paper, pytest.mark.timeout(0), needs_files]


class Runs(NamedTuple):
    """Searches of one kind, as long as the longest reading of them."""

    estimator: str
    channels: int
    lengths: dict[str, int]
    seeds: int
    rules: tuple[str, ...]


RUNS = (
    Runs("straight-through", 4, {"T": 100, "4T": 400}, 4, (PUBLISHED_RULE, OWN_NORM)),
    Runs("straight-through", 16, {"T": 100}, 4, (PUBLISHED_RULE, OWN_NORM)),
    Runs("averages", 4, {"T": 782}, 4, (AVERAGES,)),
    Runs("averages", 16, {"T": 782}, 4, (AVERAGES,)),
)


def test_nasi_finds_good_cells_without_training(paper_runs, write_down):
    table = Nb201Table.read(TABLE)
    lines = [
        "### NASI on NAS-Bench-201, a supernet of 5 cells per stage, 3,805 CIFAR-10 images",
        "",
        "Test accuracy in percent after 200 epochs of the cells that were chosen: mean and standard deviation over seeds. Published (the",
        "paper's steps and supernet are not known): "
        + "; ".join(f"{name} {' / '.join(f'{value:.2f}' for value in figures)}" for name, figures in PUBLISHED.items())
        + ".",
        "",
        "| channels, seeds | rule | mu and nu | length | CIFAR-10 | CIFAR-100 | ImageNet16-120 |",
        "|---|---|---|---|---|---|---|",
    ]
    best = 0.0
    for kind in RUNS:
        ledgers = [run(kind, seed, paper_runs) for seed in range(kind.seeds)]
        for rule, (reading, settings), (length, steps) in product(kind.rules, READINGS.items(), kind.lengths.items()):
            asked = NasiSettings(**settings, **RULES[rule], steps=steps)
            cells = [chosen(ledger, asked) for ledger in ledgers]
            found = [tuple(table.of(cell, data, "test", 200) for data in DATASETS) for cell in cells]
            best = max(best, fmean(accuracies[0] for accuracies in found))
            lines.append(
                f"| {kind.channels}, {kind.seeds} | {rule} | {reading} | {length} = {steps} | {' | '.join(mean_and_spread(found))} |"
            )
    write_down("nasi.md", "nasi", lines)
    assert best > fmean(table.accuracy("cifar10", "test", 200)), "no better than a random cell"


def run(kind: Runs, seed: int, folder: Path) -> list[Any]:
    """The ledger of one search."""
    steps = max(kind.lengths.values())
    out = folder / f"nasi-{kind.estimator}-c{kind.channels}-{steps}-{seed}"
    overrides = [f"seed={seed}", f"space.supernet.channels={kind.channels}", f"search.steps={steps}", f"search.mu={MU}",
                 "search.nu=mean", "search.scale=largest", f"search.estimator={kind.estimator}",
                 f"table={TABLE}", f"images.path={IMAGES}"]  # fmt: skip
    config = load_search(ROOT / "configs" / "nasbench201" / "nasi.yaml", overrides)
    assert isinstance(config, GradientSearchConfig)
    search(config, out, Execution(progress=Progress()))
    return read_lines("search", RunDir.open(out).ledger.read(), str(out))


def chosen(lines: list[Any], settings: NasiSettings) -> Any:
    """What the steps of a ledger amount to under other settings."""
    plan = SUPERNETS["nasbench201"].make(10, 32)
    state = Nasi(settings, [decision.size for decision in plan.decisions])
    state.random = [line.trace for line in lines if isinstance(line, RandomTrace)]
    for line in lines:
        if not isinstance(line, Candidate) or state.done:
            continue
        facts = line.facts
        if line.values is None:
            state.tell_failed()
        elif settings.estimator == "averages":
            state.tell_drawn(facts["choices"], facts["trace"])
        else:
            of_trace = np.array(facts["gradient"]) * slope(facts["trace"], MU, facts["nu"])  # 1 or -1, its own inverse
            state.tell(facts["trace"], of_trace * slope(facts["trace"], settings.mu, state.nu()))
    return plan.arch(state.choices())


def test_what_the_expectation_itself_chooses(write_down):
    """T of every network is known, so the gradient that NASI estimates can be had exactly, and simulated at any length."""
    table, scores = Nb201Table.read(TABLE), ScoreTable.read(SCORES, key)
    rows = scores.rows_of([key(arch) for arch in table.archs])
    accuracy = np.stack([table.accuracy(data, "test", 200) for data in DATASETS], axis=1)
    plan = SUPERNETS["nasbench201"].make(10, 32)
    options = np.array([plan.choices(arch) for arch in table.archs])
    at = {tuple(choices): cell for cell, choices in enumerate(options.tolist())}
    lines = [
        "### The gradient of NASI's expected objective, from T of every network",
        "",
        "What `averages` chooses after so many draws (mean and standard deviation over 100 seeds, T from the score table), and from all",
        "cells at once. nu is of 50 random cells; in the last row of each kind, of all cells.",
        "",
        "| channels | mu and nu | draws | CIFAR-10 | CIFAR-100 | ImageNet16-120 |",
        "|---|---|---|---|---|---|",
    ]
    for channels, (mu, nu) in product((4, 16), ((1.0, "median"), (1.0, "mean"), (2.0, "mean"), (0.0, "mean"))):
        traces = np.nan_to_num(scores.column(f"grad_norm_total@{channels}")[rows]) ** 2
        for draws in (100, 400, 782, 3128):
            found = []
            for seed in range(100):
                rng = np.random.default_rng(seed)
                random = traces[rng.integers(0, len(traces), 50)]
                drawn = rng.integers(0, len(traces), draws)
                found.append(tuple(accuracy[at[best_options(options[drawn], traces[drawn], mu, nu, random)]]))
            lines.append(f"| {channels} | mu {mu:g}, nu {nu} | {draws:,} | {' | '.join(mean_and_spread(found))} |")
        exact = accuracy[at[best_options(options, traces, mu, nu, traces)]]
        lines.append(f"| {channels} | mu {mu:g}, nu {nu} | all | {' | '.join(f'{value:.2f}' for value in exact)} |")
    write_down("nasi.md", "nasi expectation", lines)


def best_options(options: np.ndarray, traces: np.ndarray, mu: float, nu: str, random: np.ndarray) -> tuple[int, ...]:
    """What `averages` chooses after these draws."""
    state = Nasi(NasiSettings(mu=mu, nu=nu, nu_archs=len(random), steps=len(traces), estimator="averages"), [5] * 6)
    state.random = [float(np.median(random) if nu == "median" else random.mean())]
    for choices, trace in zip(options, traces):
        state.tell_drawn(choices, float(trace))
    return tuple(state.choices())


def mean_and_spread(found: list[Accuracies]) -> Iterator[str]:
    for column in zip(*found):
        yield f"{fmean(column):.2f} ± {stdev(column):.2f}"
