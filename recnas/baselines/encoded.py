"""Hand-crafted models as points of the search space `nasrec-plus`: the architecture, and the weights.

    arch = encode("dcn-v2", shape, {"crosses": 2})              # a NASRec-like architecture
    network = Subnet(arch, net_shape)                            # the same function, once it has the weights
    copy_weights("dcn-v2", model, network)

Units are ordered by our own rule, numbers before vectors, pairs by their second member: copying reorders.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from recnas.baselines.base import Baseline, InputShape, ModelSettings
from recnas.baselines.encoded_parts import COPIERS, Copy
from recnas.baselines.zoo import check_fits, check_model_settings, find_name
from recnas.errors import ConfigError
from recnas.space.nasrec.layers import NetShape
from recnas.space.plus.arch import PlusArch
from recnas.space.plus.encode import encode as encode_complete


def encode(model: str, shape: InputShape, settings: Mapping[str, Any] | ModelSettings | None = None) -> PlusArch:
    """The architecture that computes what the zoo's model does on data of this shape.

    Raises:
        SpaceError: the space cannot express the model with these settings.
    """
    name = find_name(model) or model
    chosen = check_model_settings(name, settings)
    check_fits(name, shape.n_sparse, shape.labels)
    return encode_complete(name, NetShape(shape.n_dense, shape.n_sparse, shape.width), chosen.model_dump())


@torch.no_grad()
def copy_weights(model: str, source: Baseline, target: nn.Module) -> None:
    """Give the network of an encoded model the parameters and running statistics of the hand-crafted one."""
    if source.shape.labels > 1:
        raise ConfigError(
            "weights are copied between networks of one label.", "Train the network, or give it one label."
        )
    name = find_name(model) or model
    arch = getattr(target, "arch", None)
    if not isinstance(arch, PlusArch):
        raise ConfigError(
            "the target of the weights is no network of nasrec-plus", "build one: Subnet(encode(...), shape)"
        )
    found = Copy(source, arch)
    COPIERS[name](found)
    mine: dict[str, Tensor] = {**dict(target.named_parameters()), **dict(target.named_buffers())}
    if mine.keys() != found.tensors.keys():
        differ = ", ".join(sorted(mine.keys() ^ found.tensors.keys()))
        raise ConfigError(f"the network is not that of {name} with the settings of the model: {differ}")
    for key, tensor in found.tensors.items():
        mine[key].copy_(tensor.reshape(mine[key].shape))
