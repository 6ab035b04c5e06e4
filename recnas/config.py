"""Typed settings from YAML plus `dotted.key=value` overrides.

Every fault is gathered and reported at once, before any data is read; an unknown key suggests the
nearest valid name. A settings class is a pydantic model that derives from `Settings`:

    class Warmup(Settings):
        share: float = 0.01

    settings = load_settings(Warmup, "my.yaml", ["share=0.1"])

A file may start from another one and say only what differs: `base: other.yaml` (beside it) or the name of a
shipped config, `base: synthetic/laptop`.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from recnas.errors import ConfigError
from recnas.files import read_text
from recnas.plugins import load_plugin
from recnas.resources import resource_dir
from recnas.yaml_text import LARGEST, parse_yaml

S = TypeVar("S", bound="Settings")


class Settings(BaseModel):
    """Base of every settings class: frozen, and a key it does not know is a fault."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def load_settings(cls: type[S], path: Path | str, overrides: Iterable[str] = ()) -> S:
    """Read a YAML file, apply overrides, and check everything.

    Raises:
        ConfigError: with every fault of the file and the overrides in one message.
    """
    data, overrides = read_config(path), list(overrides)
    faults = apply_overrides(data, overrides)
    return check_settings(cls, data, source=str(path), earlier_faults=faults, overrides=overrides)


def read_config(path: Path | str) -> dict[str, Any]:
    """A config file with everything it takes from its `base`; the plugins it names are loaded."""
    data = read_yaml(path)
    named = data.pop("plugins", None) or []
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        raise ConfigError(f"{path}: plugins must be a list of files and modules.", "plugins: [mine.py]")
    for spec in named:
        load_plugin(spec)
    return data


def read_yaml(path: Path | str) -> dict[str, Any]:
    """A file with everything it takes from its `base`. Nothing is loaded."""
    return _read_with_base(Path(path), ())


