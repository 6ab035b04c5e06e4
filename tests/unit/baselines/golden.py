"""The models once more, one row and one loop at a time, in float64 numpy, straight from their papers.

`p` holds the network's parameters by name, `x` the dense numbers of a row, `v` its vectors `[F, D]`, and `w` its
first-order weights `[F]`.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np


def mlp(p, name, x, layers, head=True):
    for i in range(layers):
        x = np.maximum(0, p[f"{name}.layers.{i}.weight"] @ x + p[f"{name}.layers.{i}.bias"])
    return float((p[f"{name}.out.weight"] @ x + p[f"{name}.out.bias"])[0]) if head else x


def first_order(p, name, x, w):
    return float(p[f"{name}.bias"][0] + sum(w) + sum(a * b for a, b in zip(p[f"{name}.weight"][0], x)))


def with_dense(p, x, v):
    return np.concatenate([v, np.stack([number * row for number, row in zip(x, p["fields.weight"])])])


def pair_sum(v):
    return float(sum(v[i] @ v[j] for i, j in combinations(range(len(v)), 2)))


def flat(x, v):
    return np.concatenate([*v, x])


def layer_norm(x, gain, offset, eps=1e-5):
    return (x - x.mean()) / np.sqrt(x.var() + eps) * gain + offset


def lr(p, x, v, w):
    return first_order(p, "first", x, w)


def fm(p, x, v, w):
    return first_order(p, "first", x, w) + pair_sum(with_dense(p, x, v))


def fwfm(p, x, v, w):
    v = with_dense(p, x, v)
    total = float(p["bias"][0]) + sum(float(a @ b) for a, b in zip(v, p["linear"]))
    for strength, (i, j) in zip(p["strength"], combinations(range(len(v)), 2)):
        total += float(strength * (v[i] @ v[j]))
    return total


def dnn(p, x, v, w):
    return mlp(p, "deep", flat(x, v), 2)


def wide_deep(p, x, v, w):
    return first_order(p, "wide", x, w) + dnn(p, x, v, w)


def deepfm(p, x, v, w):
    return fm(p, x, v, w) + dnn(p, x, v, w)


def xdeepfm(p, x, v, w, sizes=(4, 6, 5)):
    """Map after map, each a [D] vector, without any rearrangement."""
    n = len(v)
    upper = [(i, j) for i in range(n) for j in range(i, n)]
    below, pooled = None, []
    for k, size in enumerate(sizes):
        going_on = size // 2 if k + 1 < len(sizes) else 0
        if k == 0:
            products = [v[i] * v[j] for i, j in upper]
        else:
            products = [one * other for one in below for other in v]
        direct = [sum(float(c) * one for c, one in zip(row, products)) for row in p[f"cin.direct.{k}"]]
        pooled += [float(one.sum()) for one in direct]
        if going_on:
            below = [sum(float(c) * one for c, one in zip(row, products)) for row in p[f"cin.hidden.{k}"]]
            assert len(below) == going_on
        assert len(direct) == size - going_on
    return first_order(p, "first", x, w) + float(p["pool.weight"][0] @ np.array(pooled)) + dnn(p, x, v, w)


def dcn(p, x, v, w):
    start = current = flat(x, v)
    for cross, bias in zip(p["cross"], p["bias"]):
        current = start * (current @ cross) + bias + current
    return float(p["head"][0] @ current) + dnn(p, x, v, w)


def dcn_v2(p, x, v, w):
    start = current = flat(x, v)
    for k in range(3):
        current = start * (p[f"crosses.{k}.weight"] @ current + p[f"crosses.{k}.bias"]) + current
    return float(p["head.weight"][0] @ current) + dnn(p, x, v, w)


def autoint(p, x, v, w, layers=2, heads=2, width=3):
    fields = with_dense(p, x, v)
    for k in range(layers):
        query, key, value = np.split(p[f"attention.{k}.project.weight"], 3)
        residual = p[f"attention.{k}.residual.weight"]
        out = []
        for field in fields:
            mixed = []
            for h in range(heads):
                part = slice(h * width, (h + 1) * width)
                scores = np.array([(query[part] @ field) @ (key[part] @ other) for other in fields])
                weights = np.exp(scores) / np.exp(scores).sum()
                mixed.append(sum(a * (value[part] @ other) for a, other in zip(weights, fields)))
            out.append(np.maximum(0, np.concatenate(mixed) + residual @ field))
        fields = np.stack(out)
    attended = float(p["head.weight"][0] @ fields.ravel() + p["head.bias"][0])
    return attended + dnn(p, x, v, w)


def dlrm(p, x, v, w):
    number = mlp(p, "bottom", x, 2, head=False)
    everything = [number, *v]
    dots = [float(a @ b) for a, b in combinations(everything, 2)]
    return mlp(p, "top", np.concatenate([number, dots]), 2)


def fibinet(p, x, v, w, kind="all"):
    squeezed = np.maximum(0, p["squeeze.weight"] @ v.mean(1))
    importance = np.maximum(0, p["excite.weight"] @ squeezed)
    parts = []
    for fields in (v, v * importance[:, None]):
        for number, (i, j) in enumerate(combinations(range(len(v)), 2)):
            weight = {"all": p["weight"], "each": p["weight"][i % len(p["weight"])]}.get(kind)
            if kind == "interaction":
                weight = p["weight"][number]
            parts.append((fields[i] @ weight) * fields[j])
    return first_order(p, "first", x, w) + mlp(p, "deep", np.concatenate([*parts, x]), 2)


def masknet(p, x, v, w, serial=False, blocks=2):
    raw = flat(x, v)
    normal = flat(x, [layer_norm(row, gain, offset) for row, gain, offset in zip(v, p["gain"], p["offset"])])
    outputs, current = [], normal
    for k in range(blocks):
        name = f"blocks.{k}."
        narrow = np.maximum(0, p[name + "narrow.weight"] @ raw + p[name + "narrow.bias"])
        mask = p[name + "widen.weight"] @ narrow + p[name + "widen.bias"]
        given = current if serial else normal
        hidden = p[name + "hidden.weight"] @ (given * mask)
        current = np.maximum(0, layer_norm(hidden, p[name + "norm.weight"], p[name + "norm.bias"]))
        outputs.append(current)
    return mlp(p, "deep", current if serial else np.concatenate(outputs), 2)


def finalmlp(p, x, v, w, heads=2):
    raw, outs = flat(x, v), []
    for k in range(2):
        name = f"gates.{k}."
        hidden = np.maximum(0, p[name + "hidden.weight"] @ p[name + "context"][0] + p[name + "hidden.bias"])
        gate = 2 / (1 + np.exp(-(p[name + "out.weight"] @ hidden + p[name + "out.bias"])))
        outs.append(mlp(p, f"streams.{k}", raw * gate, 2, head=False))
    one, two = outs
    total = float(p["linear.weight"][0] @ np.concatenate(outs) + p["linear.bias"][0])
    for h, (a, b) in enumerate(zip(np.split(one, heads), np.split(two, heads))):
        total += float(a @ p["bilinear"][h] @ b)
    return total


def linear(p, name, x):
    bias = p.get(f"{name}.bias")
    return p[f"{name}.weight"] @ x + (0 if bias is None else bias)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gdcn(p, x, v, w, stacked=False):
    start = current = flat(x, v)
    for k in range(2):
        gate = sigmoid(linear(p, f"crosses.{k}.gate", current))
        crossed = linear(p, f"crosses.{k}.cross", current)
        current = np.array([s * c * g + old for s, c, g, old in zip(start, crossed, gate, current)])
    if stacked:
        return mlp(p, "deep", current, 2)
    return float(p["head.weight"][0] @ current) + dnn(p, x, v, w)


def finalnet(p, x, v, w, blocks=2, gated=True):
    inputs = [flat(x, v), flat(x, v)][:blocks]
    if gated:
        gates = [sum(p["gate.weight"][i, j] * v[j] for j in range(len(v))) + p["gate.bias"][i] for i in range(len(v))]
        inputs[0] = np.concatenate([inputs[0], *(row * gate for row, gate in zip(v, gates))])
    logits = []
    for b, current in enumerate(inputs):
        for k in range(2):
            both = linear(p, f"blocks.{b}.layers.{k}", current)
            half = len(both) // 2
            products = [both[i] * both[half + i] for i in range(half)]
            current = np.maximum(0, np.concatenate([both[:half], products]))
        logits.append(float(p[f"heads.{b}.weight"][0] @ current))
    return sum(logits) / blocks + float(p["bias"][0])


def dcnv3(p, x, v, w, exponential=2, linear_layers=3, norm=True):
    fields = with_dense(p, x, v)
    half = -(-fields.shape[1] // 2)
    start = np.concatenate([*(row[:half] for row in fields), *(row[half:] for row in fields)])
    logits = []
    for name, layers in (("exponential", exponential), ("linear", linear_layers)):
        current = start
        for k in range(layers):
            layer = f"{name}.layers.{k}."
            c = p[layer + "weight.weight"] @ current
            normal = layer_norm(c, p[layer + "norm.weight"], p[layer + "norm.bias"]) if norm else c
            masked = [a * max(0.0, b) for a, b in zip(c, normal)]
            factor = np.array([*c, *masked][: len(start)]) + p[layer + "bias"]
            current = (current if name == "exponential" else start) * factor + current
        logits.append(float(p[f"{name}.head.weight"][0] @ current))
    return sum(logits) / 2 + float(p["bias"][0])


def wukong(p, x, v, w, layers=2):
    rows = with_dense(p, x, v)
    for k in range(layers):
        layer = f"layers.{k}."
        gram = np.array([[a @ b for b in rows] for a in rows])  # the whole X X^T, which the model never has
        products = (gram @ p[layer + "machine.project"]).ravel()
        normal = layer_norm(products, p[layer + "machine.norm.weight"], p[layer + "machine.norm.bias"])
        out = linear(p, layer + "machine.out", mlp(p, layer + "machine.deep", normal, 1, head=False))
        machine = out.reshape(-1, rows.shape[1])
        compressed = [sum(c * row for c, row in zip(line, rows)) for line in p[layer + "compress.weight"]]
        new = np.concatenate([machine, compressed])
        kept = p[layer + "residual.weight"] @ rows if layer + "residual.weight" in p else rows
        gain, offset = p[layer + "norm.weight"], p[layer + "norm.bias"]
        rows = np.stack([layer_norm(a + b, gain, offset) for a, b in zip(new, kept, strict=True)])
    return mlp(p, "deep", rows.ravel(), 2)


SMALL = {"hidden": (6, 4)}
# name: (settings, the computation above)
GOLDEN = {
    "lr": ({}, lr),
    "fm": ({}, fm),
    "fwfm": ({}, fwfm),
    "dnn": (SMALL, dnn),
    "wide-deep": (SMALL, wide_deep),
    "deepfm": (SMALL, deepfm),
    "xdeepfm": ({**SMALL, "cin": (4, 6, 5)}, xdeepfm),
    "dcn": ({**SMALL, "crosses": 3}, dcn),
    "dcn-v2": ({**SMALL, "crosses": 3}, dcn_v2),
    "autoint+": ({**SMALL, "layers": 2, "heads": 2, "head_width": 3}, autoint),
    "dlrm": ({**SMALL, "bottom": (5,)}, dlrm),
    "fibinet": ({**SMALL, "bilinear": "all"}, fibinet),
    "masknet": ({**SMALL, "blocks": 2, "block_width": 5, "mask_width": 7}, masknet),
    "finalmlp": ({**SMALL, "fusion_heads": 2, "gate_width": 3}, finalmlp),
    "finalnet": (SMALL, finalnet),
    "gdcn": ({**SMALL, "crosses": 2}, gdcn),
    "dcnv3": ({"exponential": 2, "linear": 3}, dcnv3),
    "wukong": ({**SMALL, "layers": 2, "fm_rows": 4, "linear_rows": 3, "rank": 2, "fm_hidden": (5,)}, wukong),
}  # fmt: skip
