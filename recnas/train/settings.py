"""What a training run can be told.

A network trained from scratch starts from AdamW for its layers and Adagrad for its tables, and is trained until
validation stops improving. Where many networks are trained to be ranked, one pass is the default (`OnePass`). A
supernet starts from the reference's settings: one pass, Adagrad at 0.12 for everything. At that rate the loss of
wide networks climbs to several times that of a constant guess within ten steps, and what is then compared is how
long each takes to recover.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from recnas.config import Settings
from recnas.devices import Device
from recnas.space.settings import SpaceSettings

LEAST_BATCH = 16


class EmbeddingSettings(Settings):
    """The tables every network of a run reads."""

    backend: Literal["auto", "fused", "plain", "sharded"] = (
        "auto"  # auto: plain on a CPU, fused on a GPU, sharded over several processes
    )
    width: int = Field(16, ge=1)  # values per row
    optimizer: Literal["adagrad", "rowwise-adagrad", "adam"] = (
        "adagrad"  # rowwise-adagrad keeps one number per row instead of one per value, adam two per value
    )
    lr: float | None = Field(
        None, gt=0
    )  # null: the network's if both have the same optimizer, otherwise 0.05, in one pass 0.12
    l2: float = Field(
        0.0, ge=0
    )  # adds l2 * w to the gradient of a row; unless given 0.001 for networks from scratch with AdamW and tables with Adagrad, in one process
    l2_kind: Literal["lazy", "dense"] = (
        "lazy"  # lazy: a row catches up when it is next touched; dense: every row in every step
    )
    std: float | None = Field(None, gt=0)  # of the initial values; null: Xavier's, larger in smaller tables
    cap: int | None = Field(None, ge=3)  # most rows per table, the most frequent
    hash_rows: int | None = Field(None, ge=3)  # most rows per table; ids beyond wrap around over them
    vectors: Literal["as-prepared", "trained", "frozen", "off"] = (
        "as-prepared"  # pre-trained vectors that the data bring: trained or frozen as their recipe says, or as said here
    )
    offload: bool = False  # keep the tables in host memory while a GPU trains the rest
    sharding: Literal["table-wise", "column-wise", "row-wise"] | None = None  # over processes; None: planned


class StopSettings(Settings):
    """Looking at validation during a training. The best state is kept, not the last."""

    patience: int | None = Field(2, ge=1)  # checks without improvement that end a training; null: no checks
    checks: int = Field(1, ge=1)  # per epoch
    metric: Literal["logloss", "auc"] = "logloss"  # what decides
    rows: int | None = Field(None, ge=1)  # validation rows of a check; null: all
    rate_cut: float = Field(0.1, gt=0, le=1)  # schedule plateau: times the rate after a check without improvement


class TrainSettings(Settings):
    """How one network is trained on one data set."""

    rates: ClassVar[dict[str, float]] = {"adagrad": 0.12, "adamw": 0.001}  # of the layers, unless one is given
    table_rate: ClassVar[float] = 0.05  # of tables with Adagrad below layers with AdamW
    table_l2: ClassVar[float] = 0.001  # of the same tables: trainings that validation ends overfit their rows first

    batch_size: int = Field(512, ge=1)  # rows per step
    epochs: float = Field(20.0, gt=0)  # passes over the training rows, at most; may be a part of one
    optimizer: Literal["adagrad", "adamw"] = "adamw"  # of the layers; tables have Adagrad
    lr: float = Field(0.001, gt=0)  # unless given: 0.001 for AdamW, in one pass 0.002; 0.12 for Adagrad
    eps: float = Field(1e-2, gt=0)  # of Adagrad
    weight_decay: float = Field(0.0, ge=0)  # of AdamW
    schedule: Literal["cosine", "constant", "plateau"] = (
        "plateau"  # of the rate: falling along a cosine to zero, constant, or cut when validation stops improving
    )
    stop: StopSettings = StopSettings()
    average: float | None = Field(None, gt=0, lt=1)  # of the layers' weights over the steps, 0.999 for example
    dropout: float = Field(0.0, ge=0, lt=1)  # in the layers of every model
    norm: Literal["none", "batch", "layer"] = "none"  # in the perceptron of a hand-crafted model
    lr_rise_share: float = Field(0.1, ge=0, lt=1)  # of the steps over which the rate rises linearly
    least_rise: int = Field(70, ge=0)  # steps a rise to the full rate takes at least; shorter runs stay below it
    clip: float | None = Field(5.0, gt=0)  # of the global gradient norm
    shuffle: bool = True  # read the rows in a new order every epoch
    layernorm: bool = True  # in every block of a searched network
    activation: Literal["relu", "silu"] = "relu"  # of a searched network
    eval_batch_size: int = Field(4096, ge=1)  # rows at a time when a split is evaluated
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: float32, wherever it runs
    threads: int | None = Field(
        None, ge=1
    )  # of torch, in the run's own process; null: settled when the run is made, see recnas/threads.py
    device: Device = "auto"  # auto: a GPU if there is one; cpu, cuda or cuda:N
    checkpoint_seconds: float = Field(60.0, ge=0)  # between two checkpoints
    embeddings: EmbeddingSettings = EmbeddingSettings()

    @model_validator(mode="after")
    def _plateau_is_watched(self) -> TrainSettings:
        if self.schedule == "plateau" and self.stop.patience is None:
            raise ValueError("schedule plateau looks at validation: set stop.patience, or another schedule")
        return self

    @model_validator(mode="before")
    @classmethod
    def _rates_suit_the_optimizer(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        optimizer = given.get("optimizer", cls.model_fields["optimizer"].default)
        filled = {"lr": cls.rates[optimizer], **given} if optimizer in cls.rates else given
        tables = filled.get("embeddings", {})
        if isinstance(tables, EmbeddingSettings):
            tables = tables.model_dump(exclude_unset=True)
        if optimizer == "adamw" and isinstance(tables, dict) and tables.get("optimizer") != "adam":
            several = int(os.environ.get("WORLD_SIZE", "1")) > 1  # whose tables have Adagrad without L2
            rate = tables.get("lr") or cls.table_rate
            filled = {**filled, "embeddings": {"l2": 0.0 if several else cls.table_l2, **tables, "lr": rate}}
        return filled


class OnePass(TrainSettings):
    """One pass without a look at validation: for trainings of which many are compared, such as queries of a search."""

    rates: ClassVar[dict[str, float]] = {"adagrad": 0.12, "adamw": 0.002}
    table_rate: ClassVar[float] = 0.12
    table_l2: ClassVar[float] = 0.0

    epochs: float = Field(1.0, gt=0)
    lr: float = Field(0.002, gt=0)
    schedule: Literal["cosine", "constant", "plateau"] = "cosine"
    stop: StopSettings = StopSettings(patience=None)


class SupernetSettings(OnePass):
    """How a weight-sharing supernet is trained."""

    optimizer: Literal["adagrad", "adamw"] = "adagrad"
    lr: float = Field(0.12, gt=0)
    # Under Adagrad every weight first moves by about the rate, whatever its gradient. In a head of up to two
    # thousand inputs these moves add up, by a different amount on every path: at the full rate, 10 % of 1 M
    # generated rows left random subnets at a mean AUC of 0.54, at this share 0.60.
    head_lr_share: float = Field(0.05, gt=0)  # of lr, for the last layer


class WarmupShare(Settings):
    """How much of the data warms the supernet up, and along which paths."""

    data_share: float = Field(0.01, ge=0, le=1)  # of the training rows
    strategy: Literal["any-connection", "single-path", "any-path", "full-path"] = (
        "any-connection"  # which paths are trained; any-connection is the published one
    )
    full_path_share: float = Field(
        0.2, ge=0, le=1
    )  # of the steps: over these the whole supernet is trained less and less often
    least_steps: int = Field(250, ge=1)  # if the share gives fewer, batches shrink (to no less than 16 rows)

    def batch_size(self, rows: int, wanted: int) -> int:
        """16 steps teach a supernet nothing: small data are better cut into more batches."""
        return min(wanted, max(LEAST_BATCH, rows // self.least_steps))


class CheckSettings(Settings):
    """Random subnets that are evaluated with the shared weights after the warm-up."""

    archs: int = Field(8, ge=0)  # how many
    rows: int = Field(50_000, ge=1)  # validation rows of each


class WarmupConfig(Settings):
    """`recnas warmup CONFIG`."""

    data: str  # folder of the prepared data
    seed: int = Field(0, ge=0)  # of weights, paths and the order of rows
    space: SpaceSettings = SpaceSettings()
    warmup: WarmupShare = WarmupShare()
    supernet: SupernetSettings = SupernetSettings()
    check: CheckSettings = CheckSettings()
