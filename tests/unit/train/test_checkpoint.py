"""Round trips, refusals, and a crash at every point of writing."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from recnas.data.schema import Schema
from recnas.errors import RunError
from recnas.model.embeddings import build_embeddings
from recnas.train import checkpoint
from recnas.train.checkpoint import latest, load, load_latest, save

torch.set_num_threads(1)


def some_tensors(seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(50, 8, generator=generator)
    return {
        "network/a.weight": table,
        "network/view": table[10:20, ::2],  # neither contiguous nor alone in its memory
        "network/transposed": table.t(),
        "number": torch.tensor(3.5),
        "empty": torch.empty(0, 4),
        "half": table.bfloat16(),
        "whole": torch.arange(7),
        "flags": table[0] > 0,
        "parameter": torch.nn.Parameter(table[:3].clone()),
    }


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor.detach())


def test_round_trip(tmp_path: Path) -> None:
    tensors, facts = (
        some_tensors(),
        {"position": {"epoch": 1, "batch": 12}, "loss": 0.25, "names": ["a", None, True]},
    )
    path = save(tmp_path / "checkpoints", 123, tensors, facts, made_from={"data": "f00"})
    assert path.name == "step-000123"
    saved = load(path, made_from={"data": "f00"})
    assert (saved.step, saved.facts, saved.made_from) == (123, facts, {"data": "f00"})
    assert_same(saved.tensors, tensors)
    assert_same(load_file(path / "tensors.safetensors"), tensors)  # by the library's own reader
    assert sorted(p.name for p in path.iterdir()) == ["state.json", "tensors.safetensors"]


def test_large_tensors_are_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "_PIECE", 100)
    tensors = some_tensors()
    assert max(len(piece) for piece in checkpoint._pieces_of(tensors)) <= 200  # at least one row of a view
    assert_same(load(save(tmp_path, 1, tensors, {})).tensors, tensors)


def test_no_tensors_at_all(tmp_path: Path) -> None:
    assert load(save(tmp_path, 0, {}, {"a": 1})).tensors == {}


def test_loaded_tensors_do_not_reach_the_file(tmp_path: Path) -> None:
    path = save(tmp_path, 1, some_tensors(), {})
    load(path).tensors["network/a.weight"].zero_()
    assert_same(load(path).tensors, some_tensors())


def test_keeps_the_newest(tmp_path: Path) -> None:
    assert latest(tmp_path / "absent") is None
    for step in (5, 900, 1000, 1_000_000):
        save(tmp_path, step, some_tensors(step), {}, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-001000", "step-1000000"]
    found = load_latest(tmp_path)
    assert found is not None
    assert found.step == 1_000_000


def test_saving_a_step_again_and_going_back(tmp_path: Path) -> None:
    save(tmp_path, 5, some_tensors(1), {"n": 1})
    save(tmp_path, 5, some_tensors(2), {"n": 2})
    path = latest(tmp_path)
    assert path is not None
    assert load(path).facts == {"n": 2}
    save(tmp_path, 9, {}, {})
    save(tmp_path, 7, {}, {})  # the run went on from an earlier step
    assert latest(tmp_path) == tmp_path / "step-000007"
    assert not (tmp_path / "step-000009").exists()


def test_other_data_or_space_is_refused_with_both(tmp_path: Path) -> None:
    path = save(tmp_path, 1, {}, {}, made_from={"data": "aaa", "space": {"name": "small", "blocks": [7]}})
    load(path, made_from={"data": "aaa"})
    load(path, made_from={"space": {"name": "small", "blocks": (7,)}})
    with pytest.raises(RunError, match=r"data was aaa, now bbb"):
        load(path, made_from={"data": "bbb"})
    with pytest.raises(RunError, match=r"space was .*small.*, now full"):
        load_latest(tmp_path, made_from={"data": "aaa", "space": "full"})


def damage(path: Path, how: str) -> None:
    tensors, state = path / "tensors.safetensors", path / "state.json"
    target = state if "state" in how else tensors
    data = bytearray(target.read_bytes())
    if how.startswith("cut"):
        target.write_bytes(data[: len(data) // 2])
    elif how.startswith("empty"):
        target.write_bytes(b"")
    elif how.startswith("remove"):
        target.unlink()
    elif how == "flip state":
        target.write_text(json.dumps({**json.loads(data), "step": 77}))
    else:
        data[-3] ^= 1
        target.write_bytes(data)


@pytest.mark.parametrize("file", ["tensors", "state"])
@pytest.mark.parametrize("how", ["cut", "empty", "remove", "flip"])
def test_a_damaged_checkpoint_is_neither_used_nor_passed_over(how: str, file: str, tmp_path: Path) -> None:
    save(tmp_path, 1, some_tensors(), {})
    bad = save(tmp_path, 2, some_tensors(), {})
    damage(bad, f"{how} {file}")
    for read in (lambda: load(bad), lambda: load_latest(tmp_path)):
        with pytest.raises(RunError, match=r"step-000002 is damaged: [^$]*recnas repair"):
            read()


def test_a_checkpoint_that_cannot_be_read_now_is_not_taken_for_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1, some_tensors(), {})

    def fails(path: Path) -> str:
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(checkpoint, "sha256_file", fails)
    with pytest.raises(OSError, match="Input/output error"):
        load_latest(tmp_path)


def test_a_file_that_another_program_made_is_refused_in_a_sentence(tmp_path: Path) -> None:
    for content in (b"", b"\xff" * 40, (2**62).to_bytes(8, "little") + b"{}", (8).to_bytes(8, "little") + b'{"a": 1}'):
        path = save(tmp_path / "c", 1, {}, {})
        (path / "tensors.safetensors").write_bytes(content)
        state = json.loads((path / "state.json").read_text()) | {
            "tensor_bytes": len(content),
            "tensor_sha256": hashlib.sha256(content).hexdigest(),
        }
        del state["sha256"]
        (path / "state.json").write_text(json.dumps(state | {"sha256": checkpoint._checksum(state)}))
        with pytest.raises(RunError, match="is not what recnas writes"):
            load(path)
        state |= {"facts": [1]}
        (path / "state.json").write_text(json.dumps(state | {"sha256": checkpoint._checksum(state)}))
        with pytest.raises(RunError, match="is damaged"):
            load(path)


def test_both_sides_of_a_difference_are_told_wherever_it_lies(tmp_path: Path) -> None:
    settings = {f"setting {n}": n for n in range(60)} | {"checkpoint_seconds": 60, "lr": 0.1}
    path = save(tmp_path, 1, {}, {}, made_from={"settings": settings})
    load(path, made_from={"settings": settings | {"checkpoint_seconds": 5}})  # changes no figure
    with pytest.raises(RunError, match=r"something else: lr was 0\.1, now 0\.2\."):
        load(path, made_from={"settings": settings | {"lr": 0.2}})


SYSTEM_CALLS = [(os, "fsync"), (os, "replace"), (os, "rename"), (checkpoint.shutil, "rmtree"), (os, "unlink")]


def counted(act: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Call `act(number)` before every call that changes the disk for good."""
    calls = [0]
    for module, name in SYSTEM_CALLS:
        real = getattr(module, name)

        def wrapped(*args: Any, real: Any = real, **kwargs: Any) -> Any:
            calls[0] += 1
            act(calls[0])
            return real(*args, **kwargs)

        monkeypatch.setattr(module, name, wrapped)
    return calls


