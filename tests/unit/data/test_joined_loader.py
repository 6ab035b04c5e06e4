"""Two splits read as one."""

from __future__ import annotations

import torch

from recnas.data.joined_loader import JoinedLoader
from recnas.data.loader import BatchLoader


def make(data, seed: int = 3) -> JoinedLoader:
    return JoinedLoader([BatchLoader(data, split, 256, shuffle=True, seed=seed) for split in ("train", "valid")], seed)


def test_every_row_of_both_splits_once_an_epoch(criteo_data):
    loader = make(criteo_data)
    batches = list(loader.epoch())
    assert len(batches) == len(loader)
    ids = torch.cat([batch.ids for batch in batches])
    alone = torch.cat(
        [torch.as_tensor(criteo_data.array(split, "ids").astype("int64")) for split in ("train", "valid")]
    )
    assert sorted(map(tuple, ids.tolist())) == sorted(map(tuple, alone.tolist()))
    again = list(loader.epoch())
    assert not all(torch.equal(a.ids, b.ids) for a, b in zip(batches, again) if a.ids.shape == b.ids.shape)


def test_it_goes_on_exactly_where_it_was(criteo_data):
    whole = make(criteo_data)
    batches = [*whole.epoch(), *whole.epoch()]
    for cut in (0, 1, 7, len(whole) - 1, len(whole), len(whole) + 5):
        first = make(criteo_data)
        taken = 0
        while taken < cut:
            for _ in first.epoch():
                taken += 1
                if taken == cut:
                    break
        second = make(criteo_data)
        second.load_state_dict(first.state_dict())
        rest = list(second.epoch())
        expected = batches[cut : len(whole) * (1 + (cut >= len(whole)))]
        assert len(rest) == len(expected)
        assert all(torch.equal(a.ids, b.ids) for a, b in zip(rest, expected))
