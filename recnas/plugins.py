"""Parts of others: proxies, searchers, spaces, models and recipes that live outside the package.

A plugin is a module that registers parts when it is imported. It is named by a file, a folder with an `__init__.py`, or an
importable module: with --plugin, in RECNAS_PLUGINS, under `plugins:` in a config, by `recnas.load_plugin`, or by an entry
point of one of the groups below, whose modules are imported when a name is asked for that recnas itself does not have.

Plugins are programs. Nothing is imported because a run directory names it: a run says which plugins it was made with,
and whoever continues it loads them.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from recnas.errors import ConfigError, RunError

GROUPS = ("recnas.proxies", "recnas.searchers", "recnas.spaces", "recnas.models", "recnas.recipes")
VARIABLE = "RECNAS_PLUGINS"  # several are separated as in PATH
_PACKAGE = str(Path(__file__).parent)

T = TypeVar("T")


@dataclass(frozen=True)
class Carried:
    """A plugin as a worker process gets to know it."""

    spec: str
    name: str
    version: str


@dataclass
class Plugin:
    """One that is loaded. `name` and `version` are what a run keeps of it."""

    name: str
    version: str
    specs: list[str] = field(default_factory=list)  # by which it can be loaded elsewhere
    parts: set[str] = field(default_factory=set)  # names it has registered


@dataclass
class _Part(Generic[T]):
    value: T
    place: str
    plugin: Plugin | None


_loaded: dict[str, Plugin] = {}
_by_spec: dict[str, Plugin] = {}
_loading: list[Plugin] = []
_all_parts: list[Parts[Any]] = []
_asked_entry_points = False


class Parts(Generic[T]):
    """Names of one kind that plugins have added to recnas's own.

    Args:
        what: one of the kind, in words. own: the names that recnas has.
    """

    def __init__(self, what: str, own: Callable[[], Iterable[str]]) -> None:
        self._what, self._own = what, own
        self._parts: dict[str, _Part[T]] = {}
        _all_parts.append(self)

    def register(self, name: str, value: T) -> None:
        """Offer a part under a name that nobody else has."""
        place = _place()
        if not isinstance(name, str) or not name or name != name.strip():
            raise ConfigError(f"{place}: the name of a {self._what} must be text (got {name!r}).")
        if name in self._own():
            raise ConfigError(f"{place} registers {name!r}, and recnas has a {self._what} of that name.", _RENAME)
        there = self._parts.get(name)
        if there is not None and there.place != place:
            raise ConfigError(
                f"The {self._what} {name!r} is registered twice: at {there.place} and at {place}.", _RENAME
            )
        plugin = _loading[-1] if _loading else None
        if plugin is not None:
            plugin.parts.add(name)
        self._parts[name] = _Part(value, place, plugin)

    def find(self, name: str) -> T | None:
        """What plugins have under this name. They are looked for only if recnas has nothing of the name itself."""
        if name in self._own():
            return None
        if name not in self._parts:
            load_all()
        part = self._parts.get(name)
        return None if part is None else part.value

    def every(self) -> dict[str, T]:
        """All of them, for lists."""
        load_all()
        return {name: part.value for name, part in self._parts.items()}

    def known(self) -> dict[str, T]:
        """Those that are registered by now."""
        return {name: part.value for name, part in self._parts.items()}

    def forget(self, plugin: Plugin) -> None:
        self._parts = {name: part for name, part in self._parts.items() if part.plugin is not plugin}


_RENAME = "Rename it there, or leave one of the plugins out."


def _place() -> str:
    """Where, outside recnas, something is being registered."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(_PACKAGE + os.sep) or "importlib" in frame.f_code.co_filename
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename} line {frame.f_lineno}"


# Loading


def load_plugin(spec: str | Path) -> None:
    """Import a plugin, once: a file `mine.py`, a folder with `__init__.py`, or the name of a module.

    Raises:
        ConfigError: there is none, it does not import (which file and line), or it takes a name that is taken.
    """
    text = str(spec)
    path = Path(text)
    is_file = path.suffix == ".py" or os.sep in text or (path.exists() and _module_file(text.partition(".")[0]) is None)
    source = _source_of(path).resolve() if is_file else None
    key = text if source is None else str(source)
    if key in _by_spec:
        return
    if source is None:
        name = text.partition(".")[0]
        version = _version(name, text)
    else:
        name = source.parent.name if source.name == "__init__.py" else source.name
        version = _digest(source)
    plugin = _loaded.get(name) or Plugin(name, version)
    if plugin.version != version or (is_file and plugin.specs):
        raise ConfigError(
            f"Two plugins are called {name}: {key} and {', '.join(plugin.specs)}.", "Rename one of the files."
        )
    before = set(sys.modules)
    _loading.append(plugin)
    try:
        importlib.import_module(text) if source is None else _import_file(source)
    except ConfigError:
        _undo(plugin, before)
        raise
    except (Exception, SystemExit) as error:
        _undo(plugin, before)
        raise ConfigError(
            f"The plugin {text} cannot be used: {_where(error, key)}{type(error).__name__}: {error}.",
            "Correct that line, install what it imports, or leave the plugin out.",
        ) from error
    finally:
        _loading.pop()
    plugin.specs.append(key)
    _loaded[name] = _by_spec[key] = plugin


