"""Two runs never use the same GPU or port: a lock file for each, held as long as the process lives.

The files stand in a folder of the user under the system's temporary one; each names the run folder of its holder. A run that
finds a lock free whose last holder died looks whether that run's servers still live: then the GPU is not free at all.
"""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from fleetsieve.errors import FleetSieveError, UsageError
from fleetsieve.live.serving.register import living


def lock_folder() -> Path:
    """The folder of the user's locks, made when it is not there.

    Raises:
        FleetSieveError: when it cannot be made, or belongs to somebody else.
    """
    path = Path(tempfile.gettempdir()) / f"fleetsieve-{os.getuid()}"
    try:
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.lstat()
    except OSError as error:
        raise FleetSieveError(f"cannot make the folder of locks {path}: {error.strerror or error}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise FleetSieveError(
            f"{path} is not a folder of yours, but it is the place for the locks of GPUs and ports", "remove it"
        )
    return path


class Locks:
    """The GPUs and ports that the run at `run` holds. Let go with `close`, or by the end of the process, however it ends."""

    def __init__(self, run: Path, folder: Path | None = None) -> None:
        self._run = os.path.abspath(run)
        self._folder = folder or lock_folder()
        self._held: dict[str, int] = {}

    def hold_gpus(self, gpus: Iterable[str]) -> None:
        """Hold every one of `gpus`, or none of those that were not held before.

        Raises:
            UsageError: when another run holds one, or servers that it left still live on it.
        """
        taken: list[str] = []
        try:
            for gpu in gpus:
                name = f"gpu-{gpu.replace(os.sep, '_')}"
                if name not in self._held:
                    self._take(name, f"GPU {gpu}")
                    taken.append(name)
        except BaseException:
            for name in taken:
                self._let_go(name)
            raise

    def free_port(self, host: str, ports: Iterable[int]) -> int:
        """The first of `ports` that no run holds and nobody listens on; it is held until `release_port`.

        Raises:
            UsageError: when none is free.
        """
        tried = 0
        for port in ports:
            tried += 1
            name = f"port-{port}"
            if name in self._held or not _nobody_listens(host, port):
                continue
            with suppress(UsageError):
                self._take(name, f"port {port}")
                return port
        raise UsageError(
            f"none of the {tried} ports of serve.toml is free on {host}", "give others: ports = [first, last]"
        )

    def release_port(self, port: int) -> None:
        """Let go of a port of `free_port`."""
        self._let_go(f"port-{port}")

    def close(self) -> None:
        """Let go of everything."""
        for name in tuple(self._held):
            self._let_go(name)

    def __enter__(self) -> Locks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, name: str, what: str) -> None:
        flock, exclusive = _file_locks()
        path = self._folder / f"{name}.lock"
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
        except OSError as error:
            raise FleetSieveError(f"cannot open the lock {path}: {error.strerror or error}") from error
        try:
            holder = os.pread(file, 4096, 0).decode("utf-8", errors="replace").strip()
            try:
                flock(file, exclusive)
            except OSError as error:
                message = f"{what} is in use by another run" + (f" ({holder})" if holder else "")
                raise UsageError(message, "wait for it to end, stop it, or give other GPUs") from error
            if holder and holder != self._run and living(Path(holder)):
                hint = "continue that run with --resume, which stops them first, or stop them yourself"
                raise UsageError(f"{what} is held by servers that the ended run {holder} left behind", hint)
            os.ftruncate(file, 0)
            os.pwrite(file, self._run.encode(), 0)
        except BaseException:
            os.close(file)
            raise
        self._held[name] = file

    def _let_go(self, name: str) -> None:
        file = self._held.pop(name)
        with suppress(OSError):  # a full disk: the name stays, and a dead run's is checked anyway
            os.ftruncate(file, 0)
        os.close(file)


def _nobody_listens(host: str, port: int) -> bool:
    """Whether a port can be bound now: without SO_REUSEPORT, so that a server that shares its port counts too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _file_locks() -> tuple[Callable[[int, int], object], int]:
    try:
        import fcntl
    except ImportError as error:
        raise FleetSieveError("live runs need the file locks of Linux or macOS", "on Windows, use WSL") from error
    return fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB
