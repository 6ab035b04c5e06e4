"""One NASRec architecture as a network of its own, for training from scratch.

The parameters have the shapes of the reference's standalone networks: one Linear over the concatenated
inputs, and a square gate that also covers the padding. Parts the logit does not depend on are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from recnas.model.dropout import Draws, Dropout
from recnas.model.embeddings import FieldColumns
from recnas.model.nasrec.forward import run
from recnas.model.nasrec.init import HEAD_START, attach, fill
from recnas.model.nasrec.supernet import Supernet
from recnas.model.plus.norms import Statistics, running_statistics
from recnas.model.plus.tables import field_columns
from recnas.space.nasrec.arch import NasrecArch
from recnas.space.nasrec.layers import NetShape
from recnas.space.nasrec.plan import HEAD_BIAS, HEAD_WEIGHT, build_plan
from recnas.space.plus.operators import FIELDS


def new_subnet(arch: NasrecArch, shape: NetShape, seed: int, dropout: float = 0.0) -> Subnet:
    """A network ready to be trained from scratch: initial weights by seed, a quiet head, dropout after every block."""
    network = Subnet(arch, shape, torch.Generator().manual_seed(seed))
    network.dropout = Dropout(dropout, Draws(seed))
    with torch.no_grad():
        named = dict(network.named_parameters())
        if HEAD_WEIGHT in named:
            named[HEAD_WEIGHT].mul_(HEAD_START)
        for name, parameter in named.items():
            if name.endswith(f".{FIELDS}.weight"):  # vectors like those of the tables
                parameter.mul_(arch.start_scale)
    return network


class Subnet(nn.Module):
    """A standalone network.

    Args:
        arch: what to build.
        shape: raw widths and options.
        generator: source of the initial weights; None draws from torch's global one.
        keep_dead: also build what the logit does not depend on, to compare parameter counts with networks
            that do; such parameters never receive a gradient.
    """

    def __init__(
        self,
        arch: NasrecArch,
        shape: NetShape,
        generator: torch.Generator | None = None,
        keep_dead: bool = False,
    ) -> None:
        super().__init__()
        self.arch = arch
        self.shape = shape
        self.dropout = Dropout(0.0, Draws())
        self._build = build_plan(arch, shape, sliced=False, keep_dead=keep_dead)
        # Forward always follows the live plan.
        self.plan = build_plan(arch, shape, sliced=False)
        for param in self._build.params:
            attach(self, param.name, nn.Parameter(fill(torch.empty(param.shape), param.init, generator)))
        for name, values in running_statistics(self.plan).items():
            attach(self, name, values)
        self._keeps_statistics = any(True for _ in self.buffers())
        self._drops = any(getattr(block, "dropout", None) for block in arch.blocks)

    @property
    def first_order(self) -> bool:
        """Whether the tables hold one weight per id beside the vectors."""
        return self.arch.first_order

    @property
    def start_scale(self) -> float:
        """Factor on the initial values of the vectors in the tables."""
        return self.arch.start_scale

    def table_width(self, width: int) -> int:
        """Columns of a table row when vectors are `width` wide."""
        return self.arch.table_width(width, self.shape.labels)

    @property
    def field_columns(self) -> FieldColumns | None:
        """Which columns each field's table has, where tables are not all alike."""
        return field_columns(self.arch, self.shape)

    @property
    def output_bias(self) -> nn.Parameter:
        """The parameter `[L]` that is added to every logit: training starts it at the click rate."""
        return self.get_parameter(HEAD_BIAS)

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        """Logits `[B]` (of several labels `[B, L]`) of `dense [B, I]` and `embedded [B, F, D]`."""
        drop = self.dropout if self.training and (self.dropout.share or self._drops) else None
        statistics = Statistics(dict(self.named_buffers()), self.training) if self._keeps_statistics else None
        return run(self.plan, dict(self.named_parameters()), dense, embedded, drop, statistics)

    def begin_step(self, step: int) -> None:
        """Dropout of a training step depends on seed and step alone, so a resumed training repeats it."""
        self.dropout.draws.begin(step)

    def functional(self, params: Mapping[str, Tensor], dense: Tensor, embedded: Tensor) -> Tensor:
        """The same under other parameters, given by name."""
        statistics = Statistics(dict(self.named_buffers()), self.training) if self._keeps_statistics else None
        return run(self.plan, params, dense, embedded, statistics=statistics)

    def slices(self) -> list[tuple[str, Tensor, str, tuple[slice, ...]]]:
        """Every parameter as one whole slice, for the optimizers of `recnas.train.slice_optim`."""
        return [(name, p, name, ()) for name, p in self.named_parameters()]

    @torch.no_grad()
    def copy_from(self, supernet: Supernet) -> Subnet:
        """Take over the slices this architecture uses in the supernet.

        The parts of a gate that only ever multiply padding are in no slice and keep their values.
        """
        storages = supernet.storages
        mine = dict(self.named_parameters())
        for param in supernet.plan(self.arch).params:
            for piece in param.pieces:
                mine[param.name][piece.target].copy_(storages[param.name][piece.source])
        return self
