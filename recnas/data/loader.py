"""Batches from memory-mapped arrays: sliced, shuffled without loading the file, resumable to the batch.

Shuffling draws blocks of neighbouring rows in random order, gathers some of them into a pool, and
permutes the rows of the pool. Reads stay contiguous and memory stays at one pool, while rows that were
neighbours in the file end up in different batches. The order is a pure function of (seed, epoch), so a
position is two integers.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch

from recnas.data.bags import PaddedIds
from recnas.data.batch import Batch
from recnas.data.prepared import PreparedData
from recnas.data.rank_batch import filled, share_of
from recnas.data.sending import received, send
from recnas.errors import ConfigError, DataError
from recnas.seeds import stream

T = TypeVar("T")

BLOCK_ROWS = 512  # read together: 26 kB of dense and 52 kB of ids for Criteo
POOL_BLOCKS = 16  # permuted together: 8,192 rows from 16 places of the file, which stay in the cache
POOL_ROWS = BLOCK_ROWS * POOL_BLOCKS


class BatchLoader:
    """Iterates over one split, epoch after epoch.

        loader = BatchLoader(data, "train", 512, shuffle=True, seed=7)
        for batch in loader.epoch():       # continues where the position says
            ...
        position = loader.state_dict()     # {"epoch": 0, "batch": 12}

    Args:
        rows: use only the first rows of the split (a warm-up on 1 % of the data).
        rank, world: this worker's number and the number of workers; batches are dealt out in turn.
        split_batches: instead, every worker gets its share of every batch, as a `PartBatch`.
        drop_last: leave out a last batch that is not full.
        device, prefetch: for training on a GPU: batches that are there already, made and sent ahead by a thread.
    """

    def __init__(
        self,
        data: PreparedData,
        split: str,
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        rows: int | None = None,
        drop_last: bool = False,
        rank: int = 0,
        world: int = 1,
        split_batches: bool = False,
        device: torch.device | None = None,
        prefetch: int = 0,
    ) -> None:
        if batch_size < 1 or not 0 <= rank < world:
            raise ConfigError(
                f"batch_size must be at least 1 and rank below world (got {batch_size}, {rank}, {world})."
            )
        self.rows = data.rows(split) if rows is None else min(rows, data.rows(split))
        if self.rows == 0:
            raise DataError(
                f"The split {split} of {data.path} has no rows.",
                "Prepare more rows, or use another --protocol.",
            )
        self.data, self.split = data, split
        self.batch_size, self.shuffle, self.seed = batch_size, shuffle, seed
        self.rank, self.world, self.drop_last = (0, 1, drop_last) if split_batches else (rank, world, drop_last)
        self.share = (rank, world) if split_batches else None
        self.device, self.prefetch = device, prefetch
        # Plain arrays over the maps: slicing the memmap subclass costs several microseconds each time.
        arrays: list[Any] = [data.array(split, name) for name in data.arrays]
        self._arrays = tuple(one if isinstance(one, PaddedIds) else np.asarray(one) for one in arrays)
        labels = data.schema.labels
        self._label_weights = torch.tensor([label.weight for label in labels]) if labels else None
        self._epoch = 0
        self._batch = 0  # of this worker, within the epoch

    def __len__(self) -> int:
        """Batches per epoch of this worker; the same for every worker."""
        full, rest = divmod(self.rows, self.batch_size)
        batches = full + (1 if rest and not self.drop_last else 0)
        return batches if self.world == 1 else batches // self.world

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self._epoch, "batch": self._batch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._epoch, self._batch = int(state["epoch"]), int(state["batch"])

    def epoch(self) -> Iterator[Batch]:
        """The rest of the current epoch. The position moves on before a batch is handed out, so a
        state saved while a batch is being used counts that batch as done."""
        if self._batch >= len(self):
            self._epoch, self._batch = self._epoch + 1, 0
        batches = self._make(self._epoch, self._batch)
        if self.device is None:
            ready = _ahead(batches, self.prefetch) if self.prefetch else batches
        else:
            sent = send(batches, self.device)
            ready = received(_ahead(sent, self.prefetch) if self.prefetch else sent)
        for batch in ready:
            self._batch += 1
            yield batch

    def _make(self, epoch: int, first: int) -> Iterator[Batch]:
        numbers = range(self.rank + first * self.world, len(self) * self.world, self.world)
        return self._shuffled(epoch, numbers) if self.shuffle else self._in_order(numbers)

    def _in_order(self, numbers: range) -> Iterator[Batch]:
        for number in numbers:
            yield self._cut(
                number, lambda start, stop: _batch(*(_rows_of(array, start, stop) for array in self._arrays))
            )

    def _shuffled(self, epoch: int, numbers: range) -> Iterator[Batch]:
        order = _ShuffledOrder(self._arrays, self.rows, self.seed, epoch)
        for number in numbers:
            yield self._cut(number, order.batch)

    def _cut(self, number: int, rows: Callable[[int, int], Batch]) -> Batch:
        """Batch `number`, or this worker's share of it; `rows(start, stop)` reads."""
        start, stop = number * self.batch_size, min((number + 1) * self.batch_size, self.rows)
        return self._shared(start, stop, self._with_label_weights(rows))

    def _with_label_weights(self, rows: Callable[[int, int], Batch]) -> Callable[[int, int], Batch]:
        weights = self._label_weights
        return rows if weights is None else lambda *ends: replace(rows(*ends), label_weights=weights)

    def _shared(self, start: int, stop: int, rows: Callable[[int, int], Batch]) -> Batch:
        if self.share is None:
            return rows(start, stop)
        first, last = share_of(start, stop, *self.share)
        found = rows(first, last) if first < last else None
        return filled(found, lambda: rows(start, start + 1), stop - start, self.share[1])


