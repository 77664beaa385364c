"""Run the server until it is interrupted."""

from __future__ import annotations

import ipaddress
import logging
import os
import signal
import socket
from types import FrameType

import uvicorn

from mtsa.errors import InputError

from .app import build_app
from .limits import Limits
from .middleware import LOOPBACK
from .served_model import ServedModel

_log = logging.getLogger(__name__)


def serve(models: dict[str, ServedModel], host: str, port: int, limits: Limits | None = None) -> None:
    """Serve models until SIGINT or SIGTERM; pending requests are completed before it returns.

    Args:
        models: the models by name, at least one.
        host: the address to bind to.
        port: the port; 0 selects a free one.
        limits: limits of requests.

    Raises:
        InputError: the address or port cannot be used.
    """
    limits = limits or Limits()
    local = is_loopback(host)
    listening = _listen(host, port)
    app = build_app(models, limits, (*LOOPBACK, host) if local else ())
    shown = f"[{host}]" if ":" in host else host
    with listening:
        _log.info(f"{', '.join(models)}: http://{shown}:{listening.getsockname()[1]}/ (stop with Ctrl-C)")
        if not local:
            _log.warning(
                f"{host} is not a loopback address: anyone who can reach this machine can use it without authentication"
            )
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=2 * limits.max_queue_size,
            timeout_graceful_shutdown=int(limits.timeout_seconds) + 1,
        )
        before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            _Server(config).run([listening])  # uvicorn raises the signal again after shutdown, which is ignored
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    _log.info("stopped")


class _Server(uvicorn.Server):
    """Stops at once at the second signal."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(128 + sig)
        super().handle_exit(sig, frame)


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, type_, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, type_)
    except OSError as error:
        raise InputError(f"--host {host}: {error.strerror or error}; use an IP address or host name of this machine") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise InputError(
            f"{host}:{port} cannot be used: {error.strerror}; choose another port with --port, or 0 for a free one"
        ) from None
    return listener
