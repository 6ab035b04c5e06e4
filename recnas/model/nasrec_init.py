"""Initial weights of NASRec networks, and modules that hold tensors under dotted names."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# Where the two LayerNorms of the transformer start: its residual branch begins small.
RESIDUAL_GAIN = 0.17


def fill(tensor: Tensor, init: str, generator: torch.Generator | None) -> Tensor:
    """Initialise in place: Xavier uniform for Linear and attention weights, constants for the rest."""
    if init == "xavier":
        return nn.init.xavier_uniform_(tensor, generator=generator)
    return tensor.fill_({"zeros": 0.0, "ones": 1.0, "residual": RESIDUAL_GAIN}[init])


def attach(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
    """Register under a path such as "blocks.3.fc.weight", making the modules on the way."""
    *path, last = name.split(".")
    for step in path:
        if step not in module._modules:
            module.add_module(step, nn.Module())
        child = module._modules[step]
        assert child is not None
        module = child
    module.register_parameter(last, parameter)
