"""Scores that outlast a training, so that models can be compared row by row: logits in file order, float32.

A .npy file that numpy reads, and behind it the SHA-256 of what is before: `read_logits` compares it.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np

from recnas.errors import RunError
from recnas.files import read_bytes, write_bytes

_DIGEST = hashlib.sha256().digest_size
_LARGEST = 64 << 30  # bytes; ten thousand million rows have less


def logits_path(folder: Path, split: str, seed: int) -> Path:
    """Of one seed of a training whose run directory is `folder`."""
    return folder / "predictions" / f"{split}-seed-{seed}.npy"


def write_logits(path: Path, logits: np.ndarray) -> None:
    """Whole or absent."""
    buffer = io.BytesIO()  # numpy writes arrays to files by ways of its own, which do not say why they failed
    np.save(buffer, logits.astype(np.float32))
    content = buffer.getvalue()
    write_bytes(path, content + hashlib.sha256(content).digest())


def read_logits(path: Path) -> np.ndarray:
    """Raises: RunError if they are gone or not what was written. Earlier versions wrote no checksum."""
    try:
        data = read_bytes(path, _LARGEST)
        stream = io.BytesIO(data)
        logits = np.load(stream, allow_pickle=False)
        content, digest = data[: stream.tell()], data[stream.tell() :]
    except FileNotFoundError:
        raise RunError(f"{path} is missing.", _AGAIN.format(path.parents[1])) from None
    except (ValueError, EOFError):
        raise RunError(f"{path} is damaged.", _AGAIN.format(path.parents[1])) from None
    if digest and digest != hashlib.sha256(content).digest():
        raise RunError(
            f"{path} is not what was written: it was changed or damaged since.", _AGAIN.format(path.parents[1])
        )
    return np.asarray(logits)


_AGAIN = "Restore it from a copy, or take it out and repeat the command: recnas repair {}"
