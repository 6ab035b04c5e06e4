"""Hand-written differentiable functions: where autograd's own graph costs time or memory.

Each has a plain twin in ordinary torch operations, which is used inside `torch.func` transforms, while a
network is exported or compiled, under autocast and under `plain_kernels()`; both give the same numbers up to rounding.
Second derivatives work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.model import observe
from recnas.model.products import product

# Scores held at a time by the attention: two buffers of 2 MB stay in cache, [B, 8, 64, 64] would not.
_SCORES_AT_A_TIME = 2**19
# Scores in base 2 below this are raised as they are: 2^60 times 64 rows is far from overflow in float32,
# and 2^-60 far from losing digits.
_SAFE_SCORE = 60.0


_plain_wanted = False


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Ordinary torch operations only, for tools that read them one by one: counters, debuggers."""
    global _plain_wanted
    before, _plain_wanted = _plain_wanted, True
    try:
        yield
    finally:
        _plain_wanted = before


def needs_plain_operations() -> bool:
    """Whether ordinary operations are needed, because something wants to see or transform each of them."""
    return (
        _plain_wanted
        or observe.listening()
        or torch.compiler.is_compiling()
        or torch.is_autocast_enabled("cpu")  # lower precision is chosen operation by operation
        or torch.is_autocast_enabled("cuda")
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


def linear(xs: Sequence[Tensor], weights: Sequence[Tensor], bias: Tensor | None) -> Tensor:
    """`sum_j xs[j] @ weights[j].T + bias` for `xs[j]: [N, k_j]`, `weights[j]: [n, k_j]`, result `[N, n]`.

    Neither inputs nor weights are concatenated, so the weights may be views into larger storages. The
    gradient of a weight comes out row-major: torch's own rule makes it column-major for a strided view and
    then copies it.
    """
    if not needs_plain_operations():
        return _Linear.apply(len(xs), bias, *xs, *weights)
    out = F.linear(xs[0], weights[0], bias)
    for x, weight in zip(xs[1:], weights[1:]):
        out = out + F.linear(x, weight)
    for j, (x, weight) in enumerate(zip(xs, weights)):
        observe.linear(weight, x, out, bias if j == 0 else None)
    return out


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, n: int, bias: Tensor | None, *tensors: Tensor) -> Tensor:
        ctx.n = n
        ctx.save_for_backward(*tensors)
        x, weight = tensors[0], tensors[n]
        out = product(x, weight, bias)
        for j in range(1, n):
            out.addmm_(tensors[j], tensors[n + j].t())
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        n, needs = ctx.n, ctx.needs_input_grad
        tensors = ctx.saved_tensors
        out: list[Tensor | None] = [None, grad.sum(0) if needs[1] else None]
        out.extend(product(grad, tensors[n + j].t()) if needs[2 + j] else None for j in range(n))
        transposed = grad.t()
        out.extend(product(transposed, tensors[j].t()) if needs[2 + n + j] else None for j in range(n))
        return tuple(out)


def pairwise_dots(x: Tensor) -> Tensor:
    """Products of every pair of rows, `x: [B, D, n]` (any strides) to `[B, n (n - 1) / 2]`.

    Order: strict lower triangle of the Gram matrix, row by row: (1,0), (2,0), (2,1), (3,0) ... so the
    products of the leading rows are the leading columns.
    """
    if not needs_plain_operations():
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
    """Softmax attention among the rows, `qkv: [3 D, B, s]` (queries, keys, values) to `[D, B, s]`.

    Heads of size 2 make the softmax, not the products, the whole cost. Three things bring it down:

    - one head of a few examples at a time, so that scores stay in cache; backward computes them again and
      nothing of size `s x s` is ever kept;
    - base 2, which is twice as fast as `exp` on a CPU and free, as log2(e) goes into the scale;
    - no subtraction of the largest score unless a bound on the scores leaves room for overflow, and no
      division of the shares: an added row of ones sums them within the product with the values.
    """
    if not needs_plain_operations() and qkv.device.type == "cpu":
        return _Attention.apply(qkv, heads)
    return plain_attention(qkv, heads)


def plain_attention(qkv: Tensor, heads: int) -> Tensor:
    query, key, value = qkv.unflatten(0, (3, heads, -1)).permute(0, 3, 1, 4, 2).unbind(0)
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    out = scores.softmax(-1) @ value  # [B, heads, s, D / heads]
    return out.permute(1, 3, 0, 2).flatten(0, 1)


