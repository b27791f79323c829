"""What a server answers over HTTP: whether it is well, what it serves, its metrics, and the reset of its caches."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from fleetsieve.errors import UsageError
from fleetsieve.live.serving.metrics import Scrape, read_scrape

CALL_S = 5.0
"""How long one call may take, to the last byte: a server that drips is as good as one that is silent."""

RESET_S = 30.0
_MAX_BYTES = 16 << 20
_POLL_S = 0.1
_VERSION = "/v1/"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible server at `url`, of which the model `served_name` is wanted.

    Raises:
        UsageError: when `url` is not the address of a server.
    """

    url: str
    served_name: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        try:
            right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            right = False
        if not right or parts.query or parts.fragment:
            raise UsageError(f"{self.url!r} is not the address of a server", "write it as http://127.0.0.1:8000")
        before, version, _ = f"{parts.path}/".partition(_VERSION)
        if version:
            raise UsageError(
                f"{self.url!r} is the address of the server's API, and its /health and /metrics are not under {_VERSION[:-1]}",
                f"write it without {_VERSION[:-1]}: {parts._replace(path=before).geturl()}",
            )

    def unfit(self) -> str | None:
        """Why nothing can be measured here now, whatever the model; None when it reports that it is healthy and what it serves."""
        status = self.health()
        if status is None:
            return f"nothing answers at {self.url}"
        if status != 200:
            return f"{self.url} answers GET /health with {status}, not with 200"
        return None if self.served() is not None else f"{self.url} has no usable answer to GET /v1/models"

    def health(self, within_s: float = CALL_S) -> int | None:
        """The status that GET /health answers: 200 when the server is well; None when there is no answer in time."""
        return self._call("GET", "/health", within_s)[0]

    def served(self) -> tuple[str, ...] | None:
        """The names of /v1/models; None when there is no usable answer."""
        status, body = self._call("GET", "/v1/models")
        try:
            return tuple(str(model["id"]) for model in json.loads(body)["data"]) if status == 200 else None
        except (ValueError, KeyError, TypeError):
            return None

    def scrape(self) -> Scrape | None:
        """What /metrics reports now; None when there is no usable answer."""
        status, body = self._call("GET", "/metrics")
        return read_scrape(body.decode("utf-8", errors="replace")) if status == 200 else None

    def reset_cache(self, within_s: float = RESET_S, alive: Callable[[], bool] = lambda: True) -> str | None:
        """Empty the prefix cache once no request is in the server; gives why it could not, None when it is empty.

        A server refuses while a request holds blocks, so it is asked again until `within_s` are over.
        """
        deadline = time.monotonic() + within_s
        reason = "it was not asked"
        while alive():
            scrape = self.scrape()
            busy = [] if scrape is None else [f"{n:g} {w}" for n, w in scrape.in_flight if n]
            if busy:
                reason = f"requests are still in the server ({', '.join(busy)})"
            else:
                status, body = self._call("POST", "/reset_prefix_cache")
                if status in (404, 405):
                    return "the server has no POST /reset_prefix_cache; vLLM has it with VLLM_SERVER_DEV_MODE=1"
                if status == 200 and _succeeded(body):
                    return None
                reason = f"POST /reset_prefix_cache answered {status or 'nothing'} {body[:80].decode(errors='replace')}".rstrip()
            if time.monotonic() >= deadline:
                return f"{reason}, after {within_s:g} s"
            time.sleep(_POLL_S)
        return "the server is gone"

    def _call(self, method: str, path: str, within_s: float = CALL_S) -> tuple[int | None, bytes]:
        """The status and body of one call; (None, b"") when there is no whole answer in time."""
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        deadline = time.monotonic() + within_s
        connection = kind(
            parts.hostname or "", parts.port, timeout=within_s
        )  # no proxy: it would not know our loopback
        try:
            connection.request(method, parts.path.rstrip("/") + path)
            answer = connection.getresponse()
            body = b""
            while chunk := answer.read1(1 << 16):
                body += chunk
                if time.monotonic() > deadline or len(body) > _MAX_BYTES:
                    return None, b""
            return answer.status, body
        except (OSError, http.client.HTTPException, ValueError):
            return None, b""
        finally:
            connection.close()


def _succeeded(body: bytes) -> bool:
    """Whether an answer with 200 states success; older servers answer with an empty body."""
    if not body.strip():
        return True
    try:
        content = json.loads(body)
    except ValueError:
        return False
    return isinstance(content, dict) and content.get("success", True) is True
