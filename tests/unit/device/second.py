"""A second device where there is none: tensors that say they are elsewhere, computed on the CPU all the same.

    with second_device() as device:
        network = network.to(device.name)
        loss = network(batch.to(device.name))
        assert not device.reads

A tensor on it is a wrapper around one on the CPU, and torch takes it for one on `meta` (the one device that every
build of torch has and the CPU is not). Every operation goes by `_Second.run`, which does what a GPU would:

* refuses tensors of both devices in one operation, but for numbers (0 dimensions) where CUDA takes them too;
* refuses a generator of the CPU, and numpy;
* notes in `reads` whatever makes the host wait: numbers read, copies to the CPU, sizes that depend on values.

The numbers are the CPU's, so that whole jobs run, branches on values included, and results can be compared bit for bit.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map

NAME = torch.device("meta")
_Generator = torch.Generator
_aten = torch.ops.aten
# Their results are as long as values say, or their errors are looked for: CUDA tells the host.
_READS = {
    "_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_consecutive", "unique_dim", "equal", "bincount",
    "repeat_interleave", "_linalg_eigh", "_linalg_svd", "linalg_lu_factor_ex", "_linalg_slogdet",
}  # fmt: skip


class SecondTensor(torch.Tensor):
    """A tensor that says it is on the second device; `inner` has its numbers."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> SecondTensor:
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=NAME,
        )

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    def __repr__(self, **_: Any) -> str:
        return f"SecondTensor({self.inner})"

    @property
    def is_meta(self) -> bool:
        return False  # it has numbers

    def numpy(self, **_: Any) -> Any:
        raise TypeError("can't convert a tensor of the second device to numpy; copy it to the CPU first")

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert _device is not None, "a tensor of the second device outlived it"
        return _device.run(func, args, kwargs or {})


class SecondGenerator(_Generator):
    """A generator of the second device. An operation gets another object that stands for it, known by its seed."""

    seeds: ClassVar[set[int]] = set()

    def manual_seed(self, seed: int) -> SecondGenerator:
        self.seeds.add(seed)
        super().manual_seed(seed)
        return self


class _Second(TorchDispatchMode):
    """The device. reads: the operation and the line of recnas, for whatever made the host wait."""

    def __init__(self) -> None:
        super().__init__()
        self.name = NAME
        self.reads: list[str] = []
        self.operations = 0
        self.sent: list[str] = []  # likewise, for what came from the CPU

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.run(func, args, kwargs or {})

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        given, _ = tree_flatten((args, kwargs))
        tensors = [one for one in given if isinstance(one, torch.Tensor)]
        mine = [one for one in tensors if isinstance(one, SecondTensor)]
        wanted = kwargs.get("device")
        to_second = wanted is not None and torch.device(wanted).type == NAME.type
        to_cpu = wanted is not None and torch.device(wanted).type == "cpu"
        if not mine and not to_second:
            return func(*args, **kwargs)
        self.operations += 1
        name = func._schema.name.removeprefix("aten::")
        self._check(func, name, tensors, given)
        if name in ("copy_", "_to_copy") and not (to_cpu or isinstance(tensors[-1], SecondTensor)):
            self.sent.append(f"{list(tensors[-1].shape)} at {_place()}")
        inner = tree_map(_inner, (args, kwargs))
        out = func(*inner[0], **(inner[1] | ({"device": torch.device("cpu")} if wanted is not None else {})))
        if name in _READS or (name == "index" and any(one.dtype == torch.bool for one in _indices(args))):
            self._note(name)
        if name == "copy_" and not isinstance(args[0], SecondTensor):
            self._note(name)
            return args[0]
        if (name == "_to_copy" and to_cpu) or not _tensors(out):
            if name == "_to_copy":
                self._note(name)
            return args[0] if out is None and name.endswith("_") and isinstance(args[0], torch.Tensor) else out
        wrapped = tree_map(lambda one: SecondTensor(one) if isinstance(one, torch.Tensor) else one, out)
        return return_and_correct_aliasing(func, args, kwargs, wrapped) if mine else wrapped

    def _check(self, func: Any, name: str, tensors: list[torch.Tensor], given: list[Any]) -> None:
        if any(isinstance(one, _Generator) and one.initial_seed() not in SecondGenerator.seeds for one in given):
            raise RuntimeError(f"{name}: expected a generator of the second device, but found one of the CPU")
        if name in ("copy_", "_to_copy") or all(isinstance(one, SecondTensor) for one in tensors):
            return
        strangers = [one for one in tensors if not isinstance(one, SecondTensor)]
        numbers = all(one.dim() == 0 for one in strangers)
        if numbers and (torch.Tag.pointwise in func.tags or name in ("index_put_", "index_put", "_index_put_impl_")):
            return
        shapes = ", ".join(str(list(one.shape)) for one in strangers)
        raise RuntimeError(f"{name}: expected all tensors on one device, but found some on the CPU: {shapes}")

    def _note(self, name: str) -> None:
        self.reads.append(f"{name} at {_place()}")


def _place() -> str:
    stack = [one for one in traceback.extract_stack() if "/recnas/" in one.filename]
    return " < ".join(f"{one.filename.split('/recnas/')[-1]}:{one.lineno}" for one in reversed(stack[-3:]))


def _inner(one: Any) -> Any:
    return one.inner if isinstance(one, SecondTensor) else one


def _indices(args: Any) -> list[torch.Tensor]:
    return [one for one in args[1] if isinstance(one, torch.Tensor)]


def _tensors(out: Any) -> bool:
    return any(isinstance(one, torch.Tensor) for one in tree_flatten(out)[0])


_device: _Second | None = None
_tensor = torch.tensor


def _tensor_there(data: Any, *, device: Any = None, **options: Any) -> torch.Tensor:
    """`torch.tensor` makes nothing but a shape on `meta`, and asks nobody."""
    there = device is not None and torch.device(device).type == NAME.type
    return _tensor(data, **options).to(NAME) if there else _tensor(data, device=device, **options)


class _AnyGenerator(_Generator):
    """What `torch.Generator` stands for meanwhile: still a class, because others annotate with it."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return SecondGenerator() if torch.device(device).type == NAME.type else _Generator(device)


@contextmanager
def second_device() -> Iterator[_Second]:
    """Within, there is a second device, and recnas may be told to use it: its name is `meta`."""
    global _device
    with pytest.MonkeyPatch.context() as patch, _Second() as device:
        patch.setattr(torch, "Generator", _AnyGenerator)
        patch.setattr(torch, "tensor", _tensor_there)
        SecondGenerator.seeds.clear()
        patch.setattr("recnas.devices.KINDS", ("cpu", "cuda", NAME.type))
        _device = device
        _forget_kept_tensors()
        try:
            yield device
        finally:
            _device = None
            _forget_kept_tensors()


def _forget_kept_tensors() -> None:
    """Of functions that keep index tensors by device: those of this device are nothing on the true `meta`."""
    for name, module in list(sys.modules.items()):
        for value in vars(module).values() if name.startswith("recnas.model") else ():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
