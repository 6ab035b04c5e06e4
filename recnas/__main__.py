"""`python -m recnas` is `recnas`; torchrun starts processes this way."""

from __future__ import annotations

import os
import sys

from recnas.cli.main import main


def _leave(code: int) -> None:
    """End one process of several at once, with everything written.

    The interpreter's own way out tears down threads of the libraries below us; beside other processes that
    ends, about once in fifty runs, in an abort after all work is done, and torchrun then calls the run failed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    code = main()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        _leave(code)
    sys.exit(code)
