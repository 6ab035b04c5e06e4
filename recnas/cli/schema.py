"""Every setting of a settings class: key, type, default and the sentence that explains it.

Meanings are the comments beside the fields, read from the sources: one place to write them, next to the code.
"""

from __future__ import annotations

import ast
import inspect
import io
import textwrap
import tokenize
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

# What a user may ask for, and the class that says it.
FAMILIES = {
    "search": "recnas.tasks.settings:CtrSearchConfig",
    "images": "recnas.tasks.settings:ImageSearchConfig",
    "table": "recnas.tasks.settings:TableSearchConfig",
    "gradient": "recnas.tasks.settings:GradientSearchConfig",
    "warmup": "recnas.train.settings:WarmupConfig",
    "train": "recnas.train.settings:TrainSettings",
    "compare": "recnas.tasks.comparison.settings:CompareConfig",
    "contest": "recnas.tasks.contest:ContestConfig",
    "score": "recnas.evaluators.settings:ScoreSettings",
    "bench": "recnas.bench.build_settings:BenchSettings",
    "correlate": "recnas.jobs.correlate_cells:CellCorrelation",
}


class Row(NamedTuple):
    key: str
    type: str
    default: str
    meaning: str


def settings_of(family: str) -> type[BaseModel]:
    module, _, name = FAMILIES[family].partition(":")
    found: type[BaseModel] = getattr(import_module(module), name)
    return found


def settings_rows(cls: type[BaseModel]) -> list[Row]:
    """One row per setting, sections opened; of a choice of sections, each choice in turn."""
    return list(_rows(cls, ""))


def _rows(cls: type[BaseModel], prefix: str) -> Iterator[Row]:
    for name, field in cls.model_fields.items():
        models = _models(field.annotation)
        meaning = _comments(cls).get(name, "")
        if models and field.annotation is not None:
            summary = " ".join((inspect.getdoc(models[0]) or "").split("\n\n")[0].split())
            default = "null" if field.default is None else ""
            kind = "section" if len(models) == 1 else "one of " + ", ".join(map(_method, models))
            yield Row(f"{prefix}{name}", kind, default, meaning or (summary if len(models) == 1 else ""))
            for model in models:
                inner = f"{prefix}{name}." if len(models) == 1 else f"{prefix}{name}[{_method(model)}]."
                yield from _rows(model, inner)
        else:
            yield Row(f"{prefix}{name}", _type(field.annotation), _default(field), meaning)


def _method(model: type[BaseModel]) -> str:
    field = model.model_fields.get("method")
    return str(get_args(field.annotation)[0]) if field is not None else model.__name__


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if getattr(annotation, "__origin__", None) in (dict, list, tuple):
        return []
    return [model for arg in get_args(annotation) for model in _models(arg)]


def _type(annotation: Any) -> str:
    """As a user writes values: `a | b` for a choice, `null` for none."""
    if annotation is NoneType:
        return "null"
    if annotation is Ellipsis:
        return "..."
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " | ".join(map(str, inside))
    if origin in (Union, UnionType):
        return " | ".join(map(_type, inside))
    if inside:
        return f"{origin.__name__}[{', '.join(map(_type, inside))}]"
    return str(getattr(annotation, "__name__", annotation))


def _default(field: Any) -> str:
    if field.default is not PydanticUndefined:
        return "null" if field.default is None else str(field.default)
    return "" if field.default_factory is None else str(field.default_factory())


@lru_cache(maxsize=128)
def _comments(cls: type[BaseModel]) -> dict[str, str]:
    """The comment beside each field, of the class and those it derives from."""
    meanings: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        if not (isinstance(owner, type) and issubclass(owner, BaseModel)) or owner is BaseModel:
            continue
        source = textwrap.dedent(inspect.getsource(owner))
        said = {
            token.start[0]: token.string.lstrip("# ").strip()
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        }
        body = ast.parse(source).body[0]
        assert isinstance(body, ast.ClassDef)
        for node in body.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                # A long value is wrapped in brackets by the formatter, and its comment with it.
                last = node.end_lineno or node.lineno
                comment = " ".join(said[line] for line in range(node.lineno, last + 1) if line in said)
                if comment and not comment.startswith(("noqa", "type:")):
                    meanings[node.target.id] = comment
    return meanings
