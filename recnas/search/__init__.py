"""Choosing what to try next: searchers that ask, are told, and replay a ledger.

The package is also the function: `recnas.search("synthetic/laptop", "runs/first")` runs a whole search, as
the command does; see `recnas.api`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _SearchPackage(ModuleType):
    """Lets the name of the command and the name of the package live side by side."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        # By name: a searcher knows nothing of jobs, and importing this package loads none.
        return import_module("recnas.api").search(*args, **options)


sys.modules[__name__].__class__ = _SearchPackage
