"""A load generator in AIPerf's place: takes its command line, reads its payload file, writes its records, starts at once.

    python -S fast_engine.py profile --url URL --input-file FILE --artifact-dir FOLDER [--fixed-schedule | --concurrency N] ...

AIPerf takes ten seconds to start, and what these tests look at is everything around it. Requests are sent with asyncio alone, and
what becomes of them is written as AIPerf 0.13 writes it (tests/load/test_generator_files.py has lines of its own).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("what", choices=["profile"])
    parser.add_argument("--clock-step-s", type=float, default=0.0, help="the wall clock jumps so far after 20 requests")
    parser.add_argument("--idle-places", type=int, default=0, help="places of a closed loop that stay empty")
    parser.add_argument(
        "--slower", type=float, default=1.0, help="everything is sent so many times later than it is due"
    )
    parser.add_argument("--stops-for-s", type=float, default=0.0, help="nothing is sent so long after 24 requests")
    parser.add_argument("--stop-after", type=int, default=0, help="the program ends as it is to send more requests")
    parser.add_argument("--stop-code", type=int, default=0, help="its exit code then; below 0 the signal that kills it")
    parser.add_argument("--hang-after", type=int, default=0, help="it does nothing more after so many requests")
    parser.add_argument("--lose-every", type=int, default=0, help="each so many-th record is not written")
    parser.add_argument("--twice", type=int, default=0, help="1: each request is sent twice, and recorded once")
    parser.add_argument("--busy-s", type=float, default=0.0, help="it idles so long before each request, timing it")
    parser.add_argument("--late-s", type=float, default=0.0, help="it idles so long after each answer, timing it")
    parser.add_argument("--stranger", type=int, default=0, help="1: records name requests that nobody asked for")
    parser.add_argument(
        "--spoils", type=int, default=1000, help="such faults hit the measurements with a seed below this"
    )
    for name in ("model", "url", "input-file", "artifact-dir"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--fixed-schedule", action="store_true")
    parser.add_argument("--concurrency", type=int)
    parser.add_argument("--request-count", type=int)
    parser.add_argument("--request-timeout-seconds", type=float, default=60.0)
    return parser.parse_known_args()[0]


class Clock:
    """The wall clock of this program, which may step as NTP makes clocks step."""

    step_s, requests = 0.0, 0


def now_ns() -> int:
    """Now, in nanoseconds since 1970."""
    return time.time_ns() + (round(Clock.step_s * 1e9) if Clock.requests > 20 else 0)


class Faulty(Exception):
    """An answer that is an error, as AIPerf describes one."""

    def __init__(self, kind: str, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.told: dict[str, Any] = {"type": kind, "message": message} | ({} if code is None else {"code": code})


class Answer:
    """What came back so far of one request."""

    def __init__(self) -> None:
        self.first_ns: int | None = None
        self.usage: dict[str, int] | None = None

    async def read(self, where: Any, body: bytes) -> None:
        """Send `body` as a streamed completion and read its events."""
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            head = f"POST /v1/completions HTTP/1.1\r\nhost: {where.netloc}\r\ncontent-type: application/json\r\n"
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            status = int((await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1])
            if status != 200:
                raise Faulty("HTTPError", f"status {status}", status)
            while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
                self.event((await reader.readexactly(size + 2)).strip().removeprefix(b"data: "))
        except (ConnectionError, asyncio.IncompleteReadError) as fault:
            raise Faulty("ServerDisconnectedError", "the connection closed") from fault
        finally:
            writer.close()

    def event(self, data: bytes) -> None:
        """One event of the stream."""
        if data == b"[DONE]":
            return
        told = json.loads(data)
        if told.get("choices") and self.first_ns is None:
            self.first_ns = now_ns()
        self.usage = told.get("usage") or self.usage


async def again(url: str, row: dict[str, Any]) -> None:
    """A request that nobody asked for, with another prompt."""
    payload = row["payload"] | {"prompt": [token + 1 for token in row["payload"]["prompt"]]}
    with contextlib.suppress(Faulty, OSError):
        await Answer().read(urlsplit(url), json.dumps(payload).encode())


async def send(row: dict[str, Any], url: str, timeout_s: float, out: Any, asked: argparse.Namespace) -> None:
    """One request, and its record."""
    Clock.requests += 1
    number = Clock.requests
    if asked.stop_after and number > asked.stop_after:
        if asked.stop_code < 0:
            os.kill(os.getpid(), -asked.stop_code)
        os._exit(asked.stop_code)
    if asked.hang_after and number > asked.hang_after:
        await asyncio.sleep(3600)
    beside = asyncio.create_task(again(url, row)) if asked.twice else None
    answer, error = Answer(), None
    body = json.dumps(row["payload"]).encode()
    began_ns, began_s = now_ns(), time.monotonic()
    await asyncio.sleep(asked.busy_s)
    try:
        await asyncio.wait_for(answer.read(urlsplit(url), body), timeout_s)
    except TimeoutError:
        error = {"type": "TimeoutError", "message": "TimeoutError()"}
    except OSError as fault:
        error = {"type": type(fault).__name__, "message": str(fault)}
    except Faulty as fault:
        error = fault.told
    await asyncio.sleep(asked.late_s)
    took_ns = round((time.monotonic() - began_s) * 1e9)
    record: dict[str, Any] = {
        "metadata": {
            "conversation_id": row["session_id"],
            "request_start_ns": began_ns,
            "request_end_ns": began_ns + took_ns,
            "was_cancelled": False,
        },
        "metrics": {},
    }
    if error is not None:
        record["error"] = error
    else:
        record["metrics"]["request_latency"] = {"value": took_ns / 1e6}
        if answer.first_ns is not None:
            record["metrics"]["time_to_first_token"] = {"value": (answer.first_ns - began_ns) / 1e6}
        if answer.usage is not None:
            record["metrics"]["usage_prompt_tokens"] = {"value": answer.usage["prompt_tokens"]}
            record["metrics"]["usage_completion_tokens"] = {"value": answer.usage["completion_tokens"]}
    if beside is not None:
        await beside
    if asked.lose_every and number % asked.lose_every == 0:
        return
    print(json.dumps(record), file=out, flush=True)
    if asked.stranger:
        record["metadata"]["conversation_id"] = "999999"
        print(json.dumps(record), "[1, 2]", '{"metadata": [], "metrics": 1}', sep="\n", file=out, flush=True)


async def in_turn(
    rows: Iterator[dict[str, Any]], url: str, timeout_s: float, out: Any, asked: argparse.Namespace
) -> None:
    """One of the places of a closed loop."""
    for row in rows:
        await send(row, url, timeout_s, out, asked)


async def main() -> None:
    asked = options()
    spoiled = int(asked.artifact_dir.rsplit("seed", 1)[-1]) < asked.spoils
    Clock.step_s = asked.clock_step_s if spoiled else 0.0
    slower, stops_for_s = (asked.slower, asked.stops_for_s) if spoiled else (1.0, 0.0)
    if not spoiled:
        for fault in ("stop_after", "hang_after", "lose_every", "twice", "busy_s", "late_s", "stranger"):
            setattr(asked, fault, 0)
    rows = [json.loads(line) for line in Path(asked.input_file).read_text().splitlines()]
    with (Path(asked.artifact_dir) / "profile_export.jsonl").open("a") as out:
        common = (asked.url, asked.request_timeout_seconds, out, asked)
        if asked.fixed_schedule:
            began_s, sending = time.monotonic(), []
            for number, row in enumerate(rows):
                late_s = stops_for_s if number >= 24 else 0.0
                due_s = began_s + slower * row["timestamp"] / 1e3 + late_s
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                sending.append(asyncio.create_task(send(row, *common)))
            await asyncio.gather(*sending)
        else:
            left = iter(rows[: asked.request_count])
            idle = asked.idle_places if spoiled else 0
            await asyncio.gather(*(in_turn(left, *common) for _ in range(asked.concurrency - idle)))


if __name__ == "__main__":
    asyncio.run(main())
