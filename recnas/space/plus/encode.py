"""Hand-crafted CTR models as architectures of `nasrec-plus`: one function per model, by its name in the zoo.

Settings are complete, as `recnas.baselines.encoded.encode` gives them; weights are copied there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recnas.errors import SpaceError
from recnas.space.base import nearest_name
from recnas.space.nasrec.layers import NetShape
from recnas.space.plus import field_operators as field
from recnas.space.plus import operators as ops
from recnas.space.plus.arch import AS_DATA, PlusArch
from recnas.space.plus.draft import Draft

Settings = dict[str, Any]
LINEAR: Settings = {"numbers": True, "first_order": True}  # the linear term of many models


Encoder = Callable[[Draft, Settings], PlusArch]
ENCODERS: dict[str, Encoder] = {}


def encodes(model: str) -> Callable[[Encoder], Encoder]:
    """The function that follows describes `model`."""

    def register(function: Encoder) -> Encoder:
        ENCODERS[model] = function
        return function

    return register


@encodes("lr")
def _lr(draft: Draft, settings: Settings) -> PlusArch:
    return draft.done(**LINEAR)


def _pairs(draft: Draft, settings: Settings) -> int:
    fields = draft.fields(settings["dense_fields"])
    return draft.add(ops.PAIRS, width=1, row_left=(fields,))


@encodes("fm")
def _fm(draft: Draft, settings: Settings) -> PlusArch:
    return draft.done(_pairs(draft, settings), start_scale=0.1, **LINEAR)


@encodes("dnn")
def _dnn(draft: Draft, settings: Settings) -> PlusArch:
    return draft.done(draft.perceptron(settings["hidden"], settings))


@encodes("wide-deep")
def _wide_deep(draft: Draft, settings: Settings) -> PlusArch:
    return draft.done(draft.perceptron(settings["hidden"], settings), spare_bias=True, **LINEAR)


@encodes("deepfm")
def _deepfm(draft: Draft, settings: Settings) -> PlusArch:
    pairs = _pairs(draft, settings)
    deep = draft.perceptron(settings["hidden"], settings)
    return draft.done(pairs, deep, spare_bias=True, start_scale=0.3, **LINEAR)


@encodes("xdeepfm")
def _xdeepfm(draft: Draft, settings: Settings) -> PlusArch:
    fields = draft.fields(settings["dense_fields"])
    maps, grams, sizes = fields, [], settings["cin"]
    for k, size in enumerate(sizes):
        going_on = size // 2 if k + 1 < len(sizes) else 0
        sparse: Settings = {"sparse": ops.CIN, "rows": going_on} if going_on else {}
        maps = draft.add(ops.GRAM, width=size - going_on, row_left=(maps,), row_right=(fields,), **sparse)
        grams.append(maps)
    deep = draft.perceptron(settings["hidden"], settings)
    return draft.done(*grams, deep, spare_bias=True, **LINEAR)


def _crosses(draft: Draft, op: str, layers: int, **genes: Any) -> tuple[int, int]:
    """The start of a cross network and its last layer."""
    last = start = draft.add(ops.FLAT)
    for _ in range(layers):
        last = draft.add(op, left=(last,), right=(start,), residual=True, **genes)
    return start, last


def _with_perceptron(draft: Draft, crossed: int, settings: Settings) -> PlusArch:
    """Beside the crosses, or above them."""
    stacked = settings.get("structure") == "stacked"
    deep = draft.perceptron(settings["hidden"], settings, (crossed,) if stacked else ())
    return draft.done(deep) if stacked else draft.done(crossed, deep)


@encodes("dcn")
def _dcn(draft: Draft, settings: Settings) -> PlusArch:
    return _with_perceptron(draft, _crosses(draft, ops.CROSS_VECTOR, settings["crosses"])[1], settings)


@encodes("dcn-v2")
def _dcnv2(draft: Draft, settings: Settings) -> PlusArch:
    rank = settings["rank"] or 0
    return _with_perceptron(draft, _crosses(draft, ops.CROSS, settings["crosses"], inner=rank)[1], settings)


@encodes("gdcn")
def _gdcn(draft: Draft, settings: Settings) -> PlusArch:
    return _with_perceptron(draft, _crosses(draft, ops.CROSS_GATED, settings["crosses"])[1], settings)


@encodes("dcnv3")
def _dcnv3(draft: Draft, settings: Settings) -> PlusArch:
    shape = draft.shape
    fields = draft.fields()
    width = (shape.n_sparse + shape.n_dense) * shape.width if fields else AS_DATA
    start = draft.add(ops.FLAT, width=width, flat=(fields,))
    other = settings["linear_dropout"]
    ends = []
    for name, dropout in (("exponential", settings["dropout"]), ("linear", other)):
        last, dropout = start, settings["dropout"] if dropout is None else dropout
        for _ in range(settings[name]):
            last = draft.add(
                ops.CROSS_MASKED, width=width, left=(last,), right=(last if name == "exponential" else start,),
                residual=True, norm="layer" if settings["mask_norm"] else "none", dropout=dropout or None,
            )  # fmt: skip
        ends.append(last)
    return draft.done(*ends, mean=True)


@encodes("masknet")
def _masknet(draft: Draft, settings: Settings) -> PlusArch:
    normal = draft.add(sparse=ops.NORMAL, rows=draft.shape.n_sparse, row_left=(0,))
    made: list[int] = []
    serial = settings["structure"] == "serial"
    for i in range(settings["blocks"]):
        below: Settings = {"reads": (made[-1],)} if serial and i else {"reads": draft.numbers, "flat": (normal,)}
        made.append(
            draft.add(
                ops.MASK, width=settings["block_width"], inner=settings["mask_width"], norm="layer",
                activation="relu", dropout=settings["dropout"] or None, **below,
            )
        )  # fmt: skip
    deep = draft.perceptron(settings["hidden"], settings, made[-1:] if serial else made)
    return draft.done(deep, start_scale=0.1)


@encodes("dlrm")
def _dlrm(draft: Draft, settings: Settings) -> PlusArch:
    shape, bottom = draft.shape, 0
    if shape.n_dense:
        below = settings["bottom_dropout"]
        below = settings["dropout"] if below is None else below
        bottom = draft.perceptron((*settings["bottom"], shape.width), settings, (0,), dropout=below)
    number = (bottom,) if bottom else ()
    if settings["interaction"] == "cat":
        return draft.done(draft.perceptron(settings["hidden"], settings, number, (0,)))
    n = shape.n_sparse + len(number)
    dots = draft.add(ops.DOTS, width=n * (n - 1) // 2, reads=number, flat=() if number else (0,), row_left=(0,))
    return draft.done(draft.perceptron(settings["hidden"], settings, (*number, dots)))


@encodes("fwfm")
def _fwfm(draft: Draft, settings: Settings) -> PlusArch:
    fields = draft.fields(settings["dense_fields"])
    return draft.done(draft.add(field.WEIGHTED, width=1, row_left=(fields,)), start_scale=0.1)


@encodes("autoint+")
def _autoint(draft: Draft, settings: Settings) -> PlusArch:
    rows = draft.fields(settings["dense_fields"])
    for _ in range(settings["layers"]):
        rows = draft.add(
            sparse=field.ATTEND, row_left=(rows,), heads=settings["heads"], head_width=settings["head_width"],
            scaled=settings["scaled"], shortcut=settings["residual"], row_norm=settings["attention_norm"],
            rows=draft.shape.n_sparse + (draft.shape.n_dense if settings["dense_fields"] else 0),
            dropout=settings["attention_dropout"],
        )  # fmt: skip
    deep = draft.perceptron(settings["hidden"], settings)
    return draft.done(deep, rows=(rows,), spare_bias=True)


@encodes("fibinet")
def _fibinet(draft: Draft, settings: Settings) -> PlusArch:
    fields = draft.fields(settings["dense_fields"])
    first, *rest = settings["hidden"]
    pairs = draft.add(
        field.BILINEAR, width=first, reads=draft.numbers, flat=() if draft.numbers else (0,), row_left=(fields,),
        matrices=settings["bilinear"], reduction=settings["reduction"], norm=settings["norm"], activation="relu",
        dropout=settings["dropout"] or None,
    )  # fmt: skip
    deep = draft.perceptron(rest, settings, (pairs,)) if rest else pairs
    return draft.done(deep, spare_bias=True, **LINEAR)


@encodes("finalmlp")
def _finalmlp(draft: Draft, settings: Settings) -> PlusArch:
    if settings["own_contexts"]:
        raise SpaceError(
            "nasrec-plus has one vector per column, and finalmlp with own_contexts reads another one in its gates",
            "set own_contexts to false",
        )
    given: list[tuple[int, ...]] = [(), ()]
    if settings["use_gates"]:
        columns = (settings["first_context"], settings["second_context"])
        gates: Settings = {"dense": field.GATED, "inner": settings["gate_width"]}
        given = [(draft.add(context=-1 if column is None else column, **gates),) for column in columns]
    other = settings["second_dropout"]
    plans = (
        (settings["hidden"], settings["dropout"]),
        (settings["second"] or settings["hidden"], settings["dropout"] if other is None else other),
    )
    one, two = (
        draft.perceptron(hidden, settings, reads, dropout=dropout) for (hidden, dropout), reads in zip(plans, given)
    )
    fused = draft.add(field.FUSION, width=1, left=(one,), right=(two,), heads=settings["fusion_heads"])
    return draft.done(one, two, fused)


@encodes("finalnet")
def _finalnet(draft: Draft, settings: Settings) -> PlusArch:
    flat: tuple[int, ...] = (0,)
    if settings["field_gate"]:
        flat = (0, draft.add(sparse=field.FIELD_GATE, rows=draft.shape.n_sparse, row_left=(0,)))
    other = settings["second_dropout"]
    plans = [
        (settings["hidden"], flat, settings["dropout"]),
        (settings["second"] or settings["hidden"], (0,), settings["dropout"] if other is None else other),
    ][: settings["blocks"]]
    ends = [
        draft.perceptron(hidden, settings, draft.numbers, rows, dropout=dropout, op=field.FACTORISED)
        for hidden, rows, dropout in plans
    ]
    return draft.done(*ends, mean=True)


@encodes("wukong")
def _wukong(draft: Draft, settings: Settings) -> PlusArch:
    if settings["fm_rows"] != settings["linear_rows"] or len(settings["fm_hidden"]) > 1:
        raise SpaceError(
            "nasrec-plus has Wukong's layers with as many rows of either kind, and one hidden layer in a block",
            "set fm_rows and linear_rows to the same, and fm_hidden to one width",
        )
    rows = draft.fields()
    for _ in range(settings["layers"]):
        rows = draft.add(
            sparse=field.WUKONG, rows=2 * settings["fm_rows"], row_left=(rows,), rank=settings["rank"],
            hidden=settings["fm_hidden"][0], norm=settings["norm"], dropout=settings["dropout"] or None,
        )  # fmt: skip
    return draft.done(draft.perceptron(settings["hidden"], settings, flat=(rows,)))


def encode(model: str, shape: NetShape, settings: Settings) -> PlusArch:
    """The architecture of a hand-crafted model, given all its settings."""
    if model not in ENCODERS:
        raise SpaceError(f"nasrec-plus cannot express {model!r}", nearest_name(model, ENCODERS))
    return ENCODERS[model](Draft(shape), dict(settings))
