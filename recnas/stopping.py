"""Being asked to stop: Ctrl-C, the SIGTERM of a scheduler, the SIGHUP of a terminal that closes. All three mean the same.

A command says how it goes on and ends with 128 + the signal's number. A training finishes its step and writes a checkpoint
first; a second signal, or anything that is not training, stops at once. What is not done within `GRACE` seconds is ended.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

GRACE = 20.0  # seconds that workers are given for a step and a checkpoint; schedulers usually give 30
# Windows has no terminals that close.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Stopped(KeyboardInterrupt):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _State:
    waits = False  # whether the first signal may wait for `check`
    asked: int | None = None  # the signal that waits


_state = _State()


def _handle(number: int, frame: Any) -> None:
    if _state.waits and _state.asked is None:
        _state.asked = number
        return
    raise Stopped(number)


@contextmanager
def listening(besides: tuple[int, ...] = ()) -> Iterator[None]:
    """Within, every signal that asks for the end raises `Stopped`.

    Args:
        besides: signals that stay as they are. One that is ignored (nohup) stays so too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS if number not in besides}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, _handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def waiting_for_checks() -> Iterator[None]:
    """Within, the first signal waits until `asked` is looked at; once it has, that is the caller's business."""
    if _state.waits:
        yield
        return
    _state.waits = True
    try:
        yield
    finally:
        _state.waits = False
    number, _state.asked = _state.asked, None
    if number is not None:  # came after the last look
        raise Stopped(number)


def asked() -> int | None:
    """The signal that waits; None if there is none."""
    return _state.asked


def stop() -> None:
    """What waited happens now."""
    number, _state.asked = _state.asked, None
    if number is not None:
        raise Stopped(number)
