"""HNAS on all of NAS-Bench-201 beside its published figures, and beside evolution and random search at equal queries.

    RECNAS_SHARED=../shared scripts/test -m paper tests/paper/test_hnas_tables.py

Needs the table (nb201.parquet in the folder data of RECNAS_SHARED) and the scores of every network
(tests/paper/data/nb201_scores.parquet, or RECNAS_NB201_SCORES; made by `recnas correlate nasbench201/scores-c4`,
`scores-c16` and `recnas bench pack`, about two hours on 2 cores). Then it takes some minutes. Figures are written
to README.md beside this file. Settings are the searcher's defaults; variants are all listed, and none was chosen
by its result.
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from recnas.bench.guarantee import FORMS
from recnas.bench.nasbench201 import DATASETS, Nb201Table
from recnas.bench.scores import ScoreTable
from recnas.jobs.cell_scores import CellCorrelation, correlate_scores
from recnas.search.objective import Objectives
from recnas.search.registry import get_searcher
from recnas.space.nasbench201 import Nb201Space
from recnas.space.nasbench201_key import key

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("RECNAS_SHARED", HERE.parents[1].parent / "shared")) / "data"
TABLE = SHARED / "nb201.parquet"
SCORES = Path(os.environ.get("RECNAS_NB201_SCORES", HERE / "data" / "nb201_scores.parquet"))
MARK = "<!-- hnas -->"
QUERIES, SEEDS = 20, 10
KAPPA = "ntk_cond@4"

# Test accuracy on CIFAR-10 / CIFAR-100 / ImageNet16-120 in HNAS's tables 3 and 14 (5 searches).
PUBLISHED = {
    "grad_norm": (94.04, 71.75, 45.91), "snip": (93.94, 71.49, 46.07), "grasp": (94.13, 72.59, 46.24),
    "ntk_trace": (94.07, 72.30, 45.93), "knas_root": (94.19, 72.94, 46.31),
}  # fmt: skip
# Spearman on CIFAR-10 in its tables 5 and 13, in the order of FORMS; None where it has none.
CORRELATIONS = {
    "grad_norm": (0.637, 0.642, 0.724, 0.750), "snip": (0.639, 0.641, 0.728, 0.748), "grasp": (0.566, 0.570, 0.658, 0.686),
    "ntk_trace": (0.538, 0.549, 0.657, 0.697), "knas_root": (0.53, None, None, 0.66), "fisher": (0.39, None, None, 0.51),
    "synflow": (0.78, None, None, 0.81), "naswot": (0.09, None, None, 0.05),
}  # fmt: skip
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "paper, ucb": {"acquisition": "ucb"},
    "paper, nu up to the 95 % quantile": {"nu_quantile": 0.95},
    "released, nu up to the largest M": {"reading": "released"},
    "released, nu up to 5000": {"reading": "released", "nu_top": 5000.0},
}
needs_files = pytest.mark.skipif(not (TABLE.exists() and SCORES.exists()), reason=f"needs {TABLE} and {SCORES}")


@pytest.fixture(scope="module")
def table() -> Nb201Table:
    return Nb201Table.read(TABLE)


@pytest.fixture(scope="module")
def scores(table) -> ScoreTable:
    found = ScoreTable.read(SCORES, key)
    found.rows_of([key(arch) for arch in table.archs])  # every network is there
    return found


def widest(scores: ScoreTable, metric: str) -> str:
    """The metric's column of the greatest width."""
    return max((c for c in scores.columns if c.partition("@")[0] == metric), key=lambda c: int(c.partition("@")[2]))


def search(table: Nb201Table, method: str, settings: dict[str, Any], seed: int, evidence=None) -> tuple[float, ...]:
    """Test accuracies after 200 epochs of the best query."""
    searcher = get_searcher(method, Nb201Space(), Objectives.of({"accuracy": "max"}), seed, settings, None, evidence)
    while batch := searcher.ask_batch():
        for proposal in batch:
            searcher.tell(proposal, None if proposal.known else {"accuracy": table.of(proposal.arch, "cifar10", "valid", 12)})
    best = searcher.best(1)[0].proposal.arch
    return tuple(table.of(best, data, "test", 200) for data in DATASETS)


