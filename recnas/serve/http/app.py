"""An ASGI application (any ASGI server can run it) that answers with the probabilities of one model.

    POST /predict   a row {column: cell}, or a list of rows -> {"probability": p} or {"probabilities": [...]}
    GET /schema     what a row must have, and rows to try
    GET /health     that it answers, and with which model

    400 no JSON    404, 405 no such address    408 too slow    413 too much    422 rows that cannot be read, by number and field

Requests are not put together: reading a row takes longer than computing it, so a common batch would save little.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from recnas.serve.http.body import Answer, answer
from recnas.serve.http.schema import schema_of
from recnas.serve.http.served import Served

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
_AT_ONCE = 16 << 10  # bytes; a larger body is read beside the loop, so that others are answered meanwhile
_METHODS = {"/predict": "POST", "/schema": "GET", "/health": "GET"}


@dataclass(frozen=True)
class Limits:
    rows: int = 1000
    bytes: int = 1 << 20
    seconds: float = 20.0  # for a body to arrive


def make_app(served: Served, limits: Limits) -> App:
    health = {"status": "ok", "model": served.model, "seed": served.seed, "computed_by": served.computed_by}
    schema = {
        **schema_of(served.reader, served.values),
        "limits": {"rows": limits.rows, "bytes": limits.bytes},
    }

    async def respond(scope: Message, receive: Receive) -> Answer:
        path, method = scope["path"], scope["method"]
        if path not in _METHODS:
            return Answer(404, {"error": f"There is nothing at {path[:80]!r}.", "known": list(_METHODS)})
        if method != _METHODS[path]:
            return Answer(405, {"error": f"{path} takes {_METHODS[path]}."})
        if method == "GET":
            return Answer(200, health if path == "/health" else schema)
        body = await _body(scope, receive, limits)
        if isinstance(body, Answer):
            return body
        if len(body) <= _AT_ONCE:
            return answer(served, body, limits.rows)
        return await asyncio.to_thread(answer, served, body, limits.rows)

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(f"no {scope['type']} here")  # which is how an ASGI server asks
        with suppress(ConnectionError):  # the client is gone
            await _send(scope, send, await respond(scope, receive))

    return app


async def _body(scope: Message, receive: Receive, limits: Limits) -> bytes | Answer:
    too_large = Answer(413, {"error": f"A body may have {limits.bytes:,} bytes.", "most_bytes": limits.bytes})
    said = dict(scope["headers"]).get(b"content-length", b"")
    if said.isdigit() and int(said) > limits.bytes:
        return too_large
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(limits.seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionResetError
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limits.bytes:
                    return too_large
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        return Answer(408, {"error": f"The body did not arrive within {limits.seconds:g} seconds."})


async def _send(scope: Message, send: Send, given: Answer) -> None:
    content = json.dumps(given.content, allow_nan=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    if given.status == 405:
        headers.append((b"allow", _METHODS[scope["path"]].encode()))
    if given.status in (404, 405, 408, 413):  # a body may still be on its way
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": given.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
