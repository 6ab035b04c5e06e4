"""What is served: a trained model of a run, or a folder that `recnas export` wrote; raw rows in, probabilities out."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recnas.config import nearest
from recnas.data.raw.serving import Inputs, RowReader, Vocabularies
from recnas.errors import ConfigError
from recnas.serve.exported import is_export, read_export
from recnas.serve.onnx_program import ArrayProgram, onnx_program

if TYPE_CHECKING:
    from recnas.data.prepared import PreparedData
    from recnas.serve.load import TrainedModel

PROGRAMS = ("auto", "onnx", "torch")
EXAMPLES = 4  # values of each vocabulary, for the rows that `schema` shows
Ids = dict[str, dict[str, int]]  # by column and value


@dataclass
class Served:
    """Reads rows and computes; both may be called from several threads at once.

    Attributes:
        model: the architecture's key or a hand-crafted model's name. computed_by: onnx or torch.
        values: a few of every vocabulary. labels: their names, if there are several.
        kept: files that live as long as this does.
    """

    model: str
    seed: int
    computed_by: str
    reader: RowReader
    program: ArrayProgram
    values: dict[str, list[str]]
    labels: tuple[str, ...] = ()
    kept: ExitStack = field(default_factory=ExitStack)

    def probabilities(self, rows: Sequence[Inputs]) -> list[list[float]]:
        """By row and label."""
        if not rows:
            return []
        dense = np.array([dense for dense, _ in rows], np.float32).reshape(len(rows), -1)
        ids = np.array([ids for _, ids in rows], np.int64).reshape(len(rows), -1)
        found: list[list[float]] = self.program(dense, ids).reshape(len(rows), -1).tolist()
        return found


def open_served(
    target: str, program: str = "auto", data: Path | str | None = None, seed: int | None = None, threads: int = 1
) -> Served:
    """What `target` names: `RUN:best` and the like, or an export.

    Args:
        program: by what to compute; auto is onnx where its packages are, else torch. An export has its own.
        data: the prepared data of a run, if they are not where they were.
        threads: of one computation.

    Raises:
        ConfigError: an option that does not fit what is served.
    """
    if program not in PROGRAMS:
        raise ConfigError(f"There is no program {program!r}; {nearest(program, PROGRAMS)}", "--program onnx or torch")
    if threads < 1:
        raise ConfigError(f"--threads must be at least 1 (got {threads}).")
    folder = Path(target)
    if not is_export(folder):
        return _of_run(target, program, data, seed, threads)
    if data is not None or seed is not None:
        raise ConfigError(
            f"{target} is an export: it has its vocabularies and one model.", "Leave --data and --seed out."
        )
    return _of_export(folder, program, threads)


def _of_export(folder: Path, program: str, threads: int) -> Served:
    about = read_export(folder)
    file = folder / about["program"]["file"]
    own = "onnx" if file.suffix == ".onnx" else "torch"
    if program not in ("auto", own):
        raise ConfigError(f"{folder} holds {file.name}, which is for {own}.", "Leave --program out, or serve the run.")
    vocabularies = Vocabularies(folder, about)
    for column in vocabularies.files:  # now, not at the first request
        vocabularies(column, "")
    computed = onnx_program(file, threads) if own == "onnx" else _torch_program(file)
    model = about["model"]
    values = _some_of({column: vocabularies.read[vocabulary] for column, vocabulary in vocabularies.files.items()})
    labels = tuple(about["program"]["output"]["probability"].get("labels", ()))
    return Served(model["architecture"], model["seed"], own, RowReader(about, vocabularies), computed, values, labels)


def _torch_program(file: Path) -> ArrayProgram:
    import torch

    from recnas.serve.program import read_program

    program = read_program(file)

    def run(dense: np.ndarray, ids: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return program(torch.from_numpy(dense), torch.from_numpy(ids)).numpy()

    return run


def _of_run(target: str, program: str, data: Path | str | None, seed: int | None, threads: int) -> Served:
    from recnas.serve.load import load_trained
    from recnas.serve.manifest import describe_inputs
    from recnas.serve.program import ONNX_PACKAGES, check_format, missing_packages

    by = program if program != "auto" else "torch" if missing_packages(ONNX_PACKAGES) else "onnx"
    if by == "onnx":
        check_format(by)
    model = load_trained(target, data, seed)
    prepared = model.data(data)
    with ExitStack() as kept:
        computed = _traced(model, prepared, threads, kept) if by == "onnx" else _as_trained(model)
        ids = _vocabularies(prepared)
        reader = RowReader(describe_inputs(prepared), lambda column, value: ids[column].get(value))
        labels = tuple(label.name for label in model.schema.labels)
        return Served(model.key, model.seed, by, reader, computed, _some_of(ids), labels, kept.pop_all())


def _as_trained(model: TrainedModel) -> ArrayProgram:
    import torch

    return lambda dense, ids: model.predict(torch.from_numpy(dense), torch.from_numpy(ids)).numpy()


def _traced(model: TrainedModel, data: PreparedData, threads: int, kept: ExitStack) -> ArrayProgram:
    """The model as an ONNX program, compared with the model on validation rows as an export is."""
    import torch

    from recnas.serve.export import check_program
    from recnas.serve.program import write_program

    folder = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="recnas-serve-")))
    program = onnx_program(write_program(model, "onnx", folder), threads)
    check_program(lambda dense, ids: torch.from_numpy(program(dense.numpy(), ids.numpy())), model, data)
    return program


def _some_of(ids: Ids) -> dict[str, list[str]]:
    return {column: list(islice(values, EXAMPLES)) for column, values in ids.items()}


def _vocabularies(data: PreparedData) -> Ids:
    import pyarrow.parquet as pq

    from recnas.data.raw.encoder import fitted_recipe, vocabulary_file
    from recnas.data.schema import FIRST_VALUE_ID

    ids: Ids = {}
    inputs = fitted_recipe(data)[1]
    for column in inputs:
        if not column.is_dense and column.has_vocabulary:
            values = pq.read_table(vocabulary_file(data, column.name), columns=["value"]).column("value").to_pylist()
            ids[column.name] = {value: number for number, value in enumerate(values, FIRST_VALUE_ID)}
    return ids | {column.name: ids[column.table] for column in inputs if column.several and column.table in ids}
