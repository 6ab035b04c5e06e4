"""The JSON format NASRec publishes its best architectures in.

Two parallel lists, `micro` and `macro`: block j is entry j-1 of both, while the numbers inside `macro` count
inputs as everywhere (0 the raw data, j the output of block j). `active_nodes` holds positions in an operator
list that differs between its two spaces, which `config` names.

`test_loss` is the supernet's score during search, not a test result, and `use_layernorm` is ignored by
NASRec's own final training; neither is a property of the architecture, so reading drops them.
"""

from __future__ import annotations

from typing import Any

from recnas.errors import SpaceError
from recnas.space.nasrec.arch import DENSE, DOT, EFC, FC, GATE, SPARSE, SUM, TRANSFORMER, NasrecArch
from recnas.space.nasrec.fields import block_list, make_block, need_keys, space_name
from recnas.space.nasrec.operators import OPERATORS
from recnas.space.nasrec.rules import ALIASES, FULL, RULES, SMALL, check, is_int

_CONFIG_NAME = {space: alias for alias, space in ALIASES.items()}
_NODES = {SMALL: (FC, DOT, EFC), FULL: (FC, DOT, GATE, SUM, TRANSFORMER, EFC)}
_MICRO_FIELDS = {  # their name: ours
    "dense_in_dims": "dense_dim",
    "sparse_in_dims": "sparse_dim",
    "dense_sparse_interact": "merge",
    "deep_fm": "fm",
}
_MACRO_FIELDS = {
    "dense_idx": "dense_in",
    "sparse_idx": "sparse_in",
    "dense_left_idx": "left",
    "dense_right_idx": "right",
}


def looks_like_reference(data: Any) -> bool:
    """Whether parsed JSON is meant to be in this format (it may still have faults)."""
    return isinstance(data, dict) and "format" not in data and ("micro" in data or "macro" in data)


def from_reference(data: Any) -> NasrecArch:
    """The architecture in parsed JSON; lists of inputs may come in any order, as they do there."""
    need_keys("the architecture", data, ("micro", "macro", "num_blocks", "config"), ("use_layernorm", "test_loss"))
    space = space_name("config", data["config"], list(ALIASES))
    micro, macro = block_list("micro", data["micro"]), block_list("macro", data["macro"])
    if not len(micro) == len(macro) == data["num_blocks"]:
        raise SpaceError(
            f"num_blocks is {data['num_blocks']!r}, but micro has {len(micro)} entries and macro {len(macro)}",
            "the three must agree: one micro and one macro entry per block",
        )
    blocks = []
    for b, (genes, wiring) in enumerate(zip(micro, macro), start=1):
        need_keys(f"block {b} (micro[{b - 1}])", genes, ("active_nodes", *_MICRO_FIELDS))
        need_keys(f"block {b} (macro[{b - 1}])", wiring, _MACRO_FIELDS)
        active = _active_operators(b, genes["active_nodes"], _NODES[space])
        found: dict[str, tuple[str, Any]] = {
            "dense_ops": (
                "active_nodes (dense part)",
                [op for op in active if OPERATORS[op].stream == DENSE],
            ),
            "sparse_ops": (
                "active_nodes (sparse part)",
                [op for op in active if OPERATORS[op].stream == SPARSE],
            ),
        }
        found |= {ours: (theirs, genes[theirs]) for theirs, ours in _MICRO_FIELDS.items()}
        found |= {ours: (theirs, wiring[theirs]) for theirs, ours in _MACRO_FIELDS.items()}
        blocks.append(make_block(b, found))
    return NasrecArch(space, tuple(blocks))


def to_reference(arch: NasrecArch, use_layernorm: bool = True, test_loss: float | None = None) -> dict[str, Any]:
    """The architecture as JSON-able data in this format; `test_loss` is left out unless given."""
    if arch.space not in _CONFIG_NAME:
        raise SpaceError(
            f"NASRec's format has no name for the space {arch.space!r}",
            f"it knows {' and '.join(_CONFIG_NAME)}; use recnas's own format for others",
        )
    check(arch, RULES[arch.space], sampled=False)  # NASRec's code could not build anything else
    nodes = _NODES[arch.space]
    micro: list[dict[str, Any]] = []
    macro: list[dict[str, Any]] = []
    for block in arch.blocks:
        active = [nodes.index(op) for op in (*block.dense_ops, *block.sparse_ops)]
        genes = {theirs: int(getattr(block, ours)) for theirs, ours in _MICRO_FIELDS.items()}
        micro.append({"active_nodes": active, **genes})
        macro.append({theirs: list(getattr(block, ours)) for theirs, ours in _MACRO_FIELDS.items()})
    data: dict[str, Any] = {
        "micro": micro,
        "macro": macro,
        "num_blocks": len(arch.blocks),
        "use_layernorm": int(use_layernorm),
        "config": _CONFIG_NAME[arch.space],
    }
    return data if test_loss is None else {**data, "test_loss": test_loss}


def _active_operators(b: int, active: Any, nodes: tuple[str, ...]) -> list[str]:
    listed = ", ".join(f"{number} {op}" for number, op in enumerate(nodes))
    valid = isinstance(active, list) and all(is_int(n) and 0 <= n < len(nodes) for n in active)
    if not valid:
        raise SpaceError(f"block {b}: active_nodes is {active!r}", f"give node numbers of this config: {listed}")
    return [nodes[n] for n in active]
