"""Settings of the jobs: what a config file under `configs/` may hold."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from recnas.config import Settings
from recnas.space.nasrec import NasrecSpace
from recnas.space.registry import get_space
from recnas.train.settings import TrainSettings

LEAST_BATCH = 16


class SpaceSettings(Settings):
    """Which architectures a run draws from."""

    name: Literal["nasrec-small", "nasrec-full"] = "nasrec-small"
    blocks: int = Field(7, ge=1)
    connections: Literal["binomial", "uniform"] = "binomial"


def make_space(settings: SpaceSettings) -> NasrecSpace:
    space = get_space(settings.name, blocks=settings.blocks, connections=settings.connections)
    assert isinstance(space, NasrecSpace)
    return space


class WarmupShare(Settings):
    """How much of the data warms the supernet up, and along which paths."""

    share: float = Field(0.01, ge=0, le=1)
    strategy: Literal["any-connection", "single-path", "any-path", "full-path"] = "any-connection"
    full_path_share: float = Field(0.2, ge=0, le=1)
    least_steps: int = Field(250, ge=1)  # if the share gives fewer, batches shrink (to no less than 16 rows)

    def batch_size(self, rows: int, wanted: int) -> int:
        """16 steps teach a supernet nothing: small data are better cut into more batches."""
        return min(wanted, max(LEAST_BATCH, rows // self.least_steps))


class CheckSettings(Settings):
    """Random subnets that are evaluated with the shared weights after the warm-up."""

    archs: int = Field(8, ge=0)
    rows: int = Field(50_000, ge=1)


class WarmupConfig(Settings):
    """`recnas warmup CONFIG`."""

    data: str
    seed: int = Field(0, ge=0)
    space: SpaceSettings = SpaceSettings()
    warmup: WarmupShare = WarmupShare()
    train: TrainSettings = TrainSettings()
    check: CheckSettings = CheckSettings()
