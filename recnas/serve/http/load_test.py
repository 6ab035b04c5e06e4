"""How many requests a served model answers: a server process, a client over the loopback, a kill, and the same answers after it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recnas.errors import ConfigError, RunError
from recnas.machine import available_cores, load_average

HOST = "127.0.0.1"
_WAIT = 10.0  # seconds for one answer


@dataclass(frozen=True)
class LoadTest:
    """What was measured. `errors` counts what was not a probability, or another one than the same row had before."""

    model: str
    computed_by: str
    seconds: float
    connections: int
    requests: int
    errors: int
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    restart_seconds: float  # from the kill to the first answer
    load_before: float | None  # of the machine, before the test: processes that wanted a core
    cores: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def load_test(arguments: Sequence[str], seconds: float, connections: int) -> LoadTest:
    """Args:
    arguments: of `recnas serve`, without the port.

    Raises:
        RunError: the server does not start, or does not answer as before after a kill, or does not end as asked.
    """
    if not seconds > 0:
        raise ConfigError(f"--load-test must be over 0 seconds (got {seconds:g}).")
    if connections < 1:
        raise ConfigError(f"--connections must be at least 1 (got {connections}).")
    load = load_average()
    server, about = _start(arguments, 0)
    try:
        port = about["port"]
        bodies = [json.dumps(row).encode() for row in _get(port, "/schema")["examples"]]
        expected = _answers(port, bodies)
        times, errors = asyncio.run(_ask_for(port, bodies, expected, seconds, connections))
        server.kill()
        server.wait()
        killed = time.monotonic()
        server, _ = _start(arguments, port)
        if _answers(port, bodies) != expected:
            raise RunError("After a kill and a restart the answers are others.", "Please report this: it is our fault.")
        restarted = time.monotonic() - killed
        server.send_signal(signal.SIGTERM)
        if (code := server.wait(60)) != 128 + signal.SIGTERM:
            raise RunError(
                f"The server ended with exit code {code} on SIGTERM.", "Please report this: it is our fault."
            )
    finally:
        server.kill()
        server.wait()
    if not times:
        raise RunError(f"No request was answered in {seconds:g} seconds; {errors:,} failed.", "Test for longer.")
    p50, p99 = np.percentile(times, [50, 99]) * 1e3
    return LoadTest(
        model=about["model"],
        computed_by=about["computed_by"],
        seconds=seconds,
        connections=connections,
        requests=len(times),
        errors=errors,
        requests_per_second=len(times) / seconds,
        p50_ms=float(p50),
        p99_ms=float(p99),
        restart_seconds=restarted,
        load_before=load,
        cores=available_cores(),
    )


def _start(arguments: Sequence[str], port: int) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """A server that answers, and what it says of itself."""
    command = [sys.executable, "-m", "recnas", "serve", *arguments, "--port", str(port), "--json"]
    with tempfile.TemporaryFile("w+") as said:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True)
        assert server.stdout is not None
        with server.stdout:
            line = server.stdout.readline()
        if not line:
            code = server.wait()
            said.seek(0)
            raise RunError(f"The server did not start (exit code {code}): {said.read()[-2000:].strip()}")
    return server, json.loads(line)


def _get(port: int, path: str) -> Any:
    return json.loads(asyncio.run(_once(port, _request("GET", path, b"")))[1])


def _answers(port: int, bodies: Sequence[bytes]) -> list[bytes]:
    found = [asyncio.run(_once(port, _request("POST", "/predict", body))) for body in bodies]
    if failed := [content for status, content in found if status != 200]:
        raise RunError(f"The server refuses its own example: {failed[0].decode()[:300]}")
    return [content for _, content in found]


def _request(method: str, path: str, body: bytes) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def _once(port: int, request: bytes) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        return await _ask(reader, writer, request)
    finally:
        writer.close()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[int, bytes]:
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    return int(head.split(b" ", 2)[1]), await reader.readexactly(length)


async def _ask_for(
    port: int, bodies: Sequence[bytes], expected: Sequence[bytes], seconds: float, connections: int
) -> tuple[list[float], int]:
    """Seconds that each right answer took, and how many were not right. Every connection has one request under way."""
    requests = [_request("POST", "/predict", body) for body in bodies]
    times: list[float] = []
    errors = 0
    end = time.monotonic() + seconds

    async def one(first: int) -> None:
        nonlocal errors
        number, connection = first, None
        while (start := time.monotonic()) < end:
            which = number % len(requests)
            number += 1
            try:
                if connection is None:
                    connection = await asyncio.open_connection(HOST, port)
                status, content = await asyncio.wait_for(_ask(*connection, requests[which]), _WAIT)
            except (OSError, EOFError, TimeoutError, ValueError, IndexError):
                errors += 1
                if connection is not None:
                    connection[1].close()
                connection = None
                await asyncio.sleep(0.01)
                continue
            if status == 200 and content == expected[which]:
                times.append(time.monotonic() - start)
            else:
                errors += 1
        if connection is not None:
            connection[1].close()

    await asyncio.gather(*(one(first) for first in range(connections)))
    return times, errors
