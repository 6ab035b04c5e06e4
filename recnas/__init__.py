"""recnas finds architectures for click-through-rate models.

`import recnas` is cheap: nothing heavy is loaded until it is used.
"""

from __future__ import annotations

from importlib import metadata

try:
    __version__ = metadata.version("recnas")
except metadata.PackageNotFoundError:  # running from a source tree that was not installed
    __version__ = "0+unknown"
