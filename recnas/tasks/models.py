"""The models that a user names.

dlrm, deepfm, ...   a model of the zoo                     RUN:best     the winner of a finished search
sklearn-lr          scikit-learn's, fitted on the rows     ARCH.json    any NASRec architecture
lightgbm            likewise, if it is installed           all          the zoo, as far as the data fit, and scikit-learn's
nasrec-full-criteo  a published architecture that is shipped
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from recnas.baselines.zoo import check_fits, check_model_settings, every_fitting, find_name, model_names
from recnas.bench.entrants import Architecture, Entrant, HandCrafted, OtherLibrary, Trainable
from recnas.bench.other_models import OTHER_MODELS
from recnas.config import check_settings, merged, nearest
from recnas.data.prepared import PreparedData
from recnas.errors import ConfigError, RecnasError
from recnas.runs.folder import RunDir
from recnas.runs.layout import WINNER_FILE
from recnas.runs.read import read_run
from recnas.space.nasrec.arch import NasrecArch
from recnas.space.nasrec.json import to_dict
from recnas.tasks.archs import check_clicks, named_arch, published
from recnas.train.recipe import KEYS
from recnas.train.settings import TrainSettings


def resolve(names: Sequence[str], data: PreparedData) -> list[Entrant]:
    """Entrants by name, in the order given. Every mistake is reported at once."""
    entrants: dict[str, Entrant] = {}
    faults: list[str] = []
    for name in names:
        try:
            meant = _resolve(name, data)
        except RecnasError as error:
            faults.append(f"{error.what}{f' ({error.fix})' if error.fix else ''}")
            continue
        for entrant in meant:
            earlier = entrants.get(entrant.id)
            if earlier is not None and name != "all":
                same = f" as {earlier.label}" if earlier.label != entrant.label else ""
                faults.append(f"{name} is the same model{same}, named twice")
            elif earlier is None:
                if any(entrant.label == other.label for other in entrants.values()):
                    entrant = replace(entrant, label=f"{entrant.label} ({entrant.id[:8]})")
                entrants[entrant.id] = entrant
    if not names:
        faults.append("no model is named")
    if faults:
        lines = "\n".join(f"  - {fault}" for fault in faults)
        raise ConfigError(
            f"these models cannot be compared:\n{lines}",
            f"Hand-crafted: {', '.join([*model_names(), *OTHER_MODELS])}, or all. Searched: RUN:best. Architectures: ARCH.json.",
        )
    return list(entrants.values())


def with_options(
    entrants: Sequence[Entrant], options: Mapping[str, Mapping[str, Any]], settings: TrainSettings
) -> list[Entrant]:
    """The same entrants, each with what a user has set for it alone: `{"dcn-v2": {"crosses": 4, "dropout": 0.4}}`."""
    given: dict[str, tuple[tuple[str, Any], ...]] = {}
    for name, nested in options.items():
        entrant = find_entrant(name, entrants, what="options")
        own = _flat(nested)
        recipe = {key: own.pop(key) for key in KEYS if key in own}
        if not isinstance(entrant, Trainable):
            raise ConfigError(f"options.{name}: {entrant.label} is a model of another library and takes none here.")
        if isinstance(entrant, HandCrafted):
            check_model_settings(entrant.id, own)
        elif own:
            raise ConfigError(
                f"options.{name} has {', '.join(own)}: an architecture has no options of its own.",
                f"Only its training may be set: {', '.join(KEYS)}.",
            )
        whole = settings.model_dump(mode="json")
        check_settings(TrainSettings, merged(whole, _nested(recipe)), f"options.{name}")
        given[entrant.id] = tuple({**dict(entrant.given), **recipe, **own}.items())
    return [replace(e, given=given[e.id]) if e.id in given and isinstance(e, Trainable) else e for e in entrants]


def _flat(nested: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Dotted keys: {"embeddings": {"l2": 0.1}} is {"embeddings.l2": 0.1}."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        flat |= _flat(value, f"{above}{key}.") if isinstance(value, Mapping) else {above + key: value}
    return flat


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, last = key.split(".")
        node = nested
        for name in parents:
            node = node.setdefault(name, {})
        node[last] = value
    return nested


def find_entrant(name: str, entrants: Sequence[Entrant], what: str = "--reference") -> Entrant:
    """The entrant a user means by `name`: label, id, alias or the same text as in --models."""
    for entrant in entrants:
        if name in (entrant.label, entrant.id) or find_name(name) == entrant.id:
            return entrant
    labels = [entrant.label for entrant in entrants]
    raise ConfigError(
        f"{what} {name} is not among the models that are compared; {nearest(name, labels)}",
        f"Add it to --models, or choose one of: {', '.join(labels)}",
    )


def _resolve(name: str, data: PreparedData) -> list[Entrant]:
    if name == "all":
        return [
            *(HandCrafted(n, n) for n in every_fitting(data.schema.n_sparse, data.schema.n_labels)),
            *([] if data.schema.labels else [OtherLibrary("sklearn-lr", "sklearn-lr")]),
        ]
    if (known := find_name(name)) is not None:
        check_fits(known, data.schema.n_sparse, data.schema.n_labels)
        return [HandCrafted(known, known)]
    if name in OTHER_MODELS:
        if data.schema.labels:
            raise ConfigError(f"{name} fits one label, and these data have {data.schema.n_labels}")
        return [OtherLibrary(name, name)]
    if name.endswith(":best"):
        return [_winner(name, Path(name.removesuffix(":best")), data)]
    if name.endswith(".json") or Path(name).is_file() or name in published():
        return [_architecture(named_arch(name), Path(name).stem, {})]
    raise ConfigError(f"there is no model {name!r}; {nearest(name.lower(), [*model_names(), *OTHER_MODELS])}")


def _winner(name: str, path: Path, data: PreparedData) -> Architecture:
    RunDir.open(path).check("search")
    run = read_run(path)
    check_clicks(run)
    if run.data is not None and not data.keeps_ids_of(run.data.fingerprint):
        theirs, seen = run.data.path, run.data.fingerprint[:12]
        raise ConfigError(
            f"{name} was searched on other data ({theirs}, fingerprint {seen}) than "
            f"{data.path} ({data.fingerprint[:12]}): results on different data say nothing about models; "
            f"compare on {theirs}, or train {path}/{WINNER_FILE} here as an architecture"
        )
    if not run.finished:
        raise ConfigError(f"{path} is not finished; continue it: recnas search --resume {path}")
    train = run.setting("final.retrain_settings") or run.setting("final.train")
    built = {key: train[key] for key in ("layernorm", "activation") if key in train}
    # What a race found out about its training is a part of the winner, unless a user says otherwise.
    changed = run.result.race.changed if run.result is not None and run.result.race is not None else {}
    return _architecture(named_arch(name), name, built, changed)


def _architecture(
    arch: NasrecArch, label: str, built: dict[str, Any], given: Mapping[str, Any] | None = None
) -> Architecture:
    options = tuple(sorted(built.items()))
    return Architecture(arch.key, label, to_dict(arch), options, given=tuple(sorted((given or {}).items())))
