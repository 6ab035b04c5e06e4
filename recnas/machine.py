"""What this machine, or the container we run in, really gives: cores, memory, load; and how threads wait and memory is kept.

Nothing heavy is loaded here: `import recnas` itself calls `wait_passively`.
"""

from __future__ import annotations

import ctypes
import math
import os
from functools import lru_cache
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
_PASSIVE = "OMP_WAIT_POLICY"
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


def available_cores(cgroup: Path = CGROUP) -> int:
    """Cores this process may use: those it is bound to, and no more than a container's quota (rounded up)."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cpu_quota(cgroup)
    return max(1, bound if quota is None else min(bound, math.ceil(quota)))


def default_threads() -> int:
    """Threads of a new run unless its settings say otherwise: OMP_NUM_THREADS if that is set, else all cores."""
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(asked) if asked.isdecimal() and int(asked) > 0 else available_cores()


def load_average() -> float | None:
    """Processes that ran or waited for a core over the last minute; None where nobody counts them."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return None


def available_memory(cgroup: Path = CGROUP) -> float:
    """Bytes this machine, or the container we run in, can still give."""
    found = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    try:
        with open("/proc/meminfo") as file:
            found = next(float(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        pass
    for limit, used in (
        ("memory.max", "memory.current"),  # version 2
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),  # version 1; without a limit a huge number
    ):
        most, now = _number(cgroup / limit), _number(cgroup / used)
        if most is not None and now is not None:
            found = min(found, max(0.0, most - now))
    return found


def may_have_gpu(root: Path = Path("/")) -> bool:
    """Whether a driver of GPUs is there: only then is it worth loading torch to ask it."""
    signs = ("proc/driver/nvidia/version", "dev/nvidiactl", "dev/dxg", "dev/kfd")
    return os.name == "nt" or any((root / sign).exists() for sign in signs)


def processor_vendor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """GenuineIntel, AuthenticAMD ...; None where the system does not say."""
    try:
        with cpuinfo.open() as file:
            return next((line.split(":")[1].strip() for line in file if line.startswith("vendor_id")), None)
    except (OSError, IndexError):
        return None


def wait_passively() -> None:
    """Let threads that have nothing to do sleep instead of spinning, unless the user has chosen.

    torch's CPU build brings GNU's OpenMP, whose threads spin at the end of every parallel region until the last
    one is there. On a machine that others use too, that one waits for a core that a spinning thread holds:
    training was 10 to 30 times slower. The runtime reads this when it is loaded, so it must be set before torch.
    """
    os.environ.setdefault(_PASSIVE, "PASSIVE")


@lru_cache(maxsize=1)
def keep_freed_memory() -> None:
    """Let this process keep what it frees, up to 1 GiB at the top of its heap, for its next allocations.

    A training step frees and asks again for blocks of megabytes; glibc gives each back to the system, which
    clears its pages anew: a tenth of a step. Does nothing with another C library, or where the user has set MALLOC_*.
    """
    if any(name in os.environ for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")):
        return
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(_TRIM_THRESHOLD, 1 << 30)
    mallopt(_MMAP_THRESHOLD, 32 << 20)  # the most that it takes


def _cpu_quota(cgroup: Path) -> float | None:
    """Cores' worth of time a container may use; None for no limit."""
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()  # version 2: "150000 100000" or "max 100000"
        return None if quota == "max" else float(quota) / float(period)
    except (OSError, ValueError, ZeroDivisionError):
        pass
    used, period_us = _number(cgroup / "cpu/cpu.cfs_quota_us"), _number(cgroup / "cpu/cpu.cfs_period_us")
    return used / period_us if used is not None and used > 0 and period_us else None


def _number(path: Path) -> float | None:
    try:
        return float(path.read_text())
    except (OSError, ValueError):  # no such limit, or "max"
        return None
