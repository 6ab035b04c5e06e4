"""Three hand-written differentiable functions: where autograd's own graph costs time or memory.

Each has a plain twin in ordinary torch operations, which is used inside `torch.func` transforms and while
a network is exported or compiled; both give the same numbers up to rounding. Second derivatives work.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# Scores held at a time by the attention: two buffers of 2 MB stay in cache, [B, 8, 64, 64] would not.
_SCORES_AT_A_TIME = 2**19


def _plain() -> bool:
    """Whether ordinary operations are needed, because something wants to see or transform each of them."""
    return torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None


def linear(xs: Sequence[Tensor], weights: Sequence[Tensor], bias: Tensor | None) -> Tensor:
    """`sum_j xs[j] @ weights[j].T + bias` for `xs[j]: [N, k_j]`, `weights[j]: [n, k_j]`, result `[N, n]`.

    Neither inputs nor weights are concatenated, so the weights may be views into larger storages. The
    gradient of a weight comes out row-major: torch's own rule makes it column-major for a strided view and
    then copies it.
    """
    if not _plain():
        return _Linear.apply(len(xs), bias, *xs, *weights)
    out = F.linear(xs[0], weights[0], bias)
    for x, weight in zip(xs[1:], weights[1:]):
        out = out + F.linear(x, weight)
    return out


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, n: int, bias: Tensor | None, *tensors: Tensor) -> Tensor:
        ctx.n = n
        ctx.save_for_backward(*tensors)
        x, weight = tensors[0], tensors[n]
        out = torch.mm(x, weight.t()) if bias is None else torch.addmm(bias, x, weight.t())
        for j in range(1, n):
            out.addmm_(tensors[j], tensors[n + j].t())
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        n, needs = ctx.n, ctx.needs_input_grad
        tensors = ctx.saved_tensors
        out: list[Tensor | None] = [None, grad.sum(0) if needs[1] else None]
        out.extend(grad @ tensors[n + j] if needs[2 + j] else None for j in range(n))
        transposed = grad.t()
        out.extend(transposed @ tensors[j] if needs[2 + n + j] else None for j in range(n))
        return tuple(out)


def pairwise_dots(x: Tensor) -> Tensor:
    """Products of every pair of rows, `x: [B, D, n]` to `[B, n (n - 1) / 2]`.

    Order: strict lower triangle of the Gram matrix, row by row: (1,0), (2,0), (2,1), (3,0) ... so the
    products of the leading rows are the leading columns.
    """
    if not _plain():
        return _PairwiseDots.apply(x)
    lower, _ = _triangle(x.shape[2], x.device)
    return (x.transpose(1, 2) @ x).flatten(1)[:, lower]


class _PairwiseDots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        lower, _ = _triangle(x.shape[2], x.device)
        return torch.bmm(x.transpose(1, 2), x).flatten(1).index_select(1, lower)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        # d/dx of x^T x with gradient G is x (G + G^T): gather G + G^T at once. The diagonal has no
        # gradient and reads an extra zero.
        (x,) = ctx.saved_tensors
        n = x.shape[2]
        _, both = _triangle(n, x.device)
        return torch.bmm(x, F.pad(grads[0], (0, 1)).index_select(1, both).view(-1, n, n))


@lru_cache(maxsize=64)
def _triangle(n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Places of the strict lower triangle in a flat n x n matrix, and the way back for both halves."""
    row, column = torch.tril_indices(n, n, -1)
    count = row.numel()
    both = torch.full((n, n), count)
    both[row, column] = both[column, row] = torch.arange(count)
    return (row * n + column).to(device), both.flatten().to(device)