def load_all() -> None:
    """The plugins of RECNAS_PLUGINS and of installed packages. What they ask for while they are imported is not waited for."""
    global _asked_entry_points
    if _loading:
        return
    load_environment()
    if _asked_entry_points:
        return
    _asked_entry_points = True
    for entry in [entry for group in GROUPS for entry in metadata.entry_points(group=group)]:
        if entry.attr:
            raise ConfigError(
                f"The installed plugin {entry.name} names {entry.value}.",
                f"Its entry point must name the module alone, {entry.module}, which registers its parts when it is imported.",
            )
        load_plugin(entry.module)


def load_environment() -> None:
    for spec in os.environ.get(VARIABLE, "").split(os.pathsep):
        if spec:
            load_plugin(spec)


def _undo(plugin: Plugin, modules: set[str]) -> None:
    for parts in _all_parts:
        parts.forget(plugin)
    for name in set(sys.modules) - modules:
        if not name.startswith("recnas.") and name.startswith(("recnas_plugin_", plugin.name)):
            del sys.modules[name]


def _source_of(path: Path) -> Path:
    source = path / "__init__.py" if path.is_dir() else path
    if source.is_file():
        return source
    if path.is_dir():
        raise ConfigError(f"The plugin {path} is a folder without an __init__.py.", "Name a file of it, or add one.")
    raise ConfigError(f"There is no plugin file {path}.", "Make one: recnas new proxy mine.py")


def _import_file(path: Path) -> ModuleType:
    """Under a name that follows from the path, so that other processes find the same module."""
    stem = path.parent.name if path.name == "__init__.py" else path.stem
    plain = "".join(letter if letter.isalnum() else "_" for letter in stem)
    name = f"recnas_plugin_{plain}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    folders = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _digest(source: Path) -> str:
    """Of a file, or of all Python files of a package."""
    files = sorted(source.parent.rglob("*.py")) if source.name == "__init__.py" else [source]
    total = hashlib.sha256()
    for file in files:
        total.update(str(file.relative_to(source.parent)).encode() + b"\0")
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return f"sha256:{total.hexdigest()[:16]}"


def _version(top: str, module: str) -> str:
    """Of the installed package a module belongs to; else the checksum of its files."""
    for distribution in metadata.packages_distributions().get(top, ()):
        return metadata.version(distribution)
    file = _module_file(top)
    if file is None:
        raise ConfigError(
            f"There is no plugin {module}: no file of that name, and no module that can be imported.",
            "Name a file (--plugin mine.py), install the package, or add its folder to PYTHONPATH.",
        )
    return _digest(file)


def _module_file(top: str) -> Path | None:
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    return (
        Path(found.origin) if found is not None and found.origin is not None and Path(found.origin).is_file() else None
    )


def _where(error: BaseException, key: str) -> str:
    """The last line of the plugin's own that was run."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename} line {error.lineno}: "
    own = Path(key) if key.endswith(".py") else None
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_PACKAGE + os.sep) and "importlib" not in frame.filename
    ]
    ours = [frame for frame in frames if own is not None and frame.filename == str(own)] or frames
    return f"{ours[-1].filename} line {ours[-1].lineno}: " if ours else ""


# In worker processes and in runs


def carried() -> list[Carried]:
    """What is loaded here, for a worker to load before it is given anything."""
    return [Carried(spec, plugin.name, plugin.version) for plugin in _loaded.values() for spec in plugin.specs]


def take(plugins: Iterable[Carried]) -> None:
    """Load what another process has loaded."""
    for one in plugins:
        load_plugin(one.spec)
        version = _loaded[one.name].version
        if version != one.version:
            raise RunError(
                f"The plugin {one.name} is {version} here, and {one.version} where the work was begun.",
                "Do not change plugins while something runs; repeat the command.",
            )


def used_by(facts: Any) -> dict[str, str]:
    """Name and version of every plugin of which a part is named in `facts`; and of those that register no names."""
    named = set(_texts(facts))
    return {p.name: p.version for p in _loaded.values() if not p.parts or p.parts & named}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(name)
            yield from _texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner)


def require(manifest: Mapping[str, Any], where: Path) -> None:
    """Refuse to continue a run without the plugins it was made with, or with other ones."""
    wanted: Mapping[str, str] = manifest.get("plugins") or {}
    if any(name not in _loaded for name in wanted):
        load_all()
    for name, version in wanted.items():
        plugin = _loaded.get(name)
        if plugin is None:
            raise RunError(
                f"{where} was made with the plugin {name} ({version}), which is not loaded.",
                f"Name it: --plugin {name} (a file with its path), or {VARIABLE}.",
            )
        if plugin.version != version:
            raise RunError(
                f"{where} was made with the plugin {name} {version}, and now it is {plugin.version}.",
                "Put the plugin back as it was, or choose another --out.",
            )
