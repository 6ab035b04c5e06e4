"""SiGeo and ZiCo on warmed NAS-Bench-201 cells at 0, 10, 20 and 40 % of the images, compared with published values.

    RECNAS_SHARED=../shared scripts/test -m paper tests/paper/test_sigeo_warm_cells.py

Needs nb201.parquet and cifar10_train_sample.npz in the folder data of RECNAS_SHARED. Shares are of a sample of 3,805
images, not of the paper's 50,000: once in one pass (at most 23 steps), and once in 13 passes, which are as many steps as
one pass over that share of 50,000 images. The tables are written to docs/results/sigeo.md; that SiGeo ranks better after the
longer warm-up than before is asserted. About an hour and a half on one core; it continues where it was stopped (RECNAS_PAPER_RUNS,
default paper-runs/).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recnas.config import apply_overrides, read_yaml
from recnas.engines.execution import Execution
from recnas.jobs.correlate_cells import correlate_config, load_config
from recnas.progress import Progress

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("RECNAS_SHARED", ROOT.parent / "shared")) / "data"
TABLE, IMAGES = SHARED / "nb201.parquet", SHARED / "cifar10_train_sample.npz"
# Spearman on CIFAR-10 in SiGeo's table 3, by share.
PUBLISHED = {
    "zico": {0.0: 0.74, 0.1: 0.78, 0.2: 0.77, 0.4: 0.78},
    "sigeo": {0.0: 0.78, 0.1: 0.83, 0.2: 0.84, 0.4: 0.83},
}


@pytest.mark.paper
@pytest.mark.timeout(0)
@pytest.mark.skipif(not (TABLE.exists() and IMAGES.exists()), reason=f"needs {TABLE} and {IMAGES}")
@pytest.mark.parametrize(("cells", "passes"), [(100, 1), (100, 13)])
def test_warmed_cells_are_ranked_at_every_level(cells, passes, paper_runs, write_down):
    data = read_yaml(ROOT / "configs" / "nasbench201" / "correlate-warm.yaml")
    asked = [
        f"cells={cells}",
        f"score.warmup.epochs={passes}",
        "resamples=1000",
        f"table={TABLE}",
        f"score.images.path={IMAGES}",
        "datasets=[cifar10]",
    ]
    config = load_config(data, apply_overrides(data, asked), "the warm-up config")
    rows = correlate_config(config, paper_runs / f"nb201-warm-{cells}-{passes}x", Execution(2, progress=Progress()))
    by_name = {(row["proxy"].partition("@")[0], row["share"]): row for row in rows}
    write_down("sigeo.md", f"sigeo-warm-{passes}", as_lines(by_name, cells, passes))
    assert all(by_name[name, share]["spearman"] is not None for name, shares in PUBLISHED.items() for share in shares)
    if passes > 1:
        assert by_name["sigeo", 0.4]["change"] > 0


def as_lines(by_name: dict[tuple[str, float], dict], cells: int, passes: int) -> list[str]:
    shares = list(PUBLISHED["sigeo"])
    length = "one pass" if passes == 1 else f"{passes} passes"
    lines = [
        f"### {cells} random cells, 4 channels, {length} over shares of 3,805 CIFAR-10 images",
        "",
        "Spearman (95 % bootstrap interval over cells) with CIFAR-10 test accuracy after 200 epochs, and the published value, which is",
        "for shares of 50,000 images. Change: Spearman minus Spearman without warm-up, from paired resamples of the cells.",
        "",
        "| proxy | " + " | ".join(f"{share:.0%}" for share in shares) + " |",
        "|---" * (len(shares) + 1) + "|",
    ]
    for name in dict.fromkeys(name for name, _ in by_name):
        parts = []
        for share in shares:
            row = by_name[name, share]
            low, high = row["spearman_interval"] or (float("nan"), float("nan"))
            published = f", published {PUBLISHED[name][share]:.2f}" if name in PUBLISHED else ""
            parts.append(f"{row['spearman']:.3f} [{low:.2f}, {high:.2f}]{published}{changed(row)}")
        lines.append(f"| {name} | {' | '.join(parts)} |")
    return lines


def changed(row: dict) -> str:
    if "change" not in row:
        return ""
    low, high = row["change_interval"]
    return f", change {row['change']:+.3f} [{low:+.2f}, {high:+.2f}]"
