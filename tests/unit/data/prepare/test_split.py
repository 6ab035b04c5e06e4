from __future__ import annotations

import numpy as np
import pytest

from recnas.data.prepare.split import TEST, TRAIN, VALID, RowsOfChunk, assign_split, check_protocol, row_hash
from recnas.data.raw.recipe import load_recipe
from recnas.errors import ConfigError, DataError


def chunks_of(labels: np.ndarray, sizes: list[int], days: np.ndarray | None = None) -> list[RowsOfChunk]:
    out, first = [], 0
    for size in sizes:
        part = slice(first, first + size)
        out.append(RowsOfChunk(first, size, np.arange(size), labels[part], None if days is None else days[part]))
        first += size
    return out


def test_the_hash_is_the_same_however_it_is_cut():
    whole = row_hash(7, 0, 100)
    assert (np.concatenate([row_hash(7, 0, 30), row_hash(7, 30, 70)]) == whole).all()
    assert (row_hash(8, 0, 100) != whole).all()


def test_random_split_is_8_1_1_and_does_not_depend_on_chunks_or_rejected_rows():
    labels = np.zeros(100_000, np.uint8)
    one = np.concatenate(assign_split("random-8-1-1", 1, chunks_of(labels, [100_000]), None, None))
    many = np.concatenate(assign_split("random-8-1-1", 1, chunks_of(labels, [1, 49_999, 50_000]), None, None))
    assert (one == many).all()
    assert np.allclose(np.bincount(one) / 100_000, [0.8, 0.1, 0.1], atol=0.005)
    kept = np.flatnonzero(np.arange(100_000) % 7)
    [partly] = assign_split("random-8-1-1", 1, [RowsOfChunk(0, 100_000, kept, labels[kept], None)], None, None)
    assert (partly == one[kept]).all()


def test_balanced_split_is_exact_within_each_label():
    labels = (np.random.default_rng(0).random(10_007) < 0.2).astype(np.uint8)
    split = np.concatenate(assign_split("autoctr-8-1-1", 2018, chunks_of(labels, [5000, 5007]), None, None))
    for value in (0, 1):
        n = int((labels == value).sum())
        counts = np.bincount(split[labels == value], minlength=3)
        assert counts.tolist() == [round(n * 0.8), round(n * 0.9) - round(n * 0.8), n - round(n * 0.9)]


def test_time_split_by_column_and_by_row_order():
    labels = np.zeros(100, np.uint8)
    days = np.repeat(np.arange(10), 10)
    by_column = np.concatenate(assign_split("time-last-day", 0, chunks_of(labels, [35, 65], days), None, None))
    by_order = np.concatenate(assign_split("time-last-day", 0, chunks_of(labels, [35, 65]), 10, None))
    expected = [TRAIN] * 80 + [VALID] * 10 + [TEST] * 10
    assert by_column.tolist() == by_order.tolist() == expected


def test_too_few_days_say_so():
    with pytest.raises(DataError, match="at least 3 days"):
        assign_split("time-last-day", 0, chunks_of(np.zeros(4, np.uint8), [4], np.array([1, 1, 2, 2])), None, None)


def test_index_file(tmp_path):
    wanted = np.array([2, 0, 1, 0], np.uint8)
    np.save(tmp_path / "split.npy", wanted)
    found = assign_split("index", 0, chunks_of(np.zeros(4, np.uint8), [3, 1]), None, tmp_path / "split.npy")
    assert np.concatenate(found).tolist() == wanted.tolist()
    with pytest.raises(DataError, match="one number per raw row, 5"):
        assign_split("index", 0, chunks_of(np.zeros(5, np.uint8), [5]), None, tmp_path / "split.npy")


def test_protocol_faults_are_found_before_data_is_read():
    with pytest.raises(ConfigError, match="no split protocol"):
        check_protocol("shuffled", load_recipe("criteo"), None)
    with pytest.raises(ConfigError, match="no last day"):
        check_protocol("time-last-day", load_recipe("kdd12"), None)
    with pytest.raises(ConfigError, match="go together"):
        check_protocol("index", load_recipe("criteo"), None)
