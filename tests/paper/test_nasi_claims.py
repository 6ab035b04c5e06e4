"""NASI's claims about T on the three NAS-Bench-1Shot1 spaces: its figure 1 and table 7.

    RECNAS_SHARED=../shared scripts/test -o timeout=0 -m paper tests/paper/test_nasi_claims.py

Needs cifar10_train_sample.npz in the folder data of RECNAS_SHARED; a quarter of an hour on one core. T, the squared norm of
a batch's gradient, should order architectures alike with true and random labels, with images and Gaussian noise, and
as the exact trace of the kernel does. The table is written to docs/results/nasi.md.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recnas.bench.agreement import agreement
from recnas.data.images.sets import image_batches, load_images
from recnas.model.vision import build_scored
from recnas.proxies.engine import score
from recnas.proxies.network import ScoringBatch
from recnas.proxies.registry import get_proxies
from recnas.space.registry import get_space

ROOT = Path(__file__).parents[2]
IMAGES = Path(os.environ.get("RECNAS_SHARED", ROOT.parent / "shared")) / "data" / "cifar10_train_sample.npz"
SPACES = ("nasbench1shot1-1", "nasbench1shot1-2", "nasbench1shot1-3", "nasbench201")
ARCHS, CHANNELS, EXACT_ROWS = 40, 12, 32
SIZES = (4, 8, 16, 32, 64, 128)
# Pearson with the exact trace by batch size, in its table 7.
PUBLISHED = {
    "nasbench1shot1-1": (0.74, 0.80, 0.84, 0.83, 0.85, 0.86),
    "nasbench1shot1-2": (0.82, 0.87, 0.90, 0.89, 0.91, 0.91),
    "nasbench1shot1-3": (0.66, 0.74, 0.81, 0.79, 0.82, 0.84),
}


@pytest.mark.paper
@pytest.mark.timeout(0)
@pytest.mark.skipif(not IMAGES.exists(), reason=f"needs {IMAGES}")
def test_the_trace_needs_neither_labels_nor_images(write_down):
    torch.set_num_threads(1)
    lines = [
        f"### T under other conditions, on {ARCHS} random architectures per space, {CHANNELS} channels",
        "",
        "Pearson / Spearman over architectures of T with true labels and images, in batches of 64, against T with random labels and with",
        "Gaussian inputs (published, figure 1: Pearson about 1 and above 0.9 on the first three); of T in batches of b against the exact",
        f"trace of the kernel on {EXACT_ROWS} images (published, table 7, Pearson).",
        "",
        f"| space | random labels | Gaussian inputs | {' | '.join(f'b = {size}' for size in SIZES)} |",
        "|---|---|---|" + "---|" * len(SIZES),
    ]
    for space in SPACES:
        figures = measured(space)
        agree = [both(figures["64"], figures[name]) for name in ("random", "gaussian")]
        sizes = [both(figures[str(size)], figures["exact"]) for size in SIZES]
        known = [f" ({value})" for value in PUBLISHED.get(space, ())] or [""] * len(SIZES)
        cells = [*(text for text, _ in agree), *(text + value for (text, _), value in zip(sizes, known))]
        lines.append(f"| {space} | {' | '.join(cells)} |")
        assert agree[0][1] > 0.9, f"{space}: labels matter"
    write_down("nasi.md", "nasi claims", lines)


def measured(space: str) -> dict[str, np.ndarray]:
    """T under every condition, and the exact trace, of random architectures whose logits depend on the image."""
    images = load_images("cifar10", IMAGES)
    rules, rng = get_space(space), np.random.default_rng(0)
    batches = {str(size): image_batches(images, size) for size in SIZES}
    batches |= {"random": image_batches(images, labels="random"), "gaussian": image_batches(images, inputs="gaussian")}
    found: dict[str, list[float]] = {}
    while len(found.get("exact", ())) < ARCHS:
        network = build_scored(space, rules.sample(rng), images.classes, images.side, channels=CHANNELS, cells=3)
        values = {name: value_of(network, batch, "nasi_trace") for name, batch in batches.items()}
        values["exact"] = value_of(network, image_batches(images, EXACT_ROWS), "exact_ntk_trace") ** 2
        if all(math.isfinite(value) and value > 0 for value in values.values()):
            for name, value in values.items():
                found.setdefault(name, []).append(value)
    return {name: np.array(column) for name, column in found.items()}


def value_of(network: Any, batches: list[tuple[torch.Tensor, torch.Tensor]], proxy: str) -> float:
    """NaN where the network is degenerate for it."""
    scores = score(network, [ScoringBatch((pixels,), labels) for pixels, labels in batches], get_proxies([proxy]), 0)
    return scores[proxy].value if scores[proxy].reason is None else math.nan


def both(first: np.ndarray, second: np.ndarray) -> tuple[str, float]:
    (row,) = agreement({"first": first, "second": second})
    return f"{row['pearson']:.2f} / {row['spearman']:.2f}", row["pearson"]
