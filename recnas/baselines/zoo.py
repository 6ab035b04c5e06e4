"""Name to hand-crafted model: its settings, its network, and the grid it is tuned on.

    network = build("deepfm", InputShape.of(schema, width=16), {"dropout": 0.1}, seed=3)
    embeddings = build_embeddings(schema, width=network.table_width(16), ...)
    start_tables(embeddings, network, 16)
    logits = network(batch.dense, embeddings.lookup(batch.ids))

To add a model: one file with a settings class and a `Baseline`, one entry below, and a golden-value test; an encoder in
`recnas.space.plus.encode` and its weights in `encoded_parts` make it a point of the space nasrec-plus.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from recnas.baselines.autoint import AutoInt, AutoIntSettings
from recnas.baselines.base import Baseline, InputShape, ModelSettings, start_layers
from recnas.baselines.dcn import DCN, DCNSettings
from recnas.baselines.dcnv2 import DCNv2, DCNv2Settings
from recnas.baselines.dcnv3 import DCNv3, DCNv3Settings
from recnas.baselines.deepfm import DeepFM, DeepFMSettings
from recnas.baselines.dlrm import DLRM, DLRMSettings
from recnas.baselines.dnn import DNN, DNNSettings
from recnas.baselines.esmm import ESMM, ESMMSettings
from recnas.baselines.fibinet import FiBiNET, FiBiNETSettings
from recnas.baselines.finalmlp import FinalMLP, FinalMLPSettings
from recnas.baselines.finalnet import FinalNet, FinalNetSettings
from recnas.baselines.fm import FM, FMSettings
from recnas.baselines.fwfm import FwFM, FwFMSettings
from recnas.baselines.gdcn import GDCN, GDCNSettings
from recnas.baselines.lr import LR, LRSettings
from recnas.baselines.masknet import MaskNet, MaskNetSettings
from recnas.baselines.wide_deep import WideDeep, WideDeepSettings
from recnas.baselines.wukong import Wukong, WukongSettings
from recnas.baselines.xdeepfm import XDeepFM, XDeepFMSettings
from recnas.config import check_settings, nearest
from recnas.errors import ConfigError
from recnas.plugins import Parts

Grid = Mapping[str, tuple[Any, ...]]

DEEP: Grid = {
    "hidden": ((256, 128), (400, 400, 400), (1024, 512, 256)),
}


@dataclass(frozen=True)
class Entry:
    """One model of the zoo. `grid` is what tuning may change besides how any model is trained."""

    title: str
    network: type[Baseline]
    settings: type[ModelSettings]
    grid: Grid = field(default_factory=dict)
    labels: int | None = None  # that it is made for; None: any number


ZOO: dict[str, Entry] = {
    "lr": Entry("LR", LR, LRSettings),
    "fm": Entry("FM", FM, FMSettings),
    "fwfm": Entry("FwFM", FwFM, FwFMSettings),
    "dnn": Entry("DNN", DNN, DNNSettings, DEEP),
    "wide-deep": Entry("Wide&Deep", WideDeep, WideDeepSettings, DEEP),
    "deepfm": Entry("DeepFM", DeepFM, DeepFMSettings, DEEP),
    "xdeepfm": Entry("xDeepFM", XDeepFM, XDeepFMSettings, {**DEEP, "cin": ((64, 64), (128, 128))}),
    "dcn": Entry("DCN", DCN, DCNSettings, {**DEEP, "crosses": (2, 3, 5)}),
    "dcn-v2": Entry("DCN-V2", DCNv2, DCNv2Settings, {**DEEP, "crosses": (2, 3, 4)}),
    "autoint+": Entry("AutoInt+", AutoInt, AutoIntSettings, {**DEEP, "layers": (1, 2, 3)}),
    "dlrm": Entry("DLRM", DLRM, DLRMSettings, DEEP),
    "fibinet": Entry("FiBiNET", FiBiNET, FiBiNETSettings, {**DEEP, "bilinear": ("all", "each")}),
    "masknet": Entry("MaskNet", MaskNet, MaskNetSettings, {**DEEP, "structure": ("parallel", "serial")}),
    "finalmlp": Entry("FinalMLP", FinalMLP, FinalMLPSettings, {**DEEP, "fusion_heads": (1, 4)}),
    "finalnet": Entry("FinalNet", FinalNet, FinalNetSettings, {**DEEP, "blocks": (1, 2)}),
    "gdcn": Entry("GDCN", GDCN, GDCNSettings, {**DEEP, "crosses": (2, 3, 5)}),
    "dcnv3": Entry(
        "DCNv3",
        DCNv3,
        DCNv3Settings,
        {"exponential": (1, 2, 4), "linear": (1, 2, 4)},
    ),
    "wukong": Entry("Wukong", Wukong, WukongSettings, {**DEEP, "layers": (1, 2, 4), "rank": (4, 8, 16)}),
}
# Models for several labels, which are compared where the data have as many.
OF_SEVERAL_LABELS: dict[str, Entry] = {"esmm": Entry("ESMM", ESMM, ESMMSettings, DEEP, labels=2)}
ALIASES = {
    "autoint": "autoint+",
    "wdl": "wide-deep",
    "wide&deep": "wide-deep",
    "mlp": "dnn",
    "dcnv2": "dcn-v2",
    "dcn-v3": "dcnv3",
}
_PLUGGED: Parts[Entry] = Parts("hand-crafted model", lambda: [*ZOO, *OF_SEVERAL_LABELS, *ALIASES])


def register(name: str, entry: Entry) -> None:
    """Offer a model of a plugin, in small letters. It is compared by name; `all` and `zoo` mean recnas's own."""
    if not isinstance(entry, Entry):
        raise ConfigError(f"{name!r} is registered as a {type(entry).__name__}.", "Give a recnas.baselines.zoo.Entry.")
    if name != name.lower() or name.endswith((":best", ".json")) or "=" in name or name == "all":
        raise ConfigError(f"{name!r} cannot be the name of a model.", "Write it in small letters, such as 'my-model'.")
    _PLUGGED.register(name, entry)


