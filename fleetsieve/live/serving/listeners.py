"""Who listens on a port of this machine."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psutil


def listeners(port: int) -> tuple[tuple[str, int | None], ...]:
    """The (address, pid) of every socket that listens on a TCP port; the pid is None where the system does not show it.

    Where the system shows the sockets of all to root alone (macOS), those of the caller's own processes.
    """
    found: list[tuple[Any, int | None]] = []
    try:
        found += [(socket, socket.pid) for socket in psutil.net_connections("tcp")]
    except psutil.AccessDenied:
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                found += [(socket, process.pid) for socket in process.net_connections("tcp")]
    listening = [(socket.laddr, pid) for socket, pid in found if socket.status == psutil.CONN_LISTEN]
    return tuple((address.ip, pid) for address, pid in listening if address.port == port)
