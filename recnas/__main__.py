"""`python -m recnas` is `recnas`; torchrun starts processes this way."""

from __future__ import annotations

import sys

from recnas.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
