"""Which device computes: decided here and nowhere else.

    device = choose_device("auto")       # a GPU if torch sees one, else the CPU

Workers share out the GPUs of their machine: worker i takes GPU i modulo their number, unless a setting names one
(`cuda:1`). A process that is nobody's worker is number 0.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from recnas.errors import ConfigError
from recnas.machine import available_cores, may_have_gpu

if TYPE_CHECKING:
    import torch

KINDS = ("cpu", "cuda")
WORKER_BYTES = 4e9  # of a GPU's free memory for each worker: libraries, shared weights, a candidate's activations
MOST_PER_GPU = 4  # beyond that, workers only wait for each other

_worker = 0  # the number of this process among the workers of its machine


def known_device(asked: str) -> str:
    kind, _, number = asked.partition(":")
    if asked == "auto" or (kind in KINDS and (not number or (kind != "cpu" and number.isdecimal()))):
        return asked
    raise ValueError(f"there is no device {asked!r}; write auto, cpu, cuda or cuda:N")


Device = Annotated[str, AfterValidator(known_device)]  # of settings


@dataclass(frozen=True)
class Gpu:
    """What forecasts know of a GPU; all sizes in bytes.

    gflops: of float32 products, by arithmetic from its clock and cores, or as somebody measured it.
    """

    name: str
    memory: float
    free: float
    gflops: float


def be_worker(number: int) -> None:
    """This process is worker `number` of its machine from now on."""
    global _worker
    _worker = number


def choose_device(asked: str, setting: str = "device") -> torch.device:
    """The device a setting asks for, in this process."""
    import torch

    try:
        known_device(asked)
    except ValueError as error:
        raise ConfigError(f"{setting}: {error}.") from None
    many = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked == "auto":
        asked = "cuda" if many else "cpu"
    device = torch.device(asked)
    if device.type != "cuda":
        return device
    if not many:
        raise ConfigError(
            f"The setting {setting} is {asked}, but torch sees no CUDA device here.",
            f"Use {setting}=cpu (of a search: supernet.device=cpu score.device=cpu final.train.device=cpu), or see: "
            "recnas doctor",
        )
    number = _worker % many if device.index is None else device.index
    if number >= many:
        raise ConfigError(
            f"The setting {setting} is {asked}, but torch sees {many} CUDA device(s) here, cuda:0 to cuda:{many - 1}.",
            f"Use one of them, or {setting}=cuda to let workers share them out.",
        )
    # float32 means float32: cuDNN's convolutions would otherwise round their inputs to 10 bits of fraction (TF32).
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.cuda.set_device(number)  # or libraries take a part of the first GPU's memory in every process
    return torch.device("cuda", number)


def give_back_memory() -> None:
    """Let other processes have what this one keeps of GPUs for its next allocations."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def gpus() -> list[Gpu]:
    """The GPUs of this machine as torch sees them; empty without one, and then torch is not even loaded."""
    if not may_have_gpu():
        return []
    import torch

    if not torch.cuda.is_available():
        return []
    found = []
    for number in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(number)
        free, memory = torch.cuda.mem_get_info(number)
        clock = getattr(facts, "clock_rate", 0) or 1_400_000  # kHz
        # 128 float32 units in a multiprocessor, two operations each and cycle: right within a factor of two since 2014
        found.append(Gpu(facts.name, memory, free, facts.multi_processor_count * 128 * 2 * clock / 1e6))
    return found


def default_workers() -> int:
    """Worker processes unless the user says otherwise: one for each core, or a few for each GPU where there are GPUs."""
    return workers_for(gpus(), available_cores())


def workers_for(found: list[Gpu], cores: int) -> int:
    """Of one thread each on CPUs; on GPUs as many as fit into the memory that is free, and no more than there are cores."""
    if not found:
        return cores
    each = [min(MOST_PER_GPU, max(1, int(gpu.free // WORKER_BYTES))) for gpu in found]
    return max(1, min(sum(each), max(cores, len(found))))


def share_of_gpu(workers: int, many: int) -> float:
    """What a worker asks of a GPU where somebody else shares GPUs out (Ray): all workers must fit at once."""
    return 1.0 / -(-workers // many) if many else 0.0


def needs_device(asked: str) -> bool:
    """Whether work with this setting would take a GPU if it were offered one."""
    return re.match(r"auto|cuda", asked) is not None
