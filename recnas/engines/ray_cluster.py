"""Getting at a Ray cluster: start one here, or join one that runs, and say in a sentence why it fails.

`ray.init` waits for minutes on a wrong address and then ends the process. So an address is tried first,
with a bounded wait, in a process of its own.
"""

from __future__ import annotations

import logging
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from recnas.errors import BackendMissing, RunError

CONNECT_SECONDS = 10.0  # for the port to answer
JOIN_SECONDS = 45.0  # for the whole of `ray.init` in the trial process
_TRIAL = """
import logging, sys, ray
ray.init(address=sys.argv[1], logging_level=logging.ERROR, log_to_driver=False)
"""
_joined: set[str] = set()  # addresses that have answered to this process


def import_ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise BackendMissing(
            f"--engine ray needs the package ray, which does not load here ({error}).",
            "pip install 'recnas[ray]', or leave out --engine ray.",
        ) from None
    return ray


def connect(ray: Any, workers: int, address: str | None) -> Callable[[], None]:
    """Make sure that this process is part of a cluster; the result undoes what had to be done for it."""
    if ray.is_initialized():
        _check_room(ray, workers)
        return lambda: None
    _keep_stdout_clean(ray)
    if address is None:
        ray.init(
            address="local",  # not None: that would join whatever cluster happens to run here
            num_cpus=workers,
            include_dashboard=False,
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
        return ray.shutdown
    check_address(address)
    ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    try:
        _check_room(ray, workers)
    except RunError:
        ray.shutdown()
        raise
    return ray.shutdown


def _keep_stdout_clean(ray: Any) -> None:
    """Ray reports every dead worker on standard output, where --json goes, and has no setting for it."""
    with suppress(AttributeError):
        if isinstance(ray._private.worker._worker_logs_enabled, bool):
            ray._private.worker._worker_logs_enabled = False


def check_address(address: str) -> None:
    """Raise unless a cluster answers there; takes seconds, whatever is wrong."""
    if address in _joined:
        return
    if address != "auto":
        _knock(address)
    try:
        trial = subprocess.run(
            [sys.executable, "-c", _TRIAL, address], capture_output=True, text=True, timeout=JOIN_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise _not_let_in(address, f"nothing let us in within {JOIN_SECONDS:.0f} seconds") from None
    if trial.returncode != 0:
        lines = [line for line in trial.stderr.splitlines() if line.strip()]
        raise _not_let_in(address, lines[-1].strip() if lines else f"exit code {trial.returncode}")
    _joined.add(address)


def _knock(address: str) -> None:
    match = re.fullmatch(r"(?:ray://)?\[?([^/\[\]]+?)\]?:(\d{1,5})", address)
    if match is None or int(match[2]) > 65535:
        raise RunError(
            f"--ray-address {address!r} is not an address.",
            "Write auto, or HOST:PORT as `ray start --head` printed it.",
        )
    try:
        socket.create_connection((match[1], int(match[2])), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise _no_cluster(address, str(error)) from None


def _no_cluster(address: str, reason: str, more: str = "") -> RunError:
    return RunError(
        f"There is no Ray cluster at {address}: {reason}.",
        "Start one with `ray start --head` and give --ray-address HOST:6379 (or auto on its machines), "
        f"or leave out --ray-address to use this machine alone.{more}",
    )


def _not_let_in(address: str, reason: str) -> RunError:
    """The port answers. Ray sends its token to an address that was spelled out only if it is told to."""
    token = " If it runs and asks for a token: export RAY_AUTH_MODE=token" if address != "auto" else ""
    return _no_cluster(address, reason, token)


def _check_room(ray: Any, workers: int) -> None:
    cpus = int(ray.cluster_resources().get("CPU", 0))
    if cpus < workers:
        raise RunError(
            f"The Ray cluster has {cpus} CPUs; {workers} workers were asked for.",
            f"Use --workers {max(cpus, 1)}, or join more machines: ray start --address=HOST:6379",
        )
