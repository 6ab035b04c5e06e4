"""Batches on their way to a GPU: page-locked, copied on a stream of their own while the step before is computed.

A thread sends (`send`), the training receives (`received`): its stream waits for the copy, the host for nothing. On
other devices both are plain copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from recnas.data.batch import Batch


class Sent(NamedTuple):
    batch: Batch
    copied: Any  # the event after the copy; None where there are no streams


def send(batches: Iterator[Batch], device: torch.device) -> Iterator[Sent]:
    """Start the copy of every batch, in the thread that asks for it."""
    if device.type != "cuda":
        for batch in batches:
            yield Sent(batch.to(device), None)
        return
    stream = torch.cuda.Stream(device)
    for batch in batches:
        with torch.cuda.stream(stream):
            moved = Sent(batch.pin_memory().to(device, non_blocking=True), stream.record_event())
        yield moved


def received(sent: Iterator[Sent]) -> Iterator[Batch]:
    """The batches, for the stream that computes now; their memory is not given away while it reads them."""
    for batch, copied in sent:
        if copied is not None:
            here = torch.cuda.current_stream(batch.label.device)
            here.wait_event(copied)
            for tensor in batch.tensors():
                tensor.record_stream(here)
        yield batch
