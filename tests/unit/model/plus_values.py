"""What networks of nasrec-plus without narrow tables gave before there were such: keys, files, costs, outputs, gradients.

`python -m tests.unit.model.plus_values` prints the content of plus_values.json.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from recnas.baselines.base import InputShape
from recnas.baselines.encoded import encode
from recnas.baselines.zoo import ZOO
from recnas.data.schema import Schema
from recnas.model.nasrec.subnet import Subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.space.nasrec.cost import count
from recnas.space.nasrec.layers import NetShape
from recnas.space.plus import PlusSpace
from recnas.space.plus.arch import PlusArch

SHAPE = NetShape(5, 7, 8)
SCHEMA = Schema.of_shape(5, [11, 5, 300, 7, 2, 40, 9])


def space() -> PlusSpace:
    return PlusSpace(blocks=4, dense_dims=(0, 8, 24, 40), sparse_dims=(4, 8, 12))


def archs() -> Iterator[tuple[str, PlusArch]]:
    for name in ZOO:
        yield name, encode(name, InputShape(5, 7, 8))
    draws, rng = space(), np.random.default_rng(5)
    for number in range(12):
        arch = draws.sample(rng)
        yield f"draw {number}", arch
        yield f"child {number}", draws.mutate(arch, rng)
        yield f"path {number}", draws.sample_path(rng, "any-path")


def values() -> dict[str, Any]:
    found: dict[str, Any] = {}
    generator = torch.Generator().manual_seed(3)
    dense = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    rows = torch.randn(6, 7, 9, generator=generator, dtype=torch.float64) * 0.3
    supernet = Supernet(space(), SHAPE, torch.Generator().manual_seed(4)).double()
    for name, arch in archs():
        text = json.dumps(PlusSpace(blocks=16).to_dict(arch), sort_keys=True)
        cost = count(arch, SCHEMA, width=8)
        network = Subnet(arch, SHAPE, torch.Generator().manual_seed(7)).double()
        inputs = rows[:, :, : max(1, arch.table_width(8))].clone().requires_grad_()
        logits = network(dense, inputs)
        (gradient,) = torch.autograd.grad(logits.sum(), inputs, allow_unused=True)
        line = {
            "key": arch.key,
            "file": hashlib.sha256(text.encode()).hexdigest()[:16],
            "cost": [cost.params, cost.macs, cost.embedding_params, cost.embedding_bytes],
            "logits": logits.tolist(),
            "gradient": [] if gradient is None else gradient.sum((0, 2)).tolist(),
        }
        if name.startswith(("draw", "child", "path")):
            line["shared"] = supernet.candidate(arch)(dense, rows).tolist()
        found[name] = line
    return found


if __name__ == "__main__":
    print(json.dumps(values(), indent=0))
