"""YAML of people, read as plain values: text, numbers, yes and no, lists and mappings, in bounded time and memory.

The YAML language can do more than a config needs: a few lines whose aliases stand for billions of values, dates, sets,
nesting without end. All of that is refused as a fault of the file.
"""

from __future__ import annotations

from typing import Any

import yaml

LARGEST, DEEPEST, MOST_VALUES = 4 << 20, 60, 200_000  # bytes, levels, values once aliases are written out


class _Plain(yaml.SafeLoader):
    """Knows what JSON knows; 2001-01-01 is a text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as the base class has it
        first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _refused(loader: _Plain, node: yaml.Node) -> None:
    raise ValueError(f"{node.tag} is not known here; write plain values")


for _kind in ("binary", "timestamp", "omap", "pairs", "set"):
    _Plain.add_constructor(f"tag:yaml.org,2002:{_kind}", _refused)


def parse_yaml(text: str) -> Any:
    """Raises: ValueError, with what is wrong in one line."""
    if len(text) > LARGEST:
        raise ValueError(f"it has {len(text):,} characters, and no file of settings has more than {LARGEST:,}")
    try:
        _check_depth(text)
        loader = _Plain(text)
        try:
            root = loader.get_single_node()
            if root is None:
                return None
            if _values(root, {}) > MOST_VALUES:
                raise ValueError(f"its aliases stand for more than {MOST_VALUES:,} values")
            return loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())[:300]) from None
    except (LookupError, AttributeError, TypeError, OverflowError) as error:  # of `!!bool x`, `!!int ""` and such
        raise ValueError(f"a value is not of the kind that its tag says ({str(error)[:80]})") from None


def _check_depth(text: str) -> None:
    """Before anything recurses into it."""
    depth = 0
    for event in yaml.parse(text, _Plain):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"it is nested deeper than {DEEPEST} levels")


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for with its aliases written out; each node is counted once."""
    if id(node) in known:
        if known[id(node)] < 0:
            raise ValueError("an alias stands for something that it is a part of")
        return known[id(node)]
    known[id(node)] = -1
    inside = node.value if isinstance(node, yaml.CollectionNode) else []
    parts = [part for item in inside for part in (item if isinstance(item, tuple) else (item,))]
    known[id(node)] = 1 + sum(_values(part, known) for part in parts)
    return known[id(node)]
