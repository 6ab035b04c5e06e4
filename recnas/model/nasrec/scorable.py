"""NASRec candidates as proxies see them: parameters by name and a pure function of ready inputs.

The inputs of a candidate are `(dense [B, I], embedded [B, F, D])`. Embedding rows are not parameters here:
a row seen in one of four batches has a mean and a spread fixed by arithmetic, so it says nothing about the
architecture. As all candidates of a search are scored on the same batches, the look-up is made once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from recnas.model.nasrec.forward import run
from recnas.model.nasrec.subnet import Subnet
from recnas.model.nasrec.supernet import Candidate
from recnas.space.nasrec.plan import Plan


class ScoredNasrec:
    """A candidate of a supernet or a standalone subnet.

    groups: the parameter each leaf is a piece of. head: the leaves of the last layer.
    """

    def __init__(self, plan: Plan, params: Mapping[str, Tensor]) -> None:
        self.plan = plan
        self.params = params
        self.groups = {name: plan.parameter_of(name) if name in plan.regions else name for name in params}
        self.head = (*plan.head.weight, *([plan.head.bias] if plan.head.bias else []))

    @classmethod
    def of(cls, network: Candidate | Subnet) -> ScoredNasrec:
        if isinstance(network, Candidate):
            return cls(network.plan, network.leaves)
        return cls(network.plan, dict(network.named_parameters()))

    def forward(self, params: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        dense, embedded = inputs
        return run(self.plan, params, dense, embedded)
