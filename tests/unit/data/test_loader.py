from __future__ import annotations

import numpy as np
import pytest
import torch

from recnas.data.loader import BLOCK_ROWS, POOL_BLOCKS, BatchLoader
from recnas.data.prepared import PreparedData
from recnas.errors import ConfigError, DataError


def rows_of(batches) -> np.ndarray:
    """Every row as bytes, so that rows can be compared whatever their order."""
    parts = [
        np.concatenate([b.dense.numpy().view(np.int32), b.ids.numpy(), b.label.numpy()[:, None]], axis=1)
        for b in batches
    ]
    return np.concatenate(parts).astype(np.int64)


def file_rows(data: PreparedData, split: str) -> np.ndarray:
    dense, ids, label = (np.asarray(data.array(split, name)) for name in ("dense", "ids", "label"))
    return np.concatenate([dense.view(np.int32), ids, label[:, None]], axis=1).astype(np.int64)


def test_file_order_gives_the_file(criteo_data: PreparedData):
    loader = BatchLoader(criteo_data, "valid", 300)
    batches = list(loader.epoch())
    assert len(batches) == len(loader)
    assert (rows_of(batches) == file_rows(criteo_data, "valid")).all()
    batch = batches[0]
    assert (batch.dense.dtype, batch.ids.dtype, batch.label.dtype) == (
        torch.float32,
        torch.int64,
        torch.float32,
    )


@pytest.mark.parametrize("batch_size", [1, 37, 512, 100_000])
def test_shuffling_keeps_every_row_once_and_changes_with_seed_and_epoch(criteo_data: PreparedData, batch_size):
    size = batch_size if batch_size > 1 else 1
    loader = BatchLoader(criteo_data, "train", size, shuffle=True, seed=3, rows=5000 if size == 1 else None)
    first, second = rows_of(loader.epoch()), rows_of(loader.epoch())
    expected = file_rows(criteo_data, "train")[: loader.rows]
    for found in (first, second):
        order = np.lexsort(found.T)
        assert (found[order] == expected[np.lexsort(expected.T)]).all()
    assert (first != second).any()
    again = rows_of(BatchLoader(criteo_data, "train", size, shuffle=True, seed=3, rows=loader.rows).epoch())
    other = rows_of(BatchLoader(criteo_data, "train", size, shuffle=True, seed=4, rows=loader.rows).epoch())
    assert (again == first).all()
    assert (other != first).any()


def test_neighbours_in_the_file_are_spread_over_batches(criteo_data: PreparedData):
    expected = file_rows(criteo_data, "train")
    place = {row.tobytes(): k for k, row in enumerate(expected)}
    batch = next(iter(BatchLoader(criteo_data, "train", 512, shuffle=True, seed=0).epoch()))
    blocks = [place[row.tobytes()] // BLOCK_ROWS for row in rows_of([batch])]
    assert len(set(blocks)) == POOL_BLOCKS
    assert max(blocks) - min(blocks) > len(expected) // BLOCK_ROWS // 2  # from all over the file
    assert max(np.bincount(blocks)) < 512 / POOL_BLOCKS * 2


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_position_is_restored_exactly(criteo_data: PreparedData, shuffle, prefetch):
    def loader() -> BatchLoader:
        return BatchLoader(criteo_data, "train", 512, shuffle=shuffle, seed=5, prefetch=prefetch)

    straight = loader()
    whole = [*straight.epoch(), *straight.epoch()]
    first = loader()
    taken = []
    for batch in first.epoch():
        taken.append(batch)
        if len(taken) == 11:
            break
    second = loader()
    second.load_state_dict(first.state_dict())
    rest = [*second.epoch(), *second.epoch()]
    assert (rows_of(taken + rest) == rows_of(whole)).all()


def test_workers_share_an_epoch_without_overlap(criteo_data: PreparedData):
    loaders = [BatchLoader(criteo_data, "train", 100, shuffle=True, seed=1, rank=r, world=3) for r in range(3)]
    assert len({len(loader) for loader in loaders}) == 1
    dealt = [list(loader.epoch()) for loader in loaders]
    single = list(BatchLoader(criteo_data, "train", 100, shuffle=True, seed=1).epoch())
    interleaved = [batch for group in zip(*dealt) for batch in group]
    assert (rows_of(interleaved) == rows_of(single[: len(interleaved)])).all()


def test_drop_last_and_first_rows_only(criteo_data: PreparedData):
    loader = BatchLoader(criteo_data, "train", 512, rows=1100, drop_last=True)
    assert [len(batch) for batch in loader.epoch()] == [512, 512]


def test_no_dense_columns(tmp_path):
    from recnas.data.prepare.options import PrepareOptions
    from recnas.data.prepare.prepare import prepare

    (tmp_path / "u.data").write_text("".join(f"{k % 9}\t{k % 5}\t{k % 5 + 1}\t{k}\n" for k in range(400)))
    data = prepare("movielens", [tmp_path / "u.data"], tmp_path / "d", PrepareOptions(min_count=1))
    for shuffle in (False, True):
        batch = next(iter(BatchLoader(data, "train", 64, shuffle=shuffle).epoch()))
        assert batch.dense.shape == (64, 0)
        assert batch.ids.shape == (64, 2)


def test_writing_into_a_batch_does_not_reach_the_file(criteo_data: PreparedData):
    next(iter(BatchLoader(criteo_data, "train", 64).epoch())).dense.add_(1e6)
    assert criteo_data.verify() == []


def test_bad_arguments(criteo_data: PreparedData, tmp_path):
    from recnas.data.prepare.options import PrepareOptions
    from recnas.data.prepare.prepare import prepare

    with pytest.raises(ConfigError, match="rank below world"):
        BatchLoader(criteo_data, "train", 10, rank=2, world=2)
    (tmp_path / "u.data").write_text("1\t1\t5\t0\n2\t1\t1\t0\n")
    np.save(tmp_path / "s.npy", np.zeros(2, np.uint8))
    data = prepare(
        "movielens",
        [tmp_path / "u.data"],
        tmp_path / "d",
        PrepareOptions(protocol="index", split_index=str(tmp_path / "s.npy")),
    )
    with pytest.raises(DataError, match="has no rows"):
        BatchLoader(data, "test", 10)


def test_an_error_while_prefetching_is_raised_here(criteo_data: PreparedData, monkeypatch):
    loader = BatchLoader(criteo_data, "train", 64, prefetch=1)
    monkeypatch.setattr(loader, "_in_order", lambda numbers: (_ for _ in ()).throw(RuntimeError("disk")))
    with pytest.raises(RuntimeError, match="disk"):
        list(loader.epoch())