def _largest_score(qkv: Tensor, heads: int) -> float:
    """An upper bound on the absolute scores in base 2."""
    three_d = qkv.shape[0]
    both = qkv.detach()[: three_d // 3 * 2].view(2, heads, three_d // 3 // heads, -1)
    query, key = both.square().sum(2).amax(2).sqrt()  # the longest query and key of each head
    return float((query * key).max()) * _scale(both.shape[2])


def _scale(size: int) -> float:
    return size**-0.5 * math.log2(math.e)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, heads: int) -> Tensor:
        query, key, value = _split(qkv, heads)
        _, size, batch, s = query.shape
        out = torch.empty_like(query)
        sums = torch.empty(heads, batch, s, dtype=qkv.dtype)
        shares, step = _buffer(query)
        ctx.shift = _largest_score(qkv, heads) >= _SAFE_SCORE
        for h in range(heads):
            q, k, v = query[h].permute(1, 2, 0), key[h].transpose(0, 1), value[h].transpose(0, 1)
            o = out[h].transpose(0, 1)
            for i in range(0, batch, step):
                part = slice(i, i + step)
                e = shares[: min(step, batch - i)]
                _raise(torch.bmm(q[part], k[part], out=e), ctx.shift)
                total = torch.bmm(v[part], e.transpose(1, 2))  # [step, size + 1, s]
                torch.div(total[:, :size], total[:, size:], out=o[part])
                sums[h, part] = total[:, size]
        result = out.flatten(0, 1)
        ctx.heads = heads
        ctx.save_for_backward(qkv, result, sums)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None]:
        qkv, result, sums = ctx.saved_tensors
        heads = ctx.heads
        if torch.is_grad_enabled():  # a second derivative is wanted
            out = plain_attention(qkv, heads)
            return torch.autograd.grad(out, qkv, grads[0], create_graph=True)[0], None
        query, key, value = _split(qkv, heads)
        _, size, batch, s = query.shape
        # With shares p = e / z, d score = p (g v - g o) = e ((g / z) v - (g / z) o): the last term is one
        # more row of the product, against the row of ones that the values carry.
        grad = torch.empty_like(value)
        torch.div(grads[0].unflatten(0, (heads, size)), sums.unsqueeze(1), out=grad[:, :size])
        torch.sum(grad[:, :size] * result.unflatten(0, (heads, size)), 1, out=grad[:, size]).neg_()
        packed = torch.empty(3, heads, size, batch, s, dtype=qkv.dtype)
        shares, step = _buffer(query)
        scores = torch.empty_like(shares)
        for h in range(heads):
            q, k, v, g = (x[h].transpose(0, 1) for x in (query, key, value, grad))
            d_query, d_key, d_value = (x[h].transpose(0, 1) for x in packed)
            for i in range(0, batch, step):
                part = slice(i, i + step)
                n = min(step, batch - i)
                e, d = shares[:n], scores[:n]
                _raise(torch.bmm(q[part].transpose(1, 2), k[part], out=e), ctx.shift)
                torch.bmm(g[part].transpose(1, 2), v[part], out=d).mul_(e)
                # Copied into place: a batched product straight into a strided result is one call per matrix.
                d_value[part] = torch.bmm(g[part, :size], e)
                d_query[part] = torch.bmm(k[part], d.transpose(1, 2))
                d_key[part] = torch.bmm(q[part], d)
        # The scores were in base 2: the queries carry the scale and log2(e), the keys' gradient undoes the latter.
        packed[0].mul_(size**-0.5)
        packed[1].mul_(math.log(2.0))
        return packed.view(-1, batch, s), None


def _split(qkv: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (scaled for base 2) and keys `[heads, D / heads, B, s]`, values with a row of ones below."""
    query, key, value = qkv.unflatten(0, (3, heads, -1)).unbind(0)
    size = query.shape[1]
    return query * _scale(size), key, F.pad(value, (0, 0, 0, 0, 0, 1), value=1.0)


def _raise(scores: Tensor, shift: bool) -> None:
    """Two to the power of the scores, in place; the largest of each row becomes 1 with `shift`."""
    if shift:
        scores.sub_(scores.amax(-1, keepdim=True))
    scores.exp2_()


def _buffer(query: Tensor) -> tuple[Tensor, int]:
    _, _, batch, s = query.shape
    step = max(1, min(batch, _SCORES_AT_A_TIME // (s * s)))
    return torch.empty(step, s, s, dtype=query.dtype), step


def column_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """LayerNorm along the FIRST axis of `x: [D, ...]`: torch's own wants it last, and is slow for D = 16."""
    if not needs_plain_operations():
        return _ColumnNorm.apply(x, gain, bias, eps)
    return plain_column_norm(x, gain, bias, eps)


class _ColumnNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
        flat = x.flatten(1)
        mean = flat.mean(0)
        unit = flat - mean
        scale = unit.square().mean(0).add_(eps).rsqrt_()
        unit.mul_(scale)
        ctx.eps = eps
        ctx.save_for_backward(x, gain, bias, mean, scale)
        return torch.addcmul(bias.unsqueeze(1), unit, gain.unsqueeze(1)).view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, bias, mean, scale = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted
            out = plain_column_norm(x, gain, bias, ctx.eps)
            return *torch.autograd.grad(out, (x, gain, bias), grads[0], create_graph=True), None
        grad = grads[0].flatten(1)
        unit = (x.flatten(1) - mean).mul_(scale)
        grad_unit = grad * unit
        # d x = scale (gain grad - mean(gain grad) - unit mean(gain grad unit)); the means over D are products.
        weights = gain.unsqueeze(0) / gain.numel()
        d_x = grad * gain.unsqueeze(1)
        d_x.sub_(weights @ grad).sub_(unit.mul_(weights @ grad_unit)).mul_(scale)
        return d_x.view_as(x), grad_unit.sum(1), grad.sum(1), None


def plain_column_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x.movedim(0, -1), (x.shape[0],), gain, bias, eps).movedim(-1, 0)
