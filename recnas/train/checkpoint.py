"""Checkpoints: one folder each, whole or absent, and nothing in them is ever executed.

    checkpoints/step-000123/tensors.safetensors   every tensor by name, readable by the safetensors library
    checkpoints/step-000123/state.json            step, facts, what it was made from, checksums

    save(run.checkpoints, step, trainer.tensors(), trainer.facts(), made_from={"data": fingerprint})
    saved = load_latest(run.checkpoints, made_from={"data": fingerprint})      # None if there is none

A checkpoint is written under a hidden name, flushed to disk, and renamed; older ones are removed only after
that. A crash at any moment leaves the previous one. So a checkpoint that does not verify was damaged later: it is an
error that names it, as is one that cannot be read; only where there is none at all, there is None. One process writes
(the run directory's lock sees to it). The tensor file is written piece by piece from live memory, because
copying tables of several gigabytes first would double them; the library's own writer also refuses views and
tensors that share memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from recnas.errors import RunError
from recnas.files import ensure_folder, fsync_folder, machine_fault, read_json, sha256_file, write_atomic, write_json
from recnas.runs.identity import differences

FORMAT = 1
TENSORS, STATE = "tensors.safetensors", "state.json"
_NAME = re.compile(r"step-(\d{6,})(?:\.(\d+))?")  # saving a step again makes step-000123.1
_PIECE = 2**24  # bytes written at a time
_DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


@dataclass(frozen=True)
class Checkpoint:
    """What `load` returns. Tensors are backed by the file until they are copied; do not write to them."""

    path: Path
    step: int
    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    made_from: dict[str, Any]


def save(
    folder: Path,
    step: int,
    tensors: Mapping[str, Tensor],
    facts: Mapping[str, Any],
    made_from: Mapping[str, Any] | None = None,
    keep: int = 2,
) -> Path:
    """Write a checkpoint and keep the newest `keep` up to this step.

    Later steps are removed: they were damaged, or belong to a run that went on from an earlier step since.

    Args:
        facts: the rest of the state, as JSON: loader position, anything.
        made_from: what must be the same to continue (data fingerprint, space description); see `load`.
    """
    ensure_folder(folder)
    for stale in folder.glob(".step-*"):  # of a crash
        shutil.rmtree(stale, ignore_errors=True)
    path = _free_name(folder, step)
    part = folder / f".{path.name}.part-{os.getpid()}"
    part.mkdir()
    try:
        checksum = hashlib.sha256()
        write_atomic(part / TENSORS, lambda file: _write_tensors(file, tensors, checksum))
        state = {
            "format": FORMAT,
            "step": step,
            "facts": dict(facts),
            "made_from": dict(made_from or {}),
            "tensor_bytes": (part / TENSORS).stat().st_size,
            "tensor_sha256": checksum.hexdigest(),
        }
        state["sha256"] = _checksum(state)
        write_json(part / STATE, state)
        os.rename(part, path)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    fsync_folder(folder)
    steps = [(_step(found), found) for found in candidates(folder)]
    current = [found for number, found in steps if number <= step]
    remove([*(found for number, found in steps if number > step), *current[max(1, keep) :]])
    return path


def latest(folder: Path) -> Path | None:
    """The newest checkpoint, unverified, or None."""
    return next(iter(candidates(folder)), None)


def load_latest(
    folder: Path, made_from: Mapping[str, Any] | None = None, device: torch.device | str = "cpu"
) -> Checkpoint | None:
    """`load` of the newest checkpoint, or None if there is none; one that is damaged or unfitting is refused, not skipped."""
    path = latest(folder)
    return load(path, made_from, device) if path is not None else None


def keep_newest(folder: Path) -> None:
    """Remove older checkpoints, where a crash came between writing the last one and that."""
    remove(candidates(folder)[1:])


def load(path: Path, made_from: Mapping[str, Any] | None = None, device: torch.device | str = "cpu") -> Checkpoint:
    """Read a checkpoint.

    Raises:
        RunError: it is damaged, or was made from something else than `made_from` says; both are shown.
    """
    return _open(path, _read_state(path), made_from, device)


def _open(
    path: Path, state: dict[str, Any], made_from: Mapping[str, Any] | None, device: torch.device | str
) -> Checkpoint:
    wanted = json.loads(json.dumps(dict(made_from or {})))
    if different := differences(state["made_from"], wanted):
        raise RunError(
            f"{path} was made from something else: {'; '.join(different)}.",
            "Continue with what the run was started with, or start a new run directory.",
        )
    try:
        with safe_open(path / TENSORS, framework="pt", device=str(device)) as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        if machine_fault(error) is not None:
            raise
        raise RunError(f"{path / TENSORS} is not what recnas writes: {error}.", "Train again.") from None
    return Checkpoint(path, int(state["step"]), tensors, state["facts"], state["made_from"])


# Files


def _write_tensors(file: IO[bytes], tensors: Mapping[str, Tensor], checksum: Any) -> None:
    """The safetensors format: length of the header, header in JSON, the bytes of every tensor."""
    header: dict[str, Any] = {}
    end = 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _DTYPES or tensor.layout != torch.strided or tensor.is_meta:
            raise RunError(f"the tensor {name} ({tensor.dtype}, {tensor.layout}, {tensor.device}) cannot be saved.")
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    for piece in (len(text).to_bytes(8, "little"), text, *_pieces_of(tensors)):
        file.write(piece)
        checksum.update(piece)


def _pieces_of(tensors: Mapping[str, Tensor]) -> Iterator[Any]:
    for tensor in tensors.values():
        flat = tensor.detach()
        rows = flat.view(-1) if flat.is_contiguous() else flat
        if rows.numel() == 0:
            continue
        at_a_time = max(1, _PIECE * rows.shape[0] // (rows.numel() * rows.element_size()))
        for piece in rows.split(at_a_time):
            # Bytes through uint8: numpy has no bfloat16.
            yield piece.contiguous().cpu().view(-1).view(torch.uint8).numpy().data


def _read_state(path: Path) -> dict[str, Any]:
    """`state.json` of a whole checkpoint; `RunError` for anything less."""
    try:
        state = read_json(path / STATE)
        if state["format"] != FORMAT:
            raise RunError(f"{path} has checkpoint format {state['format']}; this version reads {FORMAT}.")
        if state.pop("sha256") != _checksum(state):
            raise ValueError("the checksum of state.json differs")
        if (path / TENSORS).stat().st_size != state["tensor_bytes"]:
            raise ValueError(f"{TENSORS} was cut short")
        if sha256_file(path / TENSORS) != state["tensor_sha256"]:
            raise ValueError(f"the checksum of {TENSORS} differs")
        check_facts(state)
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, AttributeError) as error:
        # Not an OSError of another kind: what cannot be read now may be whole.
        raise RunError(
            f"{path} is damaged: {error}.",
            f"Restore it, or take what does not verify out, so that the run goes on from before it: recnas repair {path.parent}",
        ) from None
    return state


def check_whole(path: Path) -> None:
    """Read all of a checkpoint.

    Raises:
        RunError: it is damaged.
    """
    _read_state(path)


def check_facts(state: Mapping[str, Any]) -> None:
    """A checksum says that the file is as it was written, not that recnas wrote it."""
    if not isinstance(state["step"], int) or not all(isinstance(state[part], dict) for part in ("facts", "made_from")):
        raise ValueError("state.json is not what recnas writes")


def _checksum(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True, allow_nan=False).encode()).hexdigest()


def candidates(folder: Path) -> list[Path]:
    """Checkpoint folders, newest first, unverified."""
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), key=_age, reverse=True)


def _age(path: Path) -> tuple[int, int]:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1]), int(match[2] or 0)


def _step(path: Path) -> int:
    return _age(path)[0]


def _free_name(folder: Path, step: int) -> Path:
    """A step that is saved again gets a further name: the earlier folder stays until the new one is whole.

    The name sorts behind all of its step, also if the first of them is gone.
    """
    taken = [_age(path)[1] for path in candidates(folder) if _step(path) == step]
    return folder / (f"step-{step:06d}" + (f".{max(taken) + 1}" if taken else ""))


def remove(paths: Sequence[Path]) -> None:
    """Hide first: a half-removed folder must not look like a checkpoint. Nor does one come back after a power cut."""
    for path in paths:
        hidden = path.with_name(f".{path.name}.old-{os.getpid()}")
        os.rename(path, hidden)
        shutil.rmtree(hidden, ignore_errors=True)
    if paths:
        fsync_folder(paths[0].parent)
