"""Rooms of the package that are also verbs: `recnas.train` is a folder of modules, and `recnas.train(...)` trains.

Python makes a folder an attribute of its package whenever something of it is imported, so a function of the same name
would come and go. Instead the folder's module can be called.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Verb(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    @property
    def __wrapped__(self) -> Any:
        """The function, by whose signature help() and editors go."""
        return getattr(import_module("recnas.api"), self.__name__.rpartition(".")[2])


def also_a_verb(module: str) -> None:
    """Calling the module `recnas.NAME` calls `recnas.api.NAME`."""
    sys.modules[module].__class__ = _Verb
