"""Validation of every request: host name, content type, size and timeout.

The body is read here completely, up to a limit.
"""

from __future__ import annotations

import asyncio
import json
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .limits import Limits

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_OVERREAD = 16  # an oversized body is read up to this multiple of the limit, then the connection is closed
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]


class RequestMiddleware:
    """The outermost ASGI middleware of the server.

    Args:
        app: the application.
        limits: limits of size and time.
        hosts: allowed host names; empty for any. This protects against DNS rebinding, by which another web page could
            read from this server.
    """

    def __init__(self, app: ASGIApp, *, limits: Limits, hosts: tuple[str, ...] = LOOPBACK) -> None:
        self.app, self.limits, self.hosts = app, limits, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if self.hosts and _host_name(host) not in self.hosts:
            await send_error(send, 400, f'host "{host[:60]}" is not allowed; use {" or ".join(dict.fromkeys(self.hosts))}')
            return
        called = scope["method"] == "POST" and scope["path"].startswith("/api/")
        if called and headers.get(b"content-type", "").partition(";")[0].strip().lower() != "application/json":
            await send_error(send, 415, "the body must be JSON; set the header content-type: application/json")
            return
        too_long = f"the body must have at most {self.limits.max_body_bytes:,} bytes; split it into several requests"
        declared = headers.get(b"content-length", "0")
        if not declared.isdecimal():
            await send_error(send, 400, "the header content-length must be the number of bytes of the body")
            return
        if len(declared) > 12 or int(declared) > _OVERREAD * self.limits.max_body_bytes:
            await send_error(send, 413, too_long)
            return
        try:
            async with asyncio.timeout(self.limits.timeout_seconds):
                body = await _body(receive, self.limits.max_body_bytes)
        except TimeoutError:
            await send_error(send, 408, f"the body was not received within {self.limits.timeout_seconds:g} seconds")
            return
        if body is None:
            await send_error(send, 413, too_long)
            return
        read = False

        async def replay() -> Message:
            nonlocal read
            if read:
                return await receive()
            read = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
            await send(message)

        await self.app(scope, replay, headed)


async def send_error(send: Send, status: int, sentence: str) -> None:
    """Send an error message."""
    content = json.dumps({"error": sentence}, ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode()), *_HEADERS]
    headers.append((b"connection", b"close"))  # the rest of the body is not read
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def _body(receive: Receive, limit: int) -> bytes | None:
    """The whole body; None when it is too long.

    A body that is too long is read further and discarded, because many clients read the response only after sending all.
    """
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b"".join(pieces)
        piece = message.get("body", b"")
        size += len(piece)
        if size <= limit:
            pieces.append(piece)
        if size > _OVERREAD * limit:
            return None
        if not message.get("more_body", False):
            return b"".join(pieces) if size <= limit else None


def _host_name(host: str) -> str:
    """The name in a Host header, without the port; empty if the header is invalid."""
    match = re.fullmatch(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:@/]+))(?::\d{1,5})?", host.lower())
    return (match[1] or match[2]) if match else ""
