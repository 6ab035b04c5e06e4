"""What a training run can be told.

A supernet starts from the reference's settings: Adagrad at 0.12 for everything. A network trained from scratch
starts from AdamW for its layers, Adagrad at 0.12 for its tables. At Adagrad's 0.12 the loss of wide networks
climbs to several times that of a constant guess within ten steps, and what is then compared is how long each
takes to recover.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from recnas.config import Settings

RATES = {"adagrad": 0.12, "adamw": 0.002}  # unless a rate is given


class EmbeddingSettings(Settings):
    """The tables every network of a run reads."""

    backend: Literal["auto", "fused", "plain", "sharded"] = "auto"
    width: int = Field(16, ge=1)
    optimizer: Literal["adagrad", "rowwise-adagrad"] = "adagrad"
    lr: float | None = Field(None, gt=0)  # None: the network's if that is Adagrad's too, otherwise 0.12
    cap: int | None = Field(None, ge=3)  # most rows per table, the most frequent
    hash_rows: int | None = Field(None, ge=3)
    offload: bool = False  # keep the tables in host memory while a GPU trains the rest
    sharding: Literal["table-wise", "column-wise", "row-wise"] | None = None  # over processes; None: planned

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without `sharding` unless it is set, so that runs from before it existed can be continued."""
        return {name: value for name, value in handler(self).items() if name != "sharding" or value is not None}


class TrainSettings(Settings):
    """How one network is trained on one data set."""

    batch_size: int = Field(512, ge=1)
    epochs: float = Field(1.0, gt=0)
    optimizer: Literal["adagrad", "adamw"] = "adamw"  # of the layers; tables have Adagrad
    lr: float = Field(0.002, gt=0)  # unless given: 0.002 for AdamW, 0.12 for Adagrad
    eps: float = Field(1e-2, gt=0)  # of Adagrad
    weight_decay: float = Field(0.0, ge=0)  # of AdamW
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup_share: float = Field(0.1, ge=0, lt=1)  # of the steps, rising linearly
    least_rise: int = Field(
        70, ge=0
    )  # steps a rise to the full rate takes at least; shorter runs stay below it
    head_lr_share: float | None = Field(None, gt=0)  # of lr, for the head; null: 1, in a supernet 0.05
    clip: float | None = Field(5.0, gt=0)  # of the global gradient norm
    shuffle: bool = True
    layernorm: bool = True
    activation: Literal["relu", "silu"] = "relu"
    eval_batch_size: int = Field(4096, ge=1)
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 on a GPU that has it
    threads: int | None = Field(None, ge=1)  # of torch, in the run's own process; null: settled when the run is made, see recnas/threads.py
    device: str = "auto"
    checkpoint_seconds: float = Field(60.0, ge=0)
    embeddings: EmbeddingSettings = EmbeddingSettings()

    @model_validator(mode="before")
    @classmethod
    def _rates_suit_the_optimizer(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        optimizer = given.get("optimizer", cls.model_fields["optimizer"].default)
        filled = {"lr": RATES[optimizer], **given} if optimizer in RATES else given
        tables = filled.get("embeddings", {})
        if isinstance(tables, EmbeddingSettings):
            tables = tables.model_dump()
        if optimizer == "adamw" and isinstance(tables, dict) and tables.get("lr") is None:
            filled = {**filled, "embeddings": {**tables, "lr": RATES["adagrad"]}}
        return filled


class SupernetSettings(TrainSettings):
    """How a weight-sharing supernet is trained."""

    optimizer: Literal["adagrad", "adamw"] = "adagrad"
    lr: float = Field(0.12, gt=0)
