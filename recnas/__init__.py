"""recnas finds architectures for click-through-rate models.

    import recnas
    run = recnas.search("synthetic/laptop", "runs/first")      # or recnas.open_run("runs/first")
    run.best.load(), run.table(), run.result

    synth  prepare  warmup  get_space  score  search  train_model  compare  open_run  load  export      see docs/python.md

`import recnas` is cheap: nothing heavy is loaded until it is used.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

from recnas.machine import wait_passively

if TYPE_CHECKING:
    from recnas.api import (
        Best,
        Comparison,
        Exported,
        Run,
        Training,
        WarmedSupernet,
        compare,
        export,
        get_space,
        load,
        load_plugin,
        open_run,
        prepare,
        score,
        search,
        synth,
        train_model,
        warmup,
    )

__all__ = [
    "Best", "Comparison", "Exported", "Run", "Training", "WarmedSupernet", "compare", "export", "get_space",
    "load", "load_plugin", "open_run", "prepare", "score", "search", "synth", "train_model", "warmup",
]  # fmt: skip

wait_passively()  # before anything loads torch

try:
    __version__ = metadata.version("recnas")
except metadata.PackageNotFoundError:  # running from a source tree that was not installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("recnas.api"), name)
    raise AttributeError(f"module 'recnas' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