def attention(qkv: Tensor, heads: int) -> Tensor:
    """Softmax attention of `qkv: [B, s, 3 D]` (queries, keys, values side by side) to `[B, s, D]`.

    Heads of size 2 make the softmax, not the products, the whole cost. A few heads at a time keep the
    scores in cache and nothing but the input is kept for backward, which computes them again: on two CPU
    cores 1.7 times faster than torch's fused kernel and 3 to 4 times faster than whole score matrices.
    """
    if not _plain() and qkv.device.type == "cpu":
        return _Attention.apply(qkv, heads)
    return plain_attention(qkv, heads)


def plain_attention(qkv: Tensor, heads: int) -> Tensor:
    batch, s, three_d = qkv.shape
    query, key, value = qkv.view(batch, s, 3, heads, three_d // 3 // heads).permute(2, 0, 3, 1, 4).unbind(0)
    out = F.scaled_dot_product_attention(query, key, value)
    return out.transpose(1, 2).reshape(batch, s, three_d // 3)


def _by_head(x: Tensor, parts: int, heads: int) -> Tensor:
    """`[B, s, parts D]` to `[parts, B heads, D / heads, s]`, contiguous."""
    batch, s, n = x.shape
    size = n // parts // heads
    return x.reshape(batch, s, parts, heads, size).permute(2, 0, 3, 4, 1).reshape(parts, batch * heads, size, s)


def _from_heads(x: Tensor, heads: int) -> Tensor:
    """Inverse of `_by_head`."""
    parts, n, size, s = x.shape
    return x.view(parts, n // heads, heads, size, s).permute(1, 4, 0, 2, 3).reshape(n // heads, s, -1)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, heads: int) -> Tensor:
        ctx.heads = heads
        ctx.save_for_backward(qkv)
        packed = _by_head(qkv, 3, heads)
        query, key, value = packed.unbind(0)
        query.mul_(query.shape[1] ** -0.5)
        out = torch.empty_like(value)
        scores, shares, step = _buffers(query)
        for i in range(0, query.shape[0], step):
            q, k, v, o = query[i : i + step], key[i : i + step], value[i : i + step], out[i : i + step]
            n = q.shape[0]
            torch.bmm(q.transpose(1, 2), k, out=scores[:n])
            torch.softmax(scores[:n], -1, out=shares[:n])
            torch.bmm(v, shares[:n].transpose(1, 2), out=o)
        return _from_heads(out.unsqueeze(0), heads)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None]:
        (qkv,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted
            out = plain_attention(qkv, ctx.heads)
            return torch.autograd.grad(out, qkv, grads[0], create_graph=True)[0], None
        query, key, value = _by_head(qkv, 3, ctx.heads).unbind(0)
        grad = _by_head(grads[0], 1, ctx.heads)[0]
        scale = query.shape[1] ** -0.5
        query.mul_(scale)
        packed = torch.empty(3, *query.shape, dtype=query.dtype, device=query.device)
        scores, shares, step = _buffers(query)
        for i in range(0, query.shape[0], step):
            q, k, v, g = query[i : i + step], key[i : i + step], value[i : i + step], grad[i : i + step]
            d_query, d_key, d_value = packed[:, i : i + step].unbind(0)
            s, p = scores[: q.shape[0]], shares[: q.shape[0]]
            torch.bmm(q.transpose(1, 2), k, out=s)
            torch.softmax(s, -1, out=p)
            torch.bmm(g, p, out=d_value)
            torch.bmm(g.transpose(1, 2), v, out=s)
            torch.ops.aten._softmax_backward_data.out(s, p, -1, s.dtype, grad_input=s)
            torch.bmm(k, s.transpose(1, 2), out=d_query)
            torch.bmm(q, s, out=d_key)
        packed[0].mul_(scale)
        return _from_heads(packed, ctx.heads), None


def _buffers(query: Tensor) -> tuple[Tensor, Tensor, int]:
    s = query.shape[2]
    step = max(1, min(query.shape[0], _SCORES_AT_A_TIME // (s * s)))
    both = torch.empty(2, step, s, s, dtype=query.dtype, device=query.device)
    return both[0], both[1], step
