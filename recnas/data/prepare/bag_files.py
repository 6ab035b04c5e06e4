"""The bags of a preparation: from the keys of chunks to values and ends in the files of the splits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from recnas.data.prepare.arrayfile import ArrayFile
from recnas.data.prepare.split import LEFT_OUT, SPLITS, TRAIN
from recnas.data.raw.id_table import Ids
from recnas.data.raw.pieces import BagColumn
from recnas.data.schema import UNKNOWN_ID

# Where the values of a chunk begin, by split and bag.
ValuePlaces = list[dict[str, int]]


def bag_arrays(chunk_bags: dict[str, BagColumn]) -> dict[str, np.ndarray]:
    """The arrays of a chunk file."""
    arrays: dict[str, np.ndarray] = {}
    for name, bag in chunk_bags.items():
        arrays[f"bag:{name}"], arrays[f"counts:{name}"] = bag.keys, bag.counts
        if bag.cut.any():
            arrays[f"cut:{name}"] = bag.cut
    return arrays


def keys_of_bag(chunk: ArrayFile, name: str, split: np.ndarray, every_split: bool) -> np.ndarray:
    """The keys that the vocabulary is made of: those of training rows, or all."""
    counts = chunk.read(f"counts:{name}")[: len(split)]
    chosen = split < LEFT_OUT if every_split else split == TRAIN
    keys = chunk.read(f"bag:{name}")
    return keys[: int(counts.sum())][np.repeat(chosen, counts)]


def values_of_chunk(chunk: ArrayFile, names: list[str], split: np.ndarray) -> ValuePlaces:
    """How many values of each bag go to each split."""
    found: ValuePlaces = [{} for _ in SPLITS]
    for name in names:
        counts = chunk.read(f"counts:{name}")[: len(split)].astype(np.int64)
        for s in range(len(SPLITS)):
            found[s][name] = int(counts[split == s].sum())
    return found


def value_places(chunks: list[ArrayFile], splits: list[np.ndarray], names: list[str]) -> list[ValuePlaces]:
    """Where the values of each chunk begin, and behind the last chunk how many there are."""
    place: ValuePlaces = [dict.fromkeys(names, 0) for _ in SPLITS]
    found = [place]
    if names:
        for chunk, split in zip(chunks, splits):
            sizes = values_of_chunk(chunk, names, split)
            place = [{name: at[name] + size[name] for name in names} for at, size in zip(place, sizes)]
            found.append(place)
    else:
        found += [place] * len(chunks)
    return found


class EncodedBag(NamedTuple):
    """A bag of a chunk's rows in the order of their splits."""

    values: np.ndarray  # int32
    counts: np.ndarray  # int64 [n]
    cut: np.ndarray  # int64 [n]

    def part(self, start: int, stop: int) -> EncodedBag:
        ends = np.concatenate(([0], np.cumsum(self.counts)))
        return EncodedBag(self.values[ends[start] : ends[stop]], self.counts[start:stop], self.cut[start:stop])

    def facts(self) -> dict[str, Any]:
        """Sums over the rows; `unknown_rows` have values, and all of them are unknown."""
        known = np.zeros(len(self.counts), dtype=bool)
        row = np.repeat(np.arange(len(self.counts)), self.counts)
        known[row[self.values != UNKNOWN_ID]] = True
        return {
            "values": len(self.values),
            "unknown": int((self.values == UNKNOWN_ID).sum()),
            "cut": int(self.cut.sum()),
            "cut_rows": int((self.cut > 0).sum()),
            "empty_rows": int((self.counts == 0).sum()),
            "unknown_rows": int(((self.counts > 0) & ~known).sum()),
            "largest": int(self.values.max(initial=0)),
        }


def encoded_bag(chunk: ArrayFile, name: str, table: Ids, order: np.ndarray) -> EncodedBag:
    """A bag of a chunk's first rows, in `order`."""
    counts = chunk.read(f"counts:{name}")[: len(order)].astype(np.int64)
    ids = table.look_up(chunk.read(f"bag:{name}")[: int(counts.sum())])
    cut = (
        chunk.read(f"cut:{name}").astype(np.int64)[order] if f"cut:{name}" in chunk else np.zeros(len(order), np.int64)
    )
    begins = (np.cumsum(counts) - counts)[order]
    counts = counts[order]
    ends = np.cumsum(counts)
    places = np.repeat(begins - (ends - counts), counts) + np.arange(len(ids))
    return EncodedBag(ids[places], counts, cut)
