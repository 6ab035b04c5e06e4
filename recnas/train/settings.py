"""What a training run can be told. Defaults are the reference's search-time settings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from recnas.config import Settings


class EmbeddingSettings(Settings):
    """The tables every network of a run reads."""

    backend: Literal["auto", "fused", "plain"] = "auto"
    width: int = Field(16, ge=1)
    optimizer: Literal["adagrad", "rowwise-adagrad"] = "adagrad"
    lr: float | None = Field(None, gt=0)  # None: the same as the network's
    cap: int | None = Field(None, ge=3)  # most rows per table, the most frequent
    hash_rows: int | None = Field(None, ge=3)
    offload: bool = False  # keep the tables in host memory while a GPU trains the rest


class TrainSettings(Settings):
    """How one network is trained on one data set."""

    batch_size: int = Field(512, ge=1)
    epochs: float = Field(1.0, gt=0)
    optimizer: Literal["adagrad", "adamw"] = "adagrad"
    lr: float = Field(0.12, gt=0)
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
    threads: int | None = Field(None, ge=1)  # of torch; None leaves it as it is
    device: str = "auto"
    checkpoint_seconds: float = Field(60.0, ge=0)
    embeddings: EmbeddingSettings = EmbeddingSettings()
