"""Which part of the supernet a warm-up step trains.

Early steps use the full path (all operators, all connections, full width), so that every shared weight gets
gradients; its probability then falls linearly to zero over a share of *the steps of this run*. NASRec fixes
that length at 15,000 steps, so in its 1 % warm-up (716 steps) a pure subnet is practically never trained;
SiGeo inherits that. As there, one coin decides the connections of all blocks and one coin per block its
operators, widths and bits.

The path of step t is a pure function of (seed, t): a resumed run needs no generator state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from recnas.seeds import stream
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.arch import Block, NasrecArch
from recnas.space.nasrec.sampling import ANY_PATH


@dataclass(frozen=True)
class PathSampler:
    """Draws the architecture that each warm-up step trains.

    Args:
        strategy: any-connection (one operator per stream, as candidates have), single-path, any-path, or
            full-path, which never leaves the full path.
        full_path_share: over this share of the steps the full path fades out; 0 never uses it.
    """

    space: NasrecSpace
    seed: int
    total_steps: int
    strategy: str = "any-connection"
    full_path_share: float = 0.2

    def full_probability(self, step: int) -> float:
        fading = self.full_path_share * self.total_steps
        return max(0.0, 1.0 - step / fading) if fading > 0 else 0.0

    def path(self, step: int) -> NasrecArch:
        if self.strategy == "full-path" and self.space.trains_full_path:
            return self.space.full_path()
        rng = stream(self.seed, "warmup-paths", step)
        if not self.space.trains_full_path:
            wide = rng.random() < self.full_probability(step)
            return self.space.sample_path(rng, ANY_PATH if wide or self.strategy == "full-path" else self.strategy)
        coins = rng.random(1 + self.space.blocks) < self.full_probability(step)
        drawn = self.space.sample_path(rng, self.strategy)
        if not coins.any():
            return drawn
        full = self.space.full_path()
        blocks = tuple(
            _mixed(one, whole, bool(coins[0]), bool(coin))
            for one, whole, coin in zip(drawn.blocks, full.blocks, coins[1:])
        )
        return replace(drawn, blocks=blocks)


def _mixed(drawn: Block, full: Block, full_connections: bool, full_operators: bool) -> Block:
    wires = full if full_connections else drawn
    parts = full if full_operators else drawn
    return replace(parts, dense_in=wires.dense_in, sparse_in=wires.sparse_in, left=wires.left, right=wires.right)
