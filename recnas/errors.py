"""Every error a user can cause. Each message says what went wrong, why, and what to type next.

The command line turns these into one readable paragraph and an exit code; a traceback means the
fault is ours.
"""

from __future__ import annotations


class RecnasError(Exception):
    """Base of everything recnas raises on purpose.

    Args:
        what: what went wrong and why, in one or two sentences.
        fix: what the user can type or change next; printed on its own line.
    """

    exit_code = 2

    def __init__(self, what: str, fix: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what}\n  -> {self.fix}" if self.fix else self.what

    def __reduce__(self) -> tuple:
        # Worker processes send errors home by pickling; keep both parts.
        return (type(self), (self.what, self.fix))


class ConfigError(RecnasError):
    """One or more faults in a config file, an override or an option; all of them at once."""


class DataError(RecnasError):
    """A raw file, a recipe or a prepared folder is not what it should be."""


class SpaceError(RecnasError):
    """An architecture does not fit its space or its data."""


class RunError(RecnasError):
    """A run directory cannot be used: locked, damaged, or made from something else."""


class BackendMissing(RecnasError):
    """An optional library is not installed or does not load on this machine."""
