"""The kernel of a network of finite width at its present weights: what the limit is compared with.

network = Network(MlpBlueprint(arch, MlpSkeleton((d,), 1, "ntk")), seed)
empirical_ntk(network, x)                      # float64 [N, N]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from recnas.errors import ConfigError
from recnas.theory.ntk import checked_rows


class Scored(Protocol):
    """Parameters by name and a pure function of them, with one output per example."""

    @property
    def params(self) -> Mapping[str, Tensor]: ...

    def forward(self, params: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor: ...


def empirical_ntk(network: Scored, x: np.ndarray) -> np.ndarray:
    """J J^T, J the gradient of the output for every parameter, one backward pass per example, in float64."""
    params = {name: leaf.detach().double().requires_grad_() for name, leaf in network.params.items()}
    outputs = network.forward(params, (torch.from_numpy(checked_rows(x)),))
    if outputs.dim() != 1:
        raise ConfigError(f"a kernel needs one output per example; these have {outputs.shape[1]}.", "Use classes=1.")
    rows = []
    for output in outputs:
        gradients = torch.autograd.grad(output, list(params.values()), retain_graph=True)
        rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
    jacobian = torch.stack(rows)
    return (jacobian @ jacobian.T).numpy()