def based(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """A section of the file `path` with everything it takes from a `base` of its own."""
    return _with_base(data, path, ())


def _read_with_base(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    return _with_base(_read_one(path), path, above)


def _with_base(data: dict[str, Any], path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    base = data.pop("base", None)
    if base is None:
        return data
    if not isinstance(base, str):
        raise ConfigError(f"{path}: base must be the name of a config.", "base: other.yaml, or base: synthetic/laptop")
    there = path.parent / base
    shipped = resource_dir("configs") / f"{base}.yaml"
    if not there.is_file() and shipped.is_file():
        there = shipped
    chain = (*above, path.resolve())
    if there.resolve() in chain:
        raise ConfigError(f"{path} is its own base, through {there}.", "Take one `base:` line out.")
    return merged(_read_with_base(there, chain), data)


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` over it, section by section. A section of another `method` replaces the whole one."""
    result = dict(base)
    for name, value in changes.items():
        old = result.get(name)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            same = value.get("method", old.get("method")) == old.get("method")
            result[name] = merged(old, value) if same else dict(value)
        else:
            result[name] = value
    return result


def _read_one(path: Path) -> dict[str, Any]:
    try:
        text = read_text(path, LARGEST)
    except FileNotFoundError:
        raise ConfigError(f"There is no file {path}.", "List the shipped ones: recnas configs") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from None
    try:
        data = parse_yaml(text)
    except ValueError as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold `key: value` lines, but its top level is a {type(data).__name__}.")
    if isinstance(data.get("plugins"), list):  # files are named from the folder of the config
        data["plugins"] = [_beside(path, one) if isinstance(one, str) else one for one in data["plugins"]]
    return data


def _beside(path: Path, plugin: str) -> str:
    return str(path.resolve().parent / plugin) if plugin.endswith(".py") or "/" in plugin else plugin


def apply_overrides(data: dict[str, Any], overrides: Iterable[str]) -> list[str]:
    """Set `a.b.c=value` in nested dictionaries; values are read as YAML. Returns the faults."""
    faults = []
    for item in overrides:
        key, equals, text = item.partition("=")
        if not equals or not key:
            faults.append(f"override {item!r} must look like key=value")
            continue
        try:
            value = parse_yaml(text) if text else None
        except ValueError:
            faults.append(f"override {item!r}: {text!r} is not valid YAML")
            continue
        node = data
        *parents, last = key.split(".")
        for name in parents:
            child = node.get(name)
            if child is None:
                child = node[name] = {}
            if not isinstance(child, dict):
                faults.append(f"override {item!r}: {name} is a single value, it has no keys of its own")
                break
            node = child
        else:
            node[last] = value
    return faults


def check_settings(
    cls: type[S], data: dict[str, Any], source: str, earlier_faults: Sequence[str] = (), overrides: Sequence[str] = ()
) -> S:
    """Validate a dictionary, turning every fault into one readable line.

    Args:
        source: where `data` came from. earlier_faults: of the overrides themselves.
        overrides: the `key=value` items that `data` already holds; a fault in one of them is the command line's.
    """
    typed: list[str] = list(earlier_faults)
    written: list[str] = []
    try:
        settings = cls.model_validate(data)
    except RecursionError:
        raise ConfigError(f"{source} is nested too deep.") from None
    except ValidationError as error:
        keys = [item.partition("=")[0] for item in overrides]
        for fault in error.errors():
            (typed if _is_typed(fault, keys) else written).append(_fault_line(cls, fault))
    else:
        if not typed:
            return settings
    raise ConfigError(
        "\n".join(_faults(where, lines) for where, lines in (("the command line", typed), (source, written)) if lines)
    )


def _faults(source: str, lines: Sequence[str]) -> str:
    count = "1 fault" if len(lines) == 1 else f"{len(lines)} faults"
    return f"{source} has {count}:\n" + "\n".join(f"  - {line}" for line in lines)


def _is_typed(fault: Any, keys: Sequence[str]) -> bool:
    """Whether a fault lies at, below or above a key that was typed; above: `a.b=1` where `a` cannot be so."""
    path = ".".join(_typed_path(fault["loc"]))
    return any(path == key or path.startswith(f"{key}.") or (path and key.startswith(f"{path}.")) for key in keys)


def _typed_path(loc: Sequence[Any]) -> list[str]:
    """The keys a user types. Behind `search` pydantic names the method, which is a value and no key."""
    parts = [str(part) for part in loc]
    if len(parts) > 1 and parts[0] == "search":
        del parts[1]
    return parts


def nearest(name: str, known: Iterable[str]) -> str:
    """`, did you mean 'x'?` when a known name is close, otherwise the list of known names."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(known)}"


def _fault_line(cls: type[BaseModel], fault: Any) -> str:
    where = _typed_path(fault["loc"])
    path = ".".join(where)
    if fault["type"] == "extra_forbidden":
        return f"unknown key {path!r}; {nearest(where[-1], _fields_at(cls, where[:-1]))}"
    if fault["type"] == "missing":
        return f"{path} is required"
    if fault["type"] == "union_tag_invalid":
        known = [name.strip(" '") for name in fault["ctx"]["expected_tags"].split(",")]
        return f"{path}.method: there is no {fault['ctx']['tag']!r}; {nearest(fault['ctx']['tag'], known)}"
    message = fault["msg"].removeprefix("Value error, ")
    shown = reprlib.repr(fault["input"])
    return f"{path}: {message[:1].lower()}{message[1:]} (got {shown if len(shown) < 60 else shown[:57] + '...'})"


def _fields_at(cls: type[BaseModel], path: Sequence[str]) -> list[str]:
    """Field names of the model that lies at a path of keys; list indices and dict keys are skipped."""
    models: list[type[BaseModel]] = [cls]
    for part in path:
        inner = [
            m for model in models if part in model.model_fields for m in _models_in(model.model_fields[part].annotation)
        ]
        models = inner or models
    return sorted({name for model in models for name in model.model_fields})


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for arg in get_args(annotation) for model in _models_in(arg)]
