"""A trained model as one program for serving: ids in, probabilities out, tables and folding inside.

    pt2    torch.export, loaded with torch.export.load: needs torch only
    onnx   ONNX, for onnxruntime and what else reads it; needs the packages of the extra `export`

Both take `dense [B, I]` float32 and `ids [B, F]` int64 (with columns of several values: `[B, n_ids]`, padded) for any B, and give `probability [B]`, of several labels
`[B, L]`.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch import Tensor, nn

from recnas.config import nearest
from recnas.data.schema import UNKNOWN_ID
from recnas.errors import BackendMissing, ConfigError
from recnas.serve.int8 import Int8Rows
from recnas.serve.load import TrainedModel
from recnas.serve.onnx_program import onnx_program

FORMATS = ("pt2", "onnx")
ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_TRACED_ROWS = 3  # neither 0 nor 1: those sizes would be taken for constants
_BESIDE = 1 << 30  # bytes of weights from which ONNX keeps them in a file of their own (its limit is 2 GB)

Program = Callable[[Tensor, Tensor], Tensor]


class Scorer(nn.Module):
    """Table lookup, network and sigmoid in one module.

    Weights are held under plain names, because a network's own may contain Python keywords, which a traced
    program cannot have as attributes.

    Args:
        int8: hold the tables as 8-bit numbers; see `recnas.serve.int8`.
    """

    def __init__(self, model: TrainedModel, int8: bool = False) -> None:
        super().__init__()
        self._stacks = [f"stack_{i}" for i in range(len(model.tables.stacks))]
        self._small = {name for name, table in zip(self._stacks, model.tables.are_tables) if int8 and table}
        for name, stack in zip(self._stacks, model.tables.stacks):
            small = Int8Rows.of(stack.detach()) if name in self._small else None
            self.register_buffer(name, stack.detach() if small is None else small.values)
            if small is not None:
                self.register_buffer(f"{name}_factors", small.factors)
        self.known_rows = nn.Buffer(torch.tensor(model.tables.row_map.true_rows, dtype=torch.int64))
        self._network, self._tables = (model.network,), model.tables  # not as a submodule
        self._names = {name: f"weight_{i}" for i, (name, _) in enumerate(model.network.named_parameters())}
        for name, parameter in model.network.named_parameters():
            self.register_buffer(self._names[name], parameter.detach())

    def forward(self, dense: Tensor, ids: Tensor) -> Tensor:
        """`[B]` or `[B, L]`. An id that no value has, as of a newer vocabulary, counts as unknown."""
        (network,), tables = self._network, self._tables
        known = torch.where((ids >= 0) & (ids < self.known_rows), ids, UNKNOWN_ID)
        embedded = tables.read([self._stack(name) for name in self._stacks], tables.row_map.fold(known))
        weights = {name: self.get_buffer(plain) for name, plain in self._names.items()}
        return torch.func.functional_call(network, weights, (dense, embedded)).sigmoid()

    def _stack(self, name: str) -> Tensor:
        values = self.get_buffer(name)
        # Read as a table of floats is, by `index_select` alone.
        return cast(Tensor, Int8Rows(values, self.get_buffer(f"{name}_factors"))) if name in self._small else values


def missing_packages(names: Sequence[str]) -> list[str]:
    return [name for name in names if importlib.util.find_spec(name) is None]


def check_format(name: str) -> None:
    """Before anything is loaded: the format exists, and its packages are here."""
    if name not in FORMATS:
        raise ConfigError(
            f"There is no export format {name!r}; {nearest(name, FORMATS)}",
            f"--to {' or --to '.join(FORMATS)}",
        )
    if name == "onnx" and (absent := missing_packages(ONNX_PACKAGES)):
        raise BackendMissing(
            f"Export to ONNX needs {', '.join(absent)}, not installed here.",
            f"pip install {' '.join(ONNX_PACKAGES)}   (or export with --to pt2, which needs torch only)",
        )


@torch.no_grad()
def write_program(model: TrainedModel, to: str, folder: Path, int8: bool = False) -> Path:
    """Trace the model and write `model.pt2` or `model.onnx`."""
    scorer = Scorer(model, int8).eval()
    # Made-up rows: a pt2 file keeps them as its example inputs.
    inputs = (
        torch.zeros(_TRACED_ROWS, model.schema.n_dense),
        torch.zeros(_TRACED_ROWS, model.schema.n_ids, dtype=torch.int64),
    )
    scorer(*inputs)  # fills caches of index tensors with real ones, before tracing could with placeholders
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(scorer, inputs, dynamic_shapes={"dense": {0: batch}, "ids": {0: batch}})
    path = folder / f"model.{to}"
    if to == "pt2":
        with _quiet(), _KeepingErrors(path) as file:
            torch.export.save(program, cast(IO[bytes], file))
        return path
    with _quiet():
        torch.onnx.export(
            program,
            (),
            path,
            input_names=["dense", "ids"],
            output_names=["probability"],
            dynamo=True,
            external_data=sum(buffer.nbytes for buffer in scorer.buffers()) > _BESIDE,
            verbose=False,
        )
    return path


class _KeepingErrors(io.RawIOBase):
    """A file whose writes always seem to work, and whose first error is raised when it is closed.

    torch's writer, written in C++, ends the whole process when it meets an error twice, as on a full disk.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self._error: OSError | None = None

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:  # asked for, and only to go back to the start at the end
        return True

    def seek(self, place: int, whence: int = 0) -> int:
        return place

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        try:
            rest = view if self._error is None else view[:0]
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._error = error
        return len(view)

    def close(self) -> None:
        super().close()
        self._file.close()
        error, self._error = self._error, None
        if error is not None:
            raise error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the converters have to say about themselves."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def read_program(path: Path) -> Program:
    """The written file as a function, loaded as a server would."""
    if path.suffix == ".pt2":
        module = torch.export.load(path).module()
        return lambda dense, ids: module(dense, ids)
    onnx = onnx_program(path)
    return lambda dense, ids: torch.from_numpy(onnx(dense.numpy(), ids.numpy()))
