"""How many threads torch computes with: decided here and nowhere else.

Sums over several threads round differently, so the number of threads is a part of a run:

* A worker, of whatever engine, computes with one thread (`one_thread`); engines see to that.
* What a run computes in its own process (warm-up, retraining) uses the number its manifest names. It is settled
  once, when the run is made: the setting `threads`, or what this machine offers. A run that goes on uses the same
  number again, whatever the machine or the environment is then.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from recnas.errors import RunError
from recnas.files import read_json
from recnas.machine import default_threads, keep_freed_memory


@contextmanager
def computing_with(threads: int) -> Iterator[None]:
    """Within, torch computes with so many threads; after it with as many as before."""
    import torch

    keep_freed_memory()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread() -> AbstractContextManager[None]:
    """For workers: the same rounding whatever their number. Work that has no use for torch does not load it."""
    return computing_with(1) if "torch" in sys.modules else nullcontext()


def settle_threads(out: Path | str, given: int | None) -> int:
    """The number of threads of the run in `out`, that exists or is about to be made.

    What the user asks for stands even against the run's own number: `RunDir.create` then says that they differ.
    """
    if given is not None:
        return given
    try:
        return int(read_json(Path(out) / "manifest.json")["threads"])
    except (
        FileNotFoundError,
        NotADirectoryError,
        ValueError,
        KeyError,
        TypeError,
        RunError,
    ):  # `RunDir.create` says what is wrong with it
        return default_threads()
