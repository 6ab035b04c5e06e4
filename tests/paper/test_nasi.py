"""NASI on NAS-Bench-201 with T and 4 T steps over three seeds, beside its published accuracies.

    RECNAS_SHARED=../shared scripts/test -m paper tests/paper/test_nasi.py

Needs nb201.parquet and cifar10_train_sample.npz in the folder data of RECNAS_SHARED. About an hour on one core, by
the time of single steps; it goes on where it was stopped (RECNAS_PAPER_RUNS, default paper-runs/). The paper does not say T for this space nor
how wide its supernet is; the shipped config has T = 100 and 4 channels. Figures are written to README.md.
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import fmean, stdev

import pytest

from recnas.bench.nasbench201 import DATASETS, Nb201Table
from recnas.jobs.search_kinds import load_search
from recnas.jobs.search_nasi import search_nasi
from recnas.jobs.search_oneshot import NasiConfig
from recnas.progress import Progress

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("RECNAS_SHARED", ROOT.parent / "shared")) / "data"
TABLE, IMAGES = SHARED / "nb201.parquet", SHARED / "cifar10_train_sample.npz"
MARK = "<!-- nasi -->"
SEEDS = 3
STEPS = {"T": 100, "4T": 400}
# Test accuracy on CIFAR-10 / CIFAR-100 / ImageNet16-120 in NASI's table 4.
PUBLISHED = {"T": (93.08, 69.51, 40.87), "4T": (93.55, 71.20, 44.84)}


@pytest.mark.paper
@pytest.mark.timeout(0)
@pytest.mark.skipif(not (TABLE.exists() and IMAGES.exists()), reason=f"needs {TABLE} and {IMAGES}")
def test_nasi_finds_good_cells_without_training():
    runs = Path(os.environ.get("RECNAS_PAPER_RUNS", ROOT / "paper-runs"))
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in STEPS}
    for name, steps in STEPS.items():
        for seed in range(SEEDS):
            overrides = [f"seed={seed}", f"search.nasi.steps={steps}", f"table={TABLE}", f"images.path={IMAGES}"]
            config = load_search(ROOT / "configs" / "nasbench201" / "nasi.yaml", overrides)
            assert isinstance(config, NasiConfig)
            result = search_nasi(config, runs / f"nasi-{name}-{seed}", Progress())
            found[name].append(tuple(result["test_accuracy"][data] for data in DATASETS))
    write_down(found)
    random = fmean(Nb201Table.read(TABLE).accuracy("cifar10", "test", 200))
    for name in STEPS:
        assert fmean(accuracies[0] for accuracies in found[name]) > random, "no better than a random cell"


def write_down(found: dict[str, list[tuple[float, ...]]]) -> None:
    lines = [
        MARK,
        f"### NASI on NAS-Bench-201, {SEEDS} seeds, a supernet of 4 channels and 5 cells per stage, 3,805 CIFAR-10 images",
        "",
        "Test accuracy in percent after 200 epochs of the cells that were chosen: mean and standard deviation over seeds. The paper's",
        "T and supernet are not known.",
        "",
        "| steps | CIFAR-10 | published | CIFAR-100 | published | ImageNet16-120 | published |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, accuracies in found.items():
        cells = []
        for values, published in zip(zip(*accuracies), PUBLISHED[name]):
            cells += [f"{fmean(values):.2f} ± {stdev(values):.2f}", f"{published:.2f}"]
        lines.append(f"| {name} = {STEPS[name]} | {' | '.join(cells)} |")
    path = Path(__file__).parent / "README.md"
    text = path.read_text() if path.exists() else ""
    before, _, rest = text.partition(MARK)
    _, _, after = rest.partition(MARK)
    path.write_text(before + "\n".join(lines) + "\n" + MARK + after)
