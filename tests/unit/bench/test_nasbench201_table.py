"""The NAS-Bench-201 table: reading, asking, and what is said when it is not there."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recnas.bench.correlation import rank_correlation
from recnas.bench.nasbench201 import (
    DATASETS,
    EPOCHS,
    SPLITS,
    Nb201Table,
    find_table,
    write_generated,
    write_table,
)
from recnas.errors import DataError
from recnas.space.nasbench201 import Nb201Space
from recnas.space.nasbench201.arch import Nb201Arch
from recnas.space.nasbench201.key import key, published_class
from recnas.space.nasbench201.skeleton import count

ARCHS = [Nb201Arch.from_digits(digits) for digits in ("341311", "300010", "030001", "000000", "333333")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_generated(tmp_path / "nb201.parquet", ARCHS, seed=1)
    return tmp_path / "nb201.parquet"


def test_every_figure_can_be_asked_for(file):
    table = Nb201Table.read(file)
    assert len(table) == len(ARCHS)
    for dataset in DATASETS:
        for epochs in EPOCHS:
            for split in SPLITS:
                figures = table.accuracy(dataset, split, epochs)
                assert figures.dtype == np.float64
                assert ((figures > 0) & (figures < 100)).all()
                assert [table.of(arch, dataset, split, epochs) for arch in ARCHS] == figures.tolist()
            assert (table.seconds(dataset, epochs) > 0).all()
    np.testing.assert_array_equal(
        table.accuracy("ImageNet16-120", "test", 200), table.accuracy("imagenet16", "test", 200)
    )
    assert table.accuracy("cifar10", "test", 200)[3] == 10, "a cell without a path guesses"


def test_cells_that_are_one_network_are_averaged(file):
    table = Nb201Table.read(file)
    means = table.by_key("cifar10", "test", 200)
    assert len(means) == 4
    assert means[key(ARCHS[1])] == np.mean([table.of(arch, "cifar10", "test", 200) for arch in ARCHS[1:3]])


def test_the_official_index_comes_from_the_file(file):
    table = Nb201Table.read(file)
    assert sorted(table.index) == list(range(len(ARCHS)))
    assert [table.index_of(arch) for arch in ARCHS] == list(table.index)
    with pytest.raises(DataError, match="has no row for"):
        table.index_of(Nb201Arch.from_digits("111111"))


def test_generated_tables_are_the_same_for_the_same_seed(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_generated(tmp_path / name, ARCHS, seed)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() != (tmp_path / "c").read_bytes()


def test_the_folder_may_be_in_the_environment(file, monkeypatch):
    monkeypatch.setenv("RECNAS_TABLES", str(file.parent))
    assert find_table() == find_table(file.parent) == find_table(file) == file


def test_a_missing_table_says_where_it_comes_from_and_belongs(tmp_path, monkeypatch):
    advice = r"\n.*github.com/D-X-Y/NATS-Bench.*RECNAS_TABLES.*--table PATH"
    monkeypatch.delenv("RECNAS_TABLES", raising=False)
    with pytest.raises(DataError, match=r"is not known\." + advice):
        Nb201Table.read()
    monkeypatch.setenv("RECNAS_TABLES", str(tmp_path))
    with pytest.raises(DataError, match=f"no NAS-Bench-201 table at {tmp_path / 'nb201.parquet'}[.]" + advice):
        Nb201Table.read()


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text").write_text("not parquet")
    with pytest.raises(DataError, match="is not a Parquet table"):
        Nb201Table.read(tmp_path / "text")
    text = ARCHS[0].text
    for columns, match in (
        ({"arch": [text]}, "has no column index"),
        ({"index": [0], "arch": ["|pool~0|"]}, "is not a NAS-Bench-201 cell"),
        ({"index": [0, 1], "arch": [text, text]}, "more than once"),
    ):
        pq.write_table(pa.table(columns), tmp_path / "odd")
        with pytest.raises(DataError, match=match):
            Nb201Table.read(tmp_path / "odd")


def test_figures_that_are_not_there_are_named(tmp_path):
    write_table(tmp_path / "t", ARCHS, range(5), {"cifar10_test_200": np.arange(5.0)})
    table = Nb201Table.read(tmp_path / "t")
    with pytest.raises(DataError, match=r"no column cifar10_valid_12\.\n.*It has: cifar10_test_200"):
        table.accuracy("cifar10", "valid", 12)
    with pytest.raises(DataError, match="no column cifar10_seconds_12"):
        table.seconds("cifar10", 12)
    with pytest.raises(DataError, match=r"no data set 'cifar11'\.\n.*did you mean"):
        table.accuracy("cifar11", "test", 200)
    with pytest.raises(DataError, match="no split 'train'"):
        table.accuracy("cifar10", "train", 200)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="has no column 'mnist_test_200'"):
        write_table(tmp_path / "t", ARCHS, range(5), {"mnist_test_200": np.arange(5.0)})


REAL = Path(os.environ.get("RECNAS_SHARED", Path(__file__).parents[3].parent / "shared")) / "data/nb201.parquet"


@pytest.mark.skipif(not REAL.is_file(), reason="the NAS-Bench-201 table is not at hand")
def test_the_real_table():
    table = Nb201Table.read(REAL)
    assert len(table) == 15_625
    assert set(table.archs) == set(Nb201Space().every())
    assert list(table.index) == list(range(15_625)), "the file is in the official order"
    assert table.archs[10_427].digits == "341311"
    best = [table.accuracy(dataset, "test", 200).max() for dataset in DATASETS]
    assert np.round(best, 3).tolist() == [94.373, 73.513, 47.311]
    stored = pq.read_table(REAL, columns=["iso_class"])["iso_class"].to_pylist()
    ours = [published_class(arch) for arch in table.archs]
    assert len(set(stored)) == len(set(ours)) == len(set(zip(stored, ours))) == 6_466, "the same classes"
    assert len(table.by_key("cifar10", "test", 200)) == 5_260


@pytest.mark.skipif(not REAL.is_file(), reason="the NAS-Bench-201 table is not at hand")
def test_known_correlations_over_the_whole_space():
    table = Nb201Table.read(REAL)
    final = table.accuracy("cifar10", "test", 200)
    short = rank_correlation(table.accuracy("cifar10", "valid", 12), final, resamples=0)
    live, built = (
        rank_correlation([count(arch, keep_dead=dead).params for arch in table.archs], final, resamples=0)
        for dead in (False, True)
    )
    assert short.spearman == pytest.approx(0.772, abs=1e-3)
    assert live.spearman == pytest.approx(0.822, abs=1e-3)
    assert built.spearman == pytest.approx(0.753, abs=1e-3)


@pytest.mark.skipif(not REAL.is_file(), reason="the NAS-Bench-201 table is not at hand")
def test_cells_with_one_key_differ_by_the_noise_of_training_only():
    """As much as cells with the same live graph do; the published classes also mix different networks."""
    table = Nb201Table.read(REAL)
    figures = table.accuracy("cifar10", "test", 200)

    def spread(names: list[str]) -> float:
        _, group = np.unique(names, return_inverse=True)
        sizes = np.bincount(group)
        residual = figures - (np.bincount(group, figures) / sizes)[group]
        return float(np.sqrt((residual**2).sum() / (len(group) - len(sizes))))

    by_key = spread([key(arch) for arch in table.archs])
    by_class = spread([published_class(arch) for arch in table.archs])
    assert by_key == pytest.approx(0.2395, abs=1e-3)
    assert by_class == pytest.approx(0.2516, abs=1e-3)
