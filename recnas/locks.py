"""Locks on files that the system releases with the process. They are flock's, which Windows has not."""

from __future__ import annotations

from recnas.errors import RecnasError

try:
    import fcntl
except ImportError:  # nothing is locked by looking at a run, so only writing needs it
    fcntl = None  # type: ignore[assignment]


def lock(handle: int) -> None:
    """Hold the open file alone, until it is closed.

    Raises:
        BlockingIOError: another process holds it.
    """
    if fcntl is None:
        raise RecnasError(
            "This system has no file locks (fcntl), and recnas writes no folder that it cannot hold alone.",
            "Run it on Linux or macOS, or on Windows in WSL. Reading runs and predicting need no lock.",
        )
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
