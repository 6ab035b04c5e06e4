"""The network against a slow twin written the obvious way: [B, rows, D], nn modules, concatenations.

The twin takes its weights from the standalone network by name and shares no code with it.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from recnas.model.nasrec.subnet import Subnet
from recnas.space.nasrec.arch import NasrecArch, dot_rows


class Twin:
    def __init__(self, arch: NasrecArch, params: dict[str, Tensor], layernorm: bool, width: int) -> None:
        self.arch, self.params, self.layernorm, self.width = arch, params, layernorm, width

    def linear(self, name: str, x: Tensor) -> Tensor:
        weight = self.params[f"{name}.weight"]
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=f"{name}.bias" in self.params).double()
        layer.weight.data = weight
        if layer.bias is not None:
            layer.bias.data = self.params[f"{name}.bias"]
        return layer(x)

    def norm(self, name: str, x: Tensor, always: bool = False) -> Tensor:
        if not (self.layernorm or always):
            return x
        layer = nn.LayerNorm(x.shape[-1]).double()
        layer.weight.data, layer.bias.data = (
            self.params[f"{name}.norm.weight"],
            self.params[f"{name}.norm.bias"],
        )
        return layer(x)

    def over_rows(self, name: str, x: Tensor) -> Tensor:
        return self.norm(name, self.linear(name, x.transpose(1, 2))).transpose(1, 2)

    def fc(self, name, d, dense, rows, left, right):
        return torch.relu(self.norm(f"{name}.fc", self.linear(f"{name}.fc", dense)))

    def dot(self, name, d, dense, rows, left, right):
        if dense.shape[1] != self.width:
            dense = self.norm(f"{name}.dot.dense", self.linear(f"{name}.dot.dense", dense))
        if rows.shape[1] != dot_rows(d):
            rows = self.over_rows(f"{name}.dot.rows", rows)
        stack = torch.cat([dense[:, None, :], rows], dim=1)
        products = [
            (stack[:, i] * stack[:, j]).sum(-1) for i in range(stack.shape[1]) for j in range(stack.shape[1]) if j < i
        ]
        x = torch.stack(products, dim=1)
        if x.shape[1] != d:
            x = self.linear(f"{name}.dot.out", x)
        return self.norm(f"{name}.dot.out", x)

    def gate(self, name, d, dense, rows, left, right):
        left, right = same_width(left, right)
        x = torch.sigmoid(self.linear(f"{name}.gate.square", left)) * right
        if x.shape[1] != d:
            x = self.linear(f"{name}.gate.out", x)
        return self.norm(f"{name}.gate.out", x)

    def sum(self, name, d, dense, rows, left, right):
        left, right = same_width(left, right)
        x = left + right
        if x.shape[1] != d:
            x = self.linear(f"{name}.sum.out", x)
        return self.norm(f"{name}.sum.out", x)

    def efc(self, name, rows):
        return torch.relu(self.over_rows(f"{name}.efc", rows))

    def transformer(self, name, rows):
        name = f"{name}.transformer"
        x = self.over_rows(f"{name}.rows", rows)
        attention = nn.MultiheadAttention(self.width, 8, batch_first=True).double()
        attention.in_proj_weight.data = self.params[f"{name}.attention.in.weight"]
        attention.in_proj_bias.data = self.params[f"{name}.attention.in.bias"]
        attention.out_proj.weight.data = self.params[f"{name}.attention.out.weight"]
        attention.out_proj.bias.data = self.params[f"{name}.attention.out.bias"]
        x = self.norm(f"{name}.attention.out", x + attention(x, x, x)[0], always=True)
        hidden = self.linear(f"{name}.ffn.out", torch.relu(self.linear(f"{name}.ffn.in", x)))
        return self.norm(f"{name}.ffn.out", x + hidden, always=True)

    def __call__(self, dense: Tensor, embedded: Tensor) -> Tensor:
        if dense.shape[1] == 0:
            dense = torch.zeros(dense.shape[0], 1, dtype=dense.dtype)
        dense_out, sparse_out = [dense], [embedded]
        for i, block in enumerate(self.arch.blocks, start=1):
            name, d = f"blocks.{i}", block.dense_dim
            x, left, right = (
                torch.cat([dense_out[j] for j in chosen], dim=1) for chosen in (block.dense_in, block.left, block.right)
            )
            rows = torch.cat([sparse_out[j] for j in block.sparse_in], dim=1)
            dense = sum(getattr(self, op)(name, d, x, rows, left, right) for op in block.dense_ops)
            sparse = sum(getattr(self, op)(name, rows) for op in block.sparse_ops)
            merged = sparse
            if block.merge:
                extra = dense
                if d != 8 * self.width:
                    extra = self.norm(f"{name}.merge", self.linear(f"{name}.merge", dense))
                merged = torch.cat([sparse, extra.reshape(-1, 8, self.width)], dim=1)
            if block.fm:
                fm = sparse.sum(1) ** 2 - (sparse**2).sum(1)
                dense = dense + (fm if d == self.width else self.norm(f"{name}.fm", self.linear(f"{name}.fm", fm)))
            dense_out.append(dense)
            sparse_out.append(merged)
        return self.linear("head", torch.cat([dense, merged.flatten(1)], dim=1)).squeeze(1)


def same_width(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    width = max(left.shape[1], right.shape[1])
    wide = [torch.cat([x, x.new_zeros(x.shape[0], width - x.shape[1])], dim=1) for x in (left, right)]
    return wide[0], wide[1]


@pytest.mark.parametrize("n_dense", [5, 0])
def test_network_equals_its_naive_twin(space, layernorm, n_dense, make_supernet, draw, inputs):
    supernet = make_supernet(space, layernorm=layernorm, n_dense=n_dense)
    for arch in draw(space, 15):
        # The twin computes dead parts too, so it needs their parameters.
        subnet = Subnet(arch, supernet.shape, keep_dead=True).double().copy_from(supernet)
        twin = Twin(arch, {name: p.detach() for name, p in subnet.named_parameters()}, layernorm, 16)
        dense, embedded = inputs(n_dense)
        mine, theirs = subnet(dense, embedded), twin(dense, embedded)
        torch.testing.assert_close(mine, theirs)
        (wrt_mine,) = torch.autograd.grad(mine.sum(), embedded)
        (wrt_theirs,) = torch.autograd.grad(theirs.sum(), embedded)
        torch.testing.assert_close(wrt_mine, wrt_theirs)
