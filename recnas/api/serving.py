"""`recnas.load` and `recnas.export`: trained models, for use here or elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recnas.api.runs import Best
    from recnas.api.training import Training
    from recnas.data.prepared import PreparedData
    from recnas.serve.load import TrainedModel


@dataclass(frozen=True)
class Exported:
    """What was written, and how far it is from the model on the rows it was checked on."""

    path: Path
    program: Path  # model.pt2 or model.onnx
    bytes: int
    max_abs_difference: float  # of probabilities
    check: dict[str, Any]
    int8: dict[str, Any] | None = None  # bytes of the tables, log loss and AUC, before and after


def load(
    model: Best | Training | Path | str, seed: int | None = None, data: PreparedData | Path | str | None = None
) -> TrainedModel:
    """A trained model: RUN, RUN:best, RUN:seed-3, or RUN:deepfm of a comparison that kept its weights.

    Args:
        data: the prepared data, if they are not where the run was trained on them.
    """
    from recnas.api.settings import data_path
    from recnas.serve.load import load_trained

    return load_trained(str(model), None if data is None else data_path(data), seed)


def export(
    model: Best | Training | Path | str,
    out: str | Path,
    to: str = "pt2",
    *,
    seed: int | None = None,
    data: PreparedData | Path | str | None = None,
    int8: bool = False,
    quiet: bool = True,
) -> Exported:
    """Write a trained model for serving, checked against the model; see `recnas export --help`.

    Args:
        model: as for `recnas.load`.
        to: "pt2" or "onnx".
        int8: tables of 8-bit numbers; what that costs stands in model.json, and in `int8` of the result.
    """
    from recnas.api.settings import data_path
    from recnas.progress import Progress
    from recnas.serve.export import export as run_export

    where = None if data is None else data_path(data)
    found = run_export(str(model), to, out, seed=seed, data=where, int8=int8, progress=Progress(quiet=quiet))
    check = found["check"]
    return Exported(
        Path(found["out"]),
        Path(found["program"]),
        found["bytes"],
        float(check["max_abs_difference"]),
        check,
        found.get("int8"),
    )
