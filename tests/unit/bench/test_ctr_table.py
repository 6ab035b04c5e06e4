"""Our own table: files, the space of its architectures, and searches on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recnas.bench.ctr_table import CtrTable, write_table
from recnas.bench.regret import evaluations_to_reach, order_curve, regret_curve
from recnas.bench.table_space import TableSpace, genes
from recnas.errors import DataError, SpaceError
from recnas.runs.records import Trained
from recnas.space.nasrec import NasrecSpace
from recnas.testing.space_suite import SpaceConformance

SPACE = NasrecSpace("nasrec-small", blocks=3)


def trainings(n: int = 120, seeds: int = 2) -> list[Trained]:
    rng = np.random.default_rng(0)
    archs = {}
    while len(archs) < n:
        arch = SPACE.sample(rng)
        archs.setdefault(SPACE.key(arch), arch)
    found = []
    for index, (key, arch) in enumerate(archs.items()):
        # the truth is smooth: it counts connections, so neighbours in genes are neighbours in loss
        loss = 0.5 - 0.001 * sum(
            10 * len(block.dense_in) + block.sparse_dim + (10 if block.fm else 0) for block in arch.blocks
        )
        for seed in range(seeds):
            metrics = {"logloss": loss + 0.001 * seed, "auc": 0.7}
            found.append(
                Trained(index=index, seed=seed, key=key, arch=SPACE.to_dict(arch), cost={"params": 10, "macs": 20},
                        train_loss=0.4, seconds=1.0, valid=metrics, test=metrics)
            )  # fmt: skip
    return found


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> CtrTable:
    path = tmp_path_factory.mktemp("table") / "table.parquet"
    write_table(path, trainings(), "nasrec-small", "f" * 64)
    return CtrTable.read(path)


def test_round_trip_averages_seeds_and_forgets_the_order(table: CtrTable, tmp_path: Path):
    assert (table.space, table.data, len(table.archs)) == ("nasrec-small", "f" * 64, 120)
    first = trainings()[0]
    assert table.valid[first.key] == pytest.approx(first.valid["logloss"] + 0.0005)
    assert table.seeds[first.key] == 2
    assert SPACE.key(SPACE.from_dict(table.archs[first.key])) == first.key
    write_table(tmp_path / "a", trainings(), "s", "d")
    write_table(tmp_path / "b", trainings()[::-1], "s", "d")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_missing_and_foreign_files_are_explained(tmp_path: Path):
    with pytest.raises(DataError, match="there is no table") as caught:
        CtrTable.read(tmp_path)
    assert "recnas bench build" in str(caught.value.fix)
    (tmp_path / "table.parquet").write_bytes(b"hello")
    with pytest.raises(DataError, match="not a Parquet table"):
        CtrTable.read(tmp_path)
    with pytest.raises(SpaceError, match="leaves nothing to search"):
        TableSpace({"a": {}})


class TestTableSpace(SpaceConformance):
    def space(self) -> TableSpace:
        return TableSpace({line.key: line.arch for line in trainings(40, 1)})


def test_genes_count_differences():
    a = {"blocks": [{"ops": ["fc", "dot"], "dim": 16}, {"ops": ["fc"], "dim": 32}]}
    b = {"blocks": [{"ops": ["fc"], "dim": 16}, {"ops": ["fc"], "dim": 64}]}
    assert len(genes(a) ^ genes(b)) == 3  # dot is gone, and one dim is another


@pytest.mark.parametrize("method", ["evolution", "local", "random"])
def test_regret_falls_to_zero_when_everything_was_tried(table: CtrTable, method: str):
    curve = regret_curve(method, TableSpace(table.archs), table.valid, candidates=120, seeds=10)
    assert len(curve.mean) == 120
    assert all(a >= b for a, b in zip(curve.mean, curve.mean[1:]))
    assert curve.mean[0] > 0
    if method == "random":
        assert curve.mean[-1] == pytest.approx(0, abs=1e-12)
        # expected best of n draws without replacement, by brute force over many shuffles
        values, rng = np.array(list(table.valid.values())), np.random.default_rng(1)
        best_of_5 = np.mean([rng.permutation(values)[:5].min() for _ in range(4000)]) - values.min()
        mean = np.mean(regret_curve("random", TableSpace(table.archs), table.valid, 5, 300).mean[4])
        assert mean == pytest.approx(best_of_5, rel=0.25)


def test_search_beats_chance_where_neighbours_are_alike(table: CtrTable):
    space = TableSpace(table.archs)
    clever, chance = (regret_curve(method, space, table.valid, 40, 100) for method in ("evolution", "random"))
    assert np.mean(clever.mean) < np.mean(chance.mean)
    assert evaluations_to_reach(clever.mean, clever.mean[-1]) <= 40
    assert evaluations_to_reach(clever.mean, -1) is None


def test_an_order_is_followed_from_its_best_score():
    truth = {"a": 0.5, "b": 0.4, "c": 0.45, "d": 0.6}
    curve = order_curve("by score", truth, {"a": 3.0, "b": 0.0, "c": 2.0, "d": 1.0}, 3)
    assert curve.mean == pytest.approx([0.1, 0.05, 0.05])
    assert order_curve("by score", truth, {"a": 3.0, "b": 0.0, "c": 2.0, "d": 1.0}, 6).mean[3:] == pytest.approx(
        [0.0, 0.0, 0.0]
    )
