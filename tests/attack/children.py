"""Commands of recnas in processes that can be killed, whose files can fail, and that are ended when they take too long."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.attack.shim import ERRORS, KILL, KINDS, Fault

ROOT = Path(__file__).parents[2]
LONGEST = 300.0  # seconds; nothing here takes a tenth of it alone
MEMORY = 64 << 30  # bytes of address space; the Java machine reserves much and uses little
# Libraries that start threads when they are loaded; a fork would leave them in the middle of what they do.
NO_THREADS = {
    "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE",
    "JE_ARROW_MALLOC_CONF": "background_thread:false", "MALLOC_CONF": "background_thread:false",
}  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """How a command ended; `code` is negative for a signal."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str
    hung: bool  # ended by us after `LONGEST`
    killed: bool  # by us, as was wanted
    peak: int  # bytes of memory, those of the server at least
    calls: dict[str, int]  # by kind, of files below the folder; empty if it was killed, or nothing was to fail

    @property
    def traceback(self) -> bool:
        return "Traceback (most recent call last)" in self.err or "this is a fault of recnas" in self.err

    @property
    def refused(self) -> bool:
        """Exit code 2 and a sentence of ours."""
        return self.code == 2 and not self.traceback and ("recnas" in self.err or "usage:" in self.err)

    def __str__(self) -> str:
        return f"recnas {' '.join(self.argv)}: exit code {self.code}\n{self.err[-2000:]}"


class Children:
    """One server, and one child of it at a time. Use it as a context."""

    def __init__(self, folder: Path, shim: Path | None) -> None:
        self.folder, self.shim = folder, shim
        self._server: subprocess.Popen[bytes] | None = None
        self._unread = b""

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server, self._unread = None, b""

    def begin(
        self,
        argv: Sequence[str | Path],
        *,
        fault: Fault | None = None,
        record: Path | None = None,
        below: Path | None = None,
        at: float = 0.0,
        environment: dict[str, str] | None = None,
        memory: int = MEMORY,
        stdin: Path | str = os.devnull,
    ) -> Child:
        """Start a command.

        Args:
            fault: of files below `below`.
            record: where to write down what happens to files below `below`.
            at: the moment of `time.monotonic()` at which it begins.
        """
        if fault is not None or record is not None:
            assert self.shim is not None, "without the compiled shim"
            assert below is not None
        server = self._ready()
        arm = None
        if below is not None:
            arm = {
                "below": os.path.realpath(below),
                "kind": KINDS[fault.kind] if fault else 0,
                "at": fault.at if fault else 0,
                "number": ERRORS[fault.error] if fault else 0,
                "sticky": bool(fault and fault.sticky),
                "record": str(record) if record else None,
            }
        (self.folder / "calls").write_text("")
        request: dict[str, Any] = {
            "argv": [str(word) for word in argv],
            "cwd": str(self.folder),
            "out": str(self.folder / "stdout"),
            "err": str(self.folder / "stderr"),
            "calls": str(self.folder / "calls"),
            "stdin": str(stdin),
            "environment": environment or {},
            "memory": memory,
            "begin": at,
            "arm": arm,
        }
        assert server.stdin is not None
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        at_a_call = fault is not None and fault.error == KILL
        return Child(self, request["argv"], self._answer(LONGEST)["pid"], at_a_call)

    def run(self, argv: Sequence[str | Path], **how: Any) -> Ended:
        return self.begin(argv, **how).wait()

    def _ready(self) -> subprocess.Popen[bytes]:
        if self._server is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            environment = {**os.environ, **NO_THREADS, "PYTHONPATH": str(ROOT)}
            if self.shim is not None:
                environment["LD_PRELOAD"] = str(self.shim)
            self._server = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("server.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                start_new_session=True,  # Ctrl-C is the driver's business
            )
            ready = self._answer(LONGEST)
            assert ready["threads"] == 1, "a process with threads cannot be forked from"
        return self._server

    def _answer(self, seconds: float) -> dict[str, Any]:
        """Raises: TimeoutError."""
        assert self._server is not None
        assert self._server.stdout is not None
        pipe = self._server.stdout.fileno()
        until = time.monotonic() + seconds
        while b"\n" not in self._unread:
            if not select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError
            if not (more := os.read(pipe, 4096)):
                raise RuntimeError("the server of the attack ended")
            self._unread += more
        line, self._unread = self._unread.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer


class Child:
    """A command under way."""

    def __init__(self, children: Children, argv: list[str], pid: int, killed_at_a_call: bool) -> None:
        self.children, self.argv, self.pid, self._at_a_call = children, argv, pid, killed_at_a_call
        self.started = time.monotonic()

    def wait(self, kill_after: float | None = None, longest: float = LONGEST) -> Ended:
        """Wait for its end.

        Args:
            kill_after: SIGKILL after so many seconds, if it has not ended by then.
            longest: seconds after which it counts as hanging.
        """
        answer, killed, hung = None, self._at_a_call, False
        if kill_after is not None:
            try:
                answer = self.children._answer(kill_after)
            except TimeoutError:
                killed = True
                os.kill(self.pid, signal.SIGKILL)
        if answer is None:
            try:
                answer = self.children._answer(longest)
            except TimeoutError:
                hung = True
                os.killpg(self.pid, signal.SIGKILL)
                answer = self.children._answer(LONGEST)
        killed = killed and answer["code"] == -signal.SIGKILL  # it may have ended in the meantime
        out, err = ((self.children.folder / name).read_text(errors="replace") for name in ("stdout", "stderr"))
        counts = json.loads((self.children.folder / "calls").read_text() or "[]")
        calls = {name: counts[number] for name, number in KINDS.items()} if counts else {}
        return Ended(tuple(self.argv), answer["code"], out, err, hung, killed, answer["peak"] * 1024, calls)

    def workers(self) -> list[int]:
        """Processes that it started itself."""
        try:
            tasks = os.listdir(f"/proc/{self.pid}/task")
            return [
                int(pid) for task in tasks for pid in Path(f"/proc/{self.pid}/task/{task}/children").read_text().split()
            ]
        except OSError:
            return []
