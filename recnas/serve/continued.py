"""The weights a training goes on from: `recnas train --from RUN` on data that keep the ids of the run's data."""

from __future__ import annotations

from recnas.data.prepared import PreparedData
from recnas.errors import DataError, RunError, SpaceError
from recnas.serve.load import TrainedModel, load_trained
from recnas.space.nasrec.arch import NasrecArch
from recnas.space.nasrec.json import from_dict
from recnas.train.checkpoint import load_latest
from recnas.train.warm import WarmStart


def warm_start(spec: str, data: PreparedData) -> tuple[TrainedModel, NasrecArch, WarmStart]:
    """The model that `spec` names (see `load_trained`), its architecture and its weights, for a training on `data`.

    Raises:
        DataError: ids of `data` mean other values than those of the data it was trained on.
        RunError: it is no architecture of the NASRec space, which `train` trains.
    """
    model = load_trained(spec)
    if not data.keeps_ids_of(model.fingerprint) and not _same_vocabulary(model, data):
        raise DataError(
            f"{spec} was trained on data {model.fingerprint[:16]} ({model.data_path}), whose ids mean other values than those of "
            f"{data.path}.",
            f"Prepare the new rows with the same ids: recnas prepare --extend {model.data_path} --raw FILE --out DIR",
        )
    try:
        arch = from_dict(model.described)
    except SpaceError as error:
        raise RunError(
            f"{spec} is {model.key}, and `train` goes on with architectures of searches and trainings only.",
            "Name the run of recnas search or recnas train: --from RUN",
        ) from error
    saved = load_latest(model.path, model.made_from)
    if saved is None:
        raise RunError(f"{model.path} has no whole checkpoint.", "Restore the folder, or train again into a new --out.")
    facts = {"run": str(spec), "key": model.key, "seed": model.seed, "data": model.fingerprint}
    return model, arch, WarmStart(saved.tensors, facts)


def _same_vocabulary(model: TrainedModel, data: PreparedData) -> bool:
    try:
        trained_on = PreparedData.find(model.data_path)
    except DataError:
        return False
    return (
        trained_on is not None
        and trained_on.fingerprint == model.fingerprint
        and data.keeps_vocabulary(trained_on.vocabulary)
    )