def check_after_crash(folder: Path, new: dict[str, Tensor]) -> None:
    found = load_latest(folder)
    assert found is not None
    assert_same(found.tensors, some_tensors(1) if found.step == 1 else new)
    assert latest(folder) is not None
    path = save(folder, 3, some_tensors(3), {}, keep=1)  # the next save works and cleans up
    assert list(folder.iterdir()) == [path]


def calls_of_one_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    folder = tmp_path / "count"
    save(folder, 1, some_tensors(1), {})
    with monkeypatch.context() as patch:
        calls = counted(lambda number: None, patch)
        save(folder, 2, some_tensors(2), {}, keep=1)
    return calls[0]


def test_an_error_at_every_stage_leaves_a_good_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    total = calls_of_one_save(tmp_path, monkeypatch)
    assert total >= 8
    for stage in range(1, total + 1):
        folder = tmp_path / str(stage)
        save(folder, 1, some_tensors(1), {})

        def fail(number: int, stage: int = stage) -> None:
            if number == stage:
                raise OSError("disk full")

        with monkeypatch.context() as patch:
            counted(fail, patch)
            with contextlib.suppress(OSError):
                save(folder, 2, some_tensors(2), {}, keep=1)
        check_after_crash(folder, some_tensors(2))


def test_a_kill_at_every_stage_leaves_a_good_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    total = calls_of_one_save(tmp_path, monkeypatch)
    for stage in range(1, total + 1):
        folder = tmp_path / str(stage)
        save(folder, 1, some_tensors(1), {})
        child = os.fork()
        if child == 0:  # dies without any clean-up
            counted(lambda number, stage=stage: os._exit(9) if number == stage else None, monkeypatch)
            save(folder, 2, some_tensors(2), {}, keep=1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        check_after_crash(folder, some_tensors(2))


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    for wrong in (
        torch.empty(2, device="meta"),
        torch.zeros(2).to_sparse(),
        torch.zeros(2, dtype=torch.complex64),
    ):
        with pytest.raises(RunError, match="tensor bad"):
            save(tmp_path, 1, {"bad": wrong}, {})
    with pytest.raises(ValueError):
        save(tmp_path, 1, {}, {"loss": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_embeddings_go_through_a_file_to_the_other_backend(tmp_path: Path) -> None:
    schema = Schema.of_shape(0, [30, 40])
    fused = build_embeddings(schema, 8, "fused", seed=1)
    lookup = fused.begin(torch.arange(20).view(10, 2))
    lookup.leaf.sum().backward()
    lookup.apply()
    flat = {f"{part}/{name}": tensor for part, tables in fused.state_dict().items() for name, tensor in tables.items()}
    saved = load(save(tmp_path, 1, flat, {})).tensors
    plain = build_embeddings(schema, 8, "plain", seed=2)
    plain.load_state_dict(
        {part: {name: saved[f"{part}/{name}"] for name in tables} for part, tables in plain.state_dict().items()}
    )
    assert all(torch.equal(plain.state["sums"][name], fused.state["sums"][name]) for name in fused.weights)
    assert all(torch.equal(plain.weights[name], fused.weights[name]) for name in fused.weights)


def test_a_step_saved_again_and_again_is_always_the_newest(tmp_path: Path) -> None:
    for value in range(4):
        path = save(tmp_path, 0, {"x": torch.tensor([value])}, {}, keep=1)
        assert latest(tmp_path) == path
        found = load_latest(tmp_path)
        assert found is not None
        assert found.tensors["x"].tolist() == [value]
