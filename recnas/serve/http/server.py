"""A model behind a port, until a signal asks for the end: requests under way are answered first."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager

from recnas.errors import BackendMissing, ConfigError
from recnas.serve.http.app import App
from recnas.stopping import GRACE, SIGNALS, Stopped

_CONNECTIONS = 512  # at once; more are answered with 503


def check_server() -> None:
    if importlib.util.find_spec("uvicorn") is None:
        raise BackendMissing("Serving needs uvicorn, not installed here.", "pip install 'recnas[serve]'")


def bind(host: str, port: int) -> socket.socket:
    """The port, before a model is loaded for it; 0: a free one."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"--port {port}: ports go from 0 to 65535.", "--port 8000")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"--host {host}: {error.strerror or error}.", "--host 127.0.0.1") from None
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that was killed starts again at once
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"{host}:{port} cannot be served on: {error.strerror}.", "Choose another --port, or 0 for a free one."
        ) from None
    return listening


def serve(app: App, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until a signal.

    Args:
        ready: called when requests are answered.

    Raises:
        Stopped: always, as a signal is the only end.
    """
    import uvicorn

    config = uvicorn.Config(
        app,
        loop="asyncio",
        lifespan="off",
        ws="none",
        access_log=False,
        log_level="error",
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=int(GRACE),
        proxy_headers=False,
        server_header=False,
    )
    asked: list[int] = []

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

        @contextmanager
        def capture_signals(self) -> Generator[None, None, None]:  # they are ours
            yield

    server = Server(config)

    def ask(number: int) -> None:
        server.force_exit = bool(asked)  # a second one does not wait
        asked.append(number)
        server.should_exit = True

    async def until_asked() -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, ask, number)
        await server.serve([listening])

    asyncio.run(until_asked())
    raise Stopped(asked[0] if asked else signal.SIGTERM)
