"""Only a share of the training rows without a click, which count for all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepared import PreparedData
from recnas.errors import ConfigError

RECIPE = """
name: log
separator: ","
header: true
label: {column: y}
dense: [{columns: [number], transform: none, standardise: false}]
sparse: [{columns: [item]}]
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    rng = np.random.default_rng(3)
    lines = [f"{int(rng.random() < 0.05)},{i},i{rng.integers(20)},{1 + i % 3}" for i in range(8000)]
    (folder / "log.csv").write_text("y,number,item,heavy\n" + "\n".join(lines) + "\n")
    return folder


def make(log: Path, out: Path, recipe: str, seed: int = 1) -> PreparedData:
    (log / "r.yaml").write_text(RECIPE + recipe)
    return prepare(str(log / "r.yaml"), [log / "log.csv"], out, PrepareOptions(seed=seed), threads=2)


def of_rows(data: PreparedData, split: str, array: str) -> dict[int, float]:
    numbers = data.array(split, "dense")[:, 0].astype(int).tolist()
    return dict(zip(numbers, data.array(split, array).tolist()))


@pytest.mark.parametrize("weight", ["", "weight: {column: heavy}\n"])
def test_a_tenth_is_kept_and_counts_for_all(log: Path, tmp_path: Path, weight: str):
    whole = make(log, tmp_path / "whole", weight)
    data = make(log, tmp_path / "d", f"{weight}negatives: 0.1\n")
    for split in ("valid", "test"):
        assert of_rows(data, split, "label") == of_rows(whole, split, "label")
        assert set(of_rows(data, split, "weight").values()) == ({1.0, 2.0, 3.0} if weight else {1.0})
    before, after = of_rows(whole, "train", "label"), of_rows(data, "train", "label")
    assert {n for n, label in before.items() if label} == {n for n, label in after.items() if label}
    assert set(after) < set(before)
    others = [n for n, label in after.items() if not label]
    assert len(others) == pytest.approx(0.1 * sum(1 for label in before.values() if not label), rel=0.12)
    assert data.manifest["left_out"] == len(before) - len(after)
    for number, found in of_rows(data, "train", "weight").items():
        own = 1 + number % 3 if weight else 1
        assert found == pytest.approx(own * (1 if after[number] else 10))
    # What a model learns is the click rate of the whole log, not that of the rows that are left.
    assert data.manifest["click_rate"]["train"] == pytest.approx(whole.manifest["click_rate"]["train"], rel=0.12)
    assert np.mean(list(after.values())) > 5 * np.mean(list(before.values()))
    assert make(log, tmp_path / "again", f"{weight}negatives: 0.1\n").fingerprint == data.fingerprint
    assert data.summary()["left_out"] == data.manifest["left_out"]


def test_another_seed_keeps_others_and_a_share_must_be_one(log: Path, tmp_path: Path):
    one, two = (make(log, tmp_path / str(seed), "negatives: 0.5\n", seed) for seed in (1, 2))
    assert one.fingerprint != two.fingerprint
    for wrong in ("0", "1", "10%"):
        with pytest.raises(ConfigError, match="negatives"):
            make(log, tmp_path / "x", f"negatives: {wrong}\n")
