"""A process that has recnas loaded and forks a child for every command: loading torch a thousand times would be the attack.

Requests are JSON lines on stdin; for each the child's process id is answered, and once it has ended how it did. Nothing of
recnas has run in this process, and it has one thread, so a child begins as a fresh interpreter would that has
only imported things. The child is a process like any other: it can be killed, and what it holds is gone.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import runpy
import signal
import sys
import time
from typing import Any

MODULES = ("recnas.cli.main", "recnas.cli.prepare", "recnas.cli.train", "recnas.cli.search", "recnas.cli.compare", "recnas.cli.warmup",
           "recnas.cli.bench", "recnas.cli.export", "recnas.cli.predict", "recnas.cli.verify", "recnas.cli.repair", "recnas.cli.report",
           "recnas.cli.score", "recnas.cli.inspect", "recnas.jobs.search", "recnas.jobs.race", "recnas.jobs.compare.compare",
           "recnas.jobs.bench", "recnas.train.standalone", "recnas.train.warmup", "recnas.serve.load", "recnas.serve.predict",
           "recnas.tasks.ctr", "recnas.tasks.forecast", "recnas.evaluators.proxy", "recnas.evaluators.training", "recnas.data.prepare.prepare",
           "torch._dynamo", "torch.export", "recnas.trust.repair", "recnas.trust.verify", "recnas.bench.ctr_table", "recnas.bench.leaderboard")  # fmt: skip
_PR_SET_PDEATHSIG = 1


def main() -> None:
    for name in MODULES:
        importlib.import_module(name)
    _shorten()
    threads = len(os.listdir("/proc/self/task"))
    print(json.dumps({"ready": True, "threads": threads}), flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _child(json.loads(line))
        print(json.dumps({"pid": pid}), flush=True)
        _, status, used = os.wait4(pid, 0)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status), "peak": used.ru_maxrss}), flush=True)


def _shorten() -> None:
    """A second of measured answers per model: how long a model takes to answer is no result that is attacked."""
    latency = importlib.import_module("recnas.train.latency")
    latency.QUICK, latency.THOROUGH = (0.0, 1), (0.0, 1)  # type: ignore[attr-defined]


def _child(request: dict[str, Any]) -> None:
    code = 70
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        for number, path, flags in (
            (0, request["stdin"], os.O_RDONLY),
            (1, request["out"], os.O_WRONLY),
            (2, request["err"], os.O_WRONLY),
        ):
            handle = os.open(path, flags | os.O_CREAT | (os.O_TRUNC if number else 0), 0o600)
            os.dup2(handle, number)
            os.close(handle)
        os.chdir(request["cwd"])
        os.environ |= request["environment"]
        if request["memory"]:
            resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
        while time.monotonic() < request["begin"]:  # those who are to begin at one moment
            pass
        if request["arm"]:
            _arm(**request["arm"])
        code = _call(request)
        sys.stdout.flush()
        sys.stderr.flush()
        if request["arm"]:
            with open(request["calls"], "w") as file:
                file.write(json.dumps([ctypes.CDLL(None).attack_calls(kind) for kind in range(6)]))
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _call(request: dict[str, Any]) -> int:
    from recnas.cli.main import main

    argv = request["argv"]
    try:
        if argv[0] == "python":  # a program that recnas wrote
            sys.argv, sys.dont_write_bytecode = argv[1:], True
            sys.path.insert(0, os.path.dirname(argv[1]))
            runpy.run_path(argv[1], run_name="__main__")
            return 0
        return main(argv)
    except SystemExit as end:  # of argparse
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0


def _arm(below: str, kind: int, at: int, number: int, sticky: bool, record: str | None) -> None:
    handle = -1 if record is None else os.open(record, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    arm = ctypes.CDLL(None).attack_arm
    arm.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_int]
    arm(os.fsencode(below), kind, at, number, int(sticky), handle)


if __name__ == "__main__":
    main()
