"""Run the server until it is told to stop."""

from __future__ import annotations

import ipaddress
import signal
import socket
from collections.abc import Callable

import uvicorn

from mtsa.data.source import InputError

from .api import build_app
from .gate import LOOPBACK
from .limits import Limits
from .served import Served


def serve(models: dict[str, Served], host: str, port: int, say: Callable[[str], None], limits: Limits | None = None) -> None:
    """Serve models; returns after SIGINT or SIGTERM, when the requests under way have been answered.

    Args:
        models: by name, at least one.
        host: the address to bind to.
        port: 0 for a free one.
        say: hears where the page is.
        limits: what is taken at most.

    Raises:
        InputError: an address or port that cannot be had.
    """
    limits = limits or Limits()
    local = is_loopback(host)
    listening = _listen(host, port)
    app = build_app(models, limits, LOOPBACK if local else ())
    shown = f"[{host}]" if ":" in host else host
    with listening:
        say(f"{', '.join(models)}: http://{shown}:{listening.getsockname()[1]}/ (stop with Ctrl-C)")
        if not local:
            say(f"warning: {host} is no loopback address: whoever reaches this machine can use the page, without a password")
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=int(limits.seconds) + 1
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)  # the server raises them again when it has stopped
        uvicorn.Server(config).run([listening])
    say("stopped")


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        made = socket.socket(family, kind)
    except OSError as error:
        raise InputError(f"--host {host}: {error.strerror or error}") from None
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(2048)
    except OSError as error:
        made.close()
        raise InputError(
            f"{host}:{port} cannot be used: {error.strerror}; choose another with --port, or 0 for a free one"
        ) from None
    return made
