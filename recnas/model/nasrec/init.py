"""Initial weights of NASRec networks, and modules that hold tensors under dotted names."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# Where the two LayerNorms of the transformer start: its residual branch begins small.
RESIDUAL_GAIN = 0.17
# Factor on the head's initial weights before a training. Drawn as usual, the head of a NASRec network starts with
# loud logits (in a supernet an offset of its own for each path, standard deviation about 1.4), and the first
# steps throw the whole network about to correct them: of 19 architectures trained from scratch on 200,000 rows,
# two ended far behind the others (on 50,000 rows, behind a constant guess). In a supernet, 10 % of 1 M rows left subnets at a mean validation log loss
# of 0.70 (worst 1.63), with this factor 0.57 (worst 0.60). Zero would leave nothing to learn from below the head.
HEAD_START = 0.1


def fill(tensor: Tensor, init: str, generator: torch.Generator | None) -> Tensor:
    """Initialise in place: Xavier uniform for Linear and attention weights, constants for the rest."""
    if init == "xavier":
        return nn.init.xavier_uniform_(tensor, generator=generator)
    if init == "products":  # [n, l, r]: a Linear over l r products
        nn.init.xavier_uniform_(tensor.view(tensor.shape[0], -1), generator=generator)
        return tensor
    if init == "heads":  # [..., n, m]: one matrix after the other
        return nn.init.normal_(tensor, std=tensor.shape[-2] ** -0.5, generator=generator)
    if init == "fusion":
        return nn.init.normal_(tensor, std=(tensor.shape[-1] * tensor.shape[-2]) ** -0.5, generator=generator)
    if init == "spread":
        return nn.init.normal_(tensor, std=max(1, tensor.numel()) ** -0.5, generator=generator)
    return tensor.fill_({"zeros": 0.0, "ones": 1.0, "residual": RESIDUAL_GAIN}[init])


def attach(module: nn.Module, name: str, tensor: nn.Parameter | Tensor) -> None:
    """Register a parameter, or a buffer, under a path such as "blocks.3.fc.weight", making the modules on the way."""
    *path, last = name.split(".")
    for step in path:
        if step not in module._modules:
            module.add_module(step, nn.Module())
        child = module._modules[step]
        assert child is not None
        module = child
    if isinstance(tensor, nn.Parameter):
        module.register_parameter(last, tensor)
    else:
        module.register_buffer(last, tensor)
