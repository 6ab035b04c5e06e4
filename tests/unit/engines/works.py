"""Work that fails or dies, for the tests of every engine."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from recnas.errors import DataError
from recnas.stopping import asked, stop, waiting_for_checks


@dataclass(frozen=True)
class Faulty:
    def open(self):
        def call(item: int) -> int:
            if item == 3:
                raise DataError("row 3 is bad.", "Mend row 3.")
            if item == 5:
                raise ValueError("a fault of the code")
            return item

        return call


@dataclass(frozen=True)
class DiesOnce:
    """Kills its own process the first time an item comes by, as the system's memory guard would."""

    marks: str
    always: bool = False

    def open(self):
        def call(item: int) -> int:
            mark = Path(self.marks, f"item-{item}")
            if item % 4 == 1 and (self.always or not mark.exists()):
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return item

        return call


@dataclass(frozen=True)
class Environment:
    """Says what a variable of its process is."""

    def open(self):
        return lambda name: os.environ.get(name)


@dataclass(frozen=True)
class Steps:
    """Goes on until it is asked to stop, and then writes that down first, as trainings do."""

    marks: str

    def open(self):
        def call(item: int) -> None:
            with waiting_for_checks():
                Path(self.marks, "begun").touch()
                while asked() is None:
                    time.sleep(0.01)
                Path(self.marks, "saved").touch()
                stop()

        return call


@dataclass(frozen=True)
class WorkerNumber:
    """Says which worker of its machine it is; slow enough that all of them get something to do."""

    def open(self):
        from recnas import devices

        def call(item: int) -> int:
            time.sleep(0.05)
            return devices._worker

        return call


@dataclass(frozen=True)
class VisibleGpus:
    """Which GPUs its process may see, and would be lost without: `device` says that it can use one."""

    device: str = "auto"

    def open(self):
        def call(item: int) -> str | None:
            time.sleep(0.02)
            return os.environ.get("CUDA_VISIBLE_DEVICES")

        return call