def find_name(name: str) -> str | None:
    """The zoo's spelling of a model's name, or None."""
    lower = name.lower()
    if lower in ZOO or lower in OF_SEVERAL_LABELS or lower in ALIASES:
        return ALIASES.get(lower, lower)
    looks_like_one = not (set(lower) & set("/:=")) and not lower.endswith(".json")
    return lower if looks_like_one and _PLUGGED.find(lower) is not None else None


def model_names() -> list[str]:
    """The zoo, and the models of plugins that are loaded."""
    return [*ZOO, *OF_SEVERAL_LABELS, *_PLUGGED.known()]


def get_entry(name: str) -> Entry:
    found = find_name(name)
    entry = None if found is None else ZOO.get(found) or OF_SEVERAL_LABELS.get(found) or _PLUGGED.find(found)
    if entry is None:
        raise ConfigError(f"there is no hand-crafted model {name!r}; {nearest(name, model_names())}")
    return entry


def check_model_settings(name: str, values: Mapping[str, Any] | ModelSettings | None) -> ModelSettings:
    entry = get_entry(name)
    if isinstance(values, entry.settings):
        return values
    return check_settings(entry.settings, dict(values or {}), f"the settings of {name}")


def fits(name: str, n_sparse: int, labels: int = 1) -> bool:
    """Whether a model can be built for data with so many categorical columns and labels; without columns, few can."""
    entry = get_entry(name)
    return (n_sparse > 0 or entry.network is DNN) and entry.labels in (None, labels)


def check_fits(name: str, n_sparse: int, labels: int = 1) -> None:
    wanted = get_entry(name).labels
    if wanted not in (None, labels):
        has = "1 label" if labels == 1 else f"{labels} labels"
        raise ConfigError(
            f"{name} is a model of {wanted} labels, and this data set has {has}.",
            "Name them in the recipe, the click first: labels: [{column: click}, {column: conversion}]",
        )
    if not fits(name, n_sparse, labels):
        raise ConfigError(f"{name} needs categorical columns, and this data set has none.", "Use dnn.")


def every_fitting(n_sparse: int, labels: int) -> list[str]:
    return [name for name in (*ZOO, *OF_SEVERAL_LABELS) if fits(name, n_sparse, labels)]


def build(
    name: str, shape: InputShape, settings: Mapping[str, Any] | ModelSettings | None = None, seed: int = 0
) -> Baseline:
    """A new network. Initial weights and dropout depend on the seed alone; global random state is left."""
    entry, chosen = get_entry(name), check_model_settings(name, settings)
    check_fits(name, shape.n_sparse, shape.labels)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = entry.network(shape, chosen)  # type: ignore[call-arg]
        start_layers(network)
    network.draws.seed = seed
    if network.output_bias.numel() != shape.labels:
        raise ConfigError(
            f"{name} gives one number per row, and these data have {shape.labels} labels.",
            "Give its last layer shape.labels units, and output_bias as many.",
        )
    return network
