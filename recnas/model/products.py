"""Products of activations and weights `[n, k]`, by whichever library of torch's CPU build is the faster one here.

torch computes `addmm` by Intel's MKL, which uses AVX-512 on Intel's processors only. On AMD's, oneDNN, which the same
build carries, does: 4,096 rows through a layer of 400 x 400 run at 218 instead of 98 GFLOP/s on one core of Zen 5. Small
products stay with MKL, which starts faster. The choice depends on processor and shapes alone, so a resumed
training makes the same one.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from recnas.machine import processor_vendor

# Multiply-adds and sides below which oneDNN's start costs more than it gains.
LEAST_WORK, LEAST_SIDE = 4_000_000, 32


@lru_cache(maxsize=1)
def onednn_is_faster() -> bool:
    """Whether MKL leaves half of this processor unused."""
    has = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return has and torch.backends.cpu.get_cpu_capability() == "AVX512" and processor_vendor() == "AuthenticAMD"


def is_large(x: Tensor, weight: Tensor) -> bool:
    """Whether `product` would take oneDNN for `x: [N, k]` and `weight: [n, k]`."""
    n, k = weight.shape
    return (
        x.shape[0] * k * n >= LEAST_WORK
        and min(k, n) >= LEAST_SIDE
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and onednn_is_faster()
    )


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x @ weight.T + bias` for `x: [N, k]`, `weight: [n, k]` of any strides. Not differentiated: for hand-written rules."""
    # With gradients wanted, a second derivative is: its graph needs torch's own operations.
    if is_large(x, weight) and not torch.is_grad_enabled():
        if not weight.is_contiguous() and not weight.t().is_contiguous():
            weight = weight.contiguous()  # for a part of a larger matrix oneDNN has only its slow reference kernel
        result: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return result
    return torch.mm(x, weight.t()) if bias is None else torch.addmm(bias, x, weight.t())