@pytest.mark.paper
@needs_files
def test_hnas_beats_random_and_stands_beside_its_figures(table, scores):
    found: dict[str, list[tuple[float, ...]]] = {}
    for metric in PUBLISHED:
        for variant, settings in VARIANTS.items():
            asked = {"candidates": QUERIES, "metric": widest(scores, metric), "kappa": KAPPA, **settings}
            found[f"HNAS {asked['metric']} ({variant})"] = [search(table, "hnas", asked, seed, scores) for seed in range(SEEDS)]
    evolution = {"population": 10, "generations": QUERIES - 10, "children": 1, "tournament": 10, "mutations": 1}
    found["evolution"] = [search(table, "evolution", evolution, seed) for seed in range(SEEDS)]
    found["random"] = [search(table, "random", {"candidates": QUERIES}, seed) for seed in range(SEEDS)]
    write_down("searches", search_lines(found))
    plain = [fmean(run[0] for run in runs) for name, runs in found.items() if name.endswith("(paper)")]
    assert fmean(plain) > fmean(run[0] for run in found["random"])


@pytest.mark.paper
@needs_files
def test_guarantees_rank_as_published(table, scores):
    config = CellCorrelation(cells=None, resamples=0)
    rows = correlate_scores(table, scores, range(len(table)), config)
    by_metric: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        if "form" in row:
            by_metric.setdefault(row["metric"], {})[row["form"]] = row
    write_down("guarantees", guarantee_lines(by_metric))
    for metric in ("grad_norm", "snip", "ntk_trace"):
        forms = by_metric[widest(scores, metric)]
        assert forms["non-realizable"]["spearman"] >= forms["kappa/M"]["spearman"] > forms["realizable"]["spearman"]


def search_lines(found: dict[str, list[tuple[float, ...]]]) -> list[str]:
    lines = [
        f"### HNAS on NAS-Bench-201: {QUERIES} queries (12-epoch validation on CIFAR-10), {SEEDS} seeds, kappa `{KAPPA}`",
        "",
        "Test accuracy in percent after 200 epochs, mean and standard deviation over seeds; published: HNAS tables 3 and 14.",
        "",
        "| search | CIFAR-10 | CIFAR-100 | ImageNet16-120 | published |",
        "|---|---|---|---|---|",
    ]
    for name, runs in found.items():
        figures = [f"{fmean(column):.2f} ± {stdev(column):.2f}" for column in zip(*runs)]
        metric = name.removeprefix("HNAS ").partition("@")[0]
        published = PUBLISHED.get(metric) if name.startswith("HNAS") else None
        lines.append(f"| {name} | {' | '.join(figures)} | {' / '.join(map(str, published)) if published else ''} |")
    return lines


def guarantee_lines(by_metric: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    lines = [
        "### HNAS's guarantees on all 15,625 cells: Spearman with CIFAR-10 test accuracy after 200 epochs",
        "",
        "In brackets the published figure. mu and nu were chosen by that correlation itself (see `recnas.bench.guarantee`);",
        "held out: chosen on one half of the cells and read on the other.",
        "",
        f"| M | {' | '.join(FORMS)} | held out |",
        f"|---|{'---|' * len(FORMS)}---|",
    ]
    for metric, forms in by_metric.items():
        published = CORRELATIONS.get(metric.partition("@")[0], (None,) * len(FORMS))
        cells = [f"{forms[form]['spearman']:.3f}" + (f" ({known})" if known is not None else "") for form, known in zip(FORMS, published)]
        lines.append(f"| {metric} | {' | '.join(cells)} | {forms['non-realizable']['held_out']:.3f} |")
    return lines


def write_down(part: str, lines: list[str]) -> None:
    """Put a part between its marks in README.md, in place of what was there."""
    mark = MARK.replace("hnas", f"hnas {part}")
    path = Path(os.environ.get("RECNAS_PAPER_README", HERE / "README.md"))
    text = path.read_text() if path.exists() else ""
    before, _, rest = text.partition(mark)
    _, _, after = rest.partition(mark)
    path.write_text(before + "\n".join([mark, *lines]) + "\n" + mark + (after or "\n"))
