"""Parameters and multiply-adds of a hand-crafted network, as it is really computed.

The rules are those of `recnas.space.nasrec.cost`: one multiply-add per weight use in every matrix product, per row
of data; elementwise work and look-ups are not counted. The network is run once on made-up rows while torch
counts, so algebra that saves work (see `dcn`, `xdeepfm`) shows in the figure.
"""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from recnas.baselines.base import Baseline, InputShape
from recnas.model.kernels import plain_kernels

_ROWS = 2  # one row would let some products collapse to others that torch does not count


def count_params(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@torch.no_grad()
def count_macs(network: Baseline, shape: InputShape) -> int:
    """Multiply-adds per row of data; what is computed once for a whole batch belongs to no row."""
    device = next(network.parameters()).device
    was_training = network.training
    network.eval()
    flops = []
    try:
        for rows in (_ROWS, 2 * _ROWS):
            dense = torch.zeros(rows, shape.n_dense, device=device)
            embedded = torch.zeros(rows, shape.n_sparse, network.table_width(shape.width), device=device)
            with plain_kernels(), FlopCounterMode(display=False) as counter:
                network(dense, embedded)
            flops.append(counter.get_total_flops())
    finally:
        network.train(was_training)
    return (flops[1] - flops[0]) // (2 * _ROWS)