class _ShuffledOrder:
    """The shuffled order of one epoch, with one pool of rows in memory.

    Blocks are copied into the pool before rows are drawn from it: the copy reads the file in long
    stretches, and the random draws then hit the processor's cache. The last rows of the file that do not
    fill a block come at the end of the epoch.
    """

    def __init__(self, arrays: tuple[np.ndarray | PaddedIds, ...], rows: int, seed: int, epoch: int) -> None:
        rng = stream(seed, "row-order", epoch)
        self.blocks = rng.permutation(rows // BLOCK_ROWS)
        # One permutation serves every pool of the epoch: their rows differ, so their mixtures do too.
        self.within = rng.permutation(POOL_ROWS)
        whole = len(self.blocks) * BLOCK_ROWS
        # The same memory for every pool, so that it stays in the cache.
        self.padded = next((array for array in arrays if isinstance(array, PaddedIds)), None)
        single = [array.single if isinstance(array, PaddedIds) else array for array in arrays]
        self.pools = [np.empty((POOL_ROWS, *array.shape[1:]), dtype=array.dtype) for array in single]
        self.block_copies = [
            (_as_values(array[:whole], BLOCK_ROWS), _as_values(pool, BLOCK_ROWS))
            for array, pool in zip(single, self.pools)
        ]
        self.tails = [array[whole:rows] for array in single]
        self.tail = (whole, rows)
        if self.padded is not None:  # a pool of the places of bags, behind the others
            places = self.padded.shape[1] - self.padded.single.shape[1]
            self.pools.append(np.empty((POOL_ROWS, places), dtype=np.int32))
        self.row_values = [_as_values(pool, 1) for pool in self.pools]
        self.number = -1

    def batch(self, start: int, stop: int) -> Batch:
        """The rows at places start..stop-1 of the shuffled order."""
        parts = []
        while start < stop:
            number = start // POOL_ROWS
            if number != self.number:
                self._fill(number)
            end = min(stop, (number + 1) * POOL_ROWS)
            order = self.order[start - number * POOL_ROWS : end - number * POOL_ROWS]
            parts.append([self._rows(k, order) for k in range(len(self.pools))])
            start = end
        arrays = parts[0] if len(parts) == 1 else [np.concatenate(pieces) for pieces in zip(*parts)]
        if self.padded is not None:
            arrays[1] = np.concatenate([arrays[1], arrays.pop()], axis=1, dtype=np.int64)
        return _batch(*arrays)

    def _rows(self, k: int, order: np.ndarray) -> np.ndarray:
        pool, values = self.pools[k], self.row_values[k]
        if values is None:
            return np.zeros((len(order), 0), dtype=pool.dtype)
        return values.take(order).view(pool.dtype).reshape(len(order), *pool.shape[1:])

    def _fill(self, number: int) -> None:
        blocks = self.blocks[number * POOL_BLOCKS : (number + 1) * POOL_BLOCKS]
        held = len(blocks) * BLOCK_ROWS
        for source, target in self.block_copies:
            if source is not None and target is not None and len(blocks):
                # Blocks are known to be in range; `clip` only spares numpy a second copy.
                source.take(blocks, out=target[: len(blocks)], mode="clip")
        if held < POOL_ROWS:
            for pool, tail in zip(self.pools, self.tails):
                pool[held : held + len(tail)] = tail
            held += len(self.tails[0])
        if self.padded is not None and held:
            spans = [(block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS) for block in blocks.tolist()]
            if held > len(blocks) * BLOCK_ROWS:
                spans.append(self.tail)
            self.padded.places_into(spans, self.pools[-1][:held])
        self.order = self.within if held == POOL_ROWS else self.within[self.within < held]
        self.number = number


def _as_values(array: np.ndarray, rows: int) -> np.ndarray | None:
    """Groups of `rows` rows as single opaque values, which numpy copies at once whatever their width."""
    if array.size == 0:
        return None
    width = array.size // len(array) * array.itemsize
    return array.reshape(-1).view(np.uint8).view(f"V{width * rows}")


def _rows_of(array: Any, start: int, stop: int) -> np.ndarray:
    """In file order: a view, or of bags what is put together, as wide as it is wanted."""
    return array.rows(start, stop, np.int64) if isinstance(array, PaddedIds) else array[start:stop]


def _batch(dense: np.ndarray, ids: np.ndarray, label: np.ndarray, weight: np.ndarray | None = None) -> Batch:
    """Ids and labels widen to what networks take; dense rows in file order stay views of the file."""
    wide_ids, wide_label = ids.astype(np.int64, copy=False), label.astype(np.float32, copy=False)
    heavy = None if weight is None else torch.from_numpy(weight)
    return Batch(torch.from_numpy(dense), torch.from_numpy(wide_ids), torch.from_numpy(wide_label), heavy)


def _ahead(batches: Iterator[T], depth: int) -> Iterator[T]:
    """Make batches in a thread, at most `depth` ahead of their use."""
    ready: queue.Queue[Any] = queue.Queue(maxsize=depth)
    stop = threading.Event()
    end = object()

    def work() -> None:
        try:
            for batch in batches:
                while not stop.is_set():
                    try:
                        ready.put(batch, timeout=0.1)
                        break
                    except queue.Full:
                        continue
                if stop.is_set():
                    return
            ready.put(end)
        except BaseException as error:
            ready.put(error)

    thread = threading.Thread(target=work, daemon=True, name="batches")
    thread.start()
    try:
        while (item := ready.get()) is not end:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()
