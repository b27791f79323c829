"""A small OpenAI-compatible server that misbehaves on demand; started as `vllm serve MODEL` would be, with the same options.

    python hostile_server.py MODEL --host 127.0.0.1 --port 8100 --tensor-parallel-size 1 --served-model-name NAME [faults]

It answers /health, /v1/models, /v1/completions and /v1/chat/completions (streamed or not, with usage), /metrics with vLLM's names,
and /reset_prefix_cache where VLLM_SERVER_DEV_MODE=1. Without faults it is a well-behaved engine: the first token comes after
`--ttft-s`, each further one after `--tpot-s`, at most `--max-num-seqs` requests run at once and the others queue. Only the standard
library is used.

Faults that hit requests ("every K") hit the K-th, 2K-th, ... request.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any, TextIO

CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hostile_server")
    parser.add_argument("model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tensor-parallel-size", type=int, default=1)
    parser.add_argument("--served-model-name")
    parser.add_argument("--max-num-seqs", type=int, default=256)
    parser.add_argument("--ttft-s", type=float, default=0.005)
    parser.add_argument("--tpot-s", type=float, default=0.001)
    parser.add_argument(
        "--log", help="a file for one line of JSON a request that ended well: arrived (Unix), ttft_s, e2e_s"
    )
    start = parser.add_argument_group("faults of the start")
    start.add_argument("--never-ready", action="store_true", help="/health is 503 for ever")
    start.add_argument("--silent", action="store_true", help="connections are taken and never answered")
    start.add_argument("--ready-after-s", type=float, default=0.0, help="/health is 503 until then")
    start.add_argument("--bind-after-s", type=float, default=0.0, help="nothing listens until then")
    start.add_argument("--exit-code", type=int, help="print --log-text and exit with this code at the start")
    start.add_argument("--killed", action="store_true", help="print --log-text and die of SIGKILL at the start")
    start.add_argument("--log-text", default="", help="what is printed at the start; \\n is a new line")
    start.add_argument("--wrong-model", help="/v1/models names this one")
    start.add_argument("--listen-on", help="listen on another address than --host")
    start.add_argument("--reuse-port", action="store_true", help="share the port with whoever shares it too")
    life = parser.add_argument_group("faults while serving")
    life.add_argument("--die-after", type=int, help="the process ends as this request comes in")
    life.add_argument("--die-code", type=int, default=0)
    life.add_argument("--engine-dead-after", type=int, help="from this request on all answers are 500, /health 503")
    life.add_argument("--stall-every", type=int, help="the stream stops after its first token and stays open")
    life.add_argument("--error-every", type=int, help="an error event in the middle of the stream")
    life.add_argument("--reject-every", type=int, help="503")
    life.add_argument("--one-chunk", action="store_true", help="a streamed answer comes in one piece, at its end")
    life.add_argument("--short-every", type=int, help="half of the tokens that are asked for")
    life.add_argument("--slow-every", type=int, help="tokens come ten times as slowly")
    life.add_argument("--cut-every", type=int, help="the connection closes in the middle of the stream")
    end = parser.add_argument_group("faults of the end")
    end.add_argument("--ignore-sigterm", action="store_true")
    end.add_argument("--spawn-child", action="store_true", help="a child that ignores SIGTERM")
    end.add_argument("--stray-child", action="store_true", help="such a child in a session of its own")
    metrics = parser.add_argument_group("faults of the metrics")
    metrics.add_argument("--no-metrics", action="store_true", help="/metrics is 404")
    metrics.add_argument("--renamed-metrics", action="store_true", help="no name is vLLM's")
    metrics.add_argument("--false-metrics", action="store_true", help="the latencies told are half of the true ones")
    metrics.add_argument("--reset-fails", action="store_true", help="/reset_prefix_cache says success: false")
    return parser.parse_args()


@dataclass
class Counters:
    """What /metrics tells."""

    ttft_sum: float = 0.0
    ttft_count: int = 0
    e2e_sum: float = 0.0
    e2e_count: int = 0
    queue_sum: float = 0.0
    queue_count: int = 0
    succeeded: int = 0
    queries: int = 0
    hits: int = 0
    running: int = 0
    waiting: int = 0


@dataclass
class Engine:
    opts: argparse.Namespace
    name: str
    began: float = field(default_factory=time.monotonic)
    requests: int = 0
    counters: Counters = field(default_factory=Counters)
    cached: set[str] = field(default_factory=set)
    slots: asyncio.Semaphore = field(init=False)
    log: TextIO | None = field(init=False)

    def __post_init__(self) -> None:
        self.slots = asyncio.Semaphore(self.opts.max_num_seqs)
        self.log = open(self.opts.log, "a") if self.opts.log else None  # noqa: SIM115 - as long as the process

    @property
    def well(self) -> bool:
        ready = not self.opts.never_ready and time.monotonic() - self.began >= self.opts.ready_after_s
        return ready and not self.dead

    @property
    def dead(self) -> bool:
        return self.opts.engine_dead_after is not None and self.requests >= self.opts.engine_dead_after

    def hits(self, fault: str, number: int) -> bool:
        every = getattr(self.opts, f"{fault}_every")
        return bool(every) and number % every == 0

    async def answer(self, method: str, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if path == "/health":
            await reply(writer, 200 if self.well else 503, b"")
        elif path == "/v1/models" and self.well:
            name = self.opts.wrong_model or self.name
            await reply_json(writer, 200, {"object": "list", "data": [{"id": name, "object": "model"}]})
        elif path == "/metrics" and not self.opts.no_metrics:
            await reply(writer, 200, self.metrics().encode(), "text/plain; version=0.0.4")
        elif path == "/reset_prefix_cache" and method == "POST" and os.environ.get("VLLM_SERVER_DEV_MODE") == "1":
            done = not self.opts.reset_fails and not self.counters.running
            if done:
                self.cached.clear()
            await reply_json(writer, 200, {"success": done})
        elif path in ("/v1/completions", "/v1/chat/completions") and method == "POST" and self.well:
            await self.complete(json.loads(body), "chat" in path, writer)
        else:
            await reply_json(writer, 404 if self.well else 503, {"error": {"message": f"no {method} {path} here"}})

    async def complete(self, asked: dict[str, Any], chat: bool, writer: asyncio.StreamWriter) -> None:
        self.requests += 1
        number, arrived = self.requests, time.monotonic()
        if self.opts.die_after is not None and number >= self.opts.die_after:
            os._exit(self.opts.die_code)
        if self.dead:
            await reply_json(writer, 500, {"error": {"message": "EngineDeadError", "code": 500}})
            return
        if self.hits("reject", number):
            await reply_json(writer, 503, {"error": {"message": "overloaded", "code": 503}})
            return
        self.counters.waiting += 1
        try:
            await self.slots.acquire()
        finally:
            self.counters.waiting -= 1
        self.counters.running += 1
        try:
            self.counters.queue_sum += time.monotonic() - arrived
            self.counters.queue_count += 1
            await self.generate(asked, chat, number, arrived, writer)
        finally:
            self.counters.running -= 1
            self.slots.release()

    async def generate(
        self, asked: dict[str, Any], chat: bool, number: int, arrived: float, writer: asyncio.StreamWriter
    ) -> None:
        prompt = asked.get("messages") if chat else asked.get("prompt", "")
        size = len(prompt) if isinstance(prompt, list) and not chat else len(str(prompt).split())
        key = json.dumps(prompt)
        self.counters.queries += size
        self.counters.hits += size if key in self.cached else 0
        self.cached.add(key)
        wanted = int(asked.get("max_tokens") or asked.get("max_completion_tokens") or 16)
        tokens = wanted // 2 if self.hits("short", number) else wanted
        tpot = self.opts.tpot_s * (10 if self.hits("slow", number) else 1)
        streamed, told = bool(asked.get("stream")), 0.5 if self.opts.false_metrics else 1.0
        usage = {"prompt_tokens": size, "completion_tokens": tokens, "total_tokens": size + tokens}
        if streamed:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        first = time.monotonic() + self.opts.ttft_s
        for place in range(tokens):
            await asyncio.sleep(max(0.0, first + place * tpot - time.monotonic()))
            if place == 0:
                ttft_s = time.monotonic() - arrived
                self.counters.ttft_sum += told * ttft_s
                self.counters.ttft_count += 1
            if not streamed or (self.opts.one_chunk and place < tokens - 1):
                continue
            text = " a" * tokens if self.opts.one_chunk else " a"
            await send_event(writer, self.chunk(chat, text, "length" if place == tokens - 1 else None))
            if place == 0 and self.hits("stall", number):
                await asyncio.sleep(3600)
            if place == tokens // 2 and self.hits("cut", number):
                writer.close()
                return
            if place == tokens // 2 and self.hits("error", number):
                await send_event(
                    writer, {"error": {"message": "the engine failed", "type": "InternalServerError", "code": 500}}
                )
                await send_end(writer)
                return
        e2e_s = time.monotonic() - arrived
        self.counters.e2e_sum += told * e2e_s
        if self.log is not None and tokens:
            line = {"arrived": time.time() - e2e_s, "ttft_s": ttft_s, "e2e_s": e2e_s}
            print(json.dumps(line), file=self.log, flush=True)
        self.counters.e2e_count += 1
        self.counters.succeeded += 1
        if not streamed:
            await reply_json(writer, 200, self.chunk(chat, " a" * tokens, "length") | {"usage": usage})
            return
        if (asked.get("stream_options") or {}).get("include_usage"):
            await send_event(writer, self.chunk(chat, "", None) | {"choices": [], "usage": usage})
        await send_end(writer)

    def chunk(self, chat: bool, text: str, finish: str | None) -> dict[str, Any]:
        content: dict[str, Any] = {"delta": {"content": text}, "message": {"content": text}} if chat else {"text": text}
        choice = {"index": 0, "logprobs": None, "finish_reason": finish, **content}
        kind = "chat.completion.chunk" if chat else "text_completion"
        return {"id": "cmpl-0", "object": kind, "created": int(time.time()), "model": self.name, "choices": [choice]}

    def metrics(self) -> str:
        c, label = self.counters, f'{{engine="0",model_name="{self.name}"}}'
        series = {
            "time_to_first_token_seconds": (c.ttft_sum, c.ttft_count),
            "e2e_request_latency_seconds": (c.e2e_sum, c.e2e_count),
            "request_queue_time_seconds": (c.queue_sum, c.queue_count),
        }
        lines = []
        for name, (total, count) in series.items():
            bucket = label.replace("}", ',le="+Inf"}')
            lines += [f"# TYPE vllm:{name} histogram", f"vllm:{name}_bucket{bucket} {count}"]
            lines += [f"vllm:{name}_count{label} {count}", f"vllm:{name}_sum{label} {total}"]
        counters = {"num_preemptions": 0, "prefix_cache_queries": c.queries, "prefix_cache_hits": c.hits}
        for name, value in counters.items():
            lines += [f"# TYPE vllm:{name} counter", f"vllm:{name}_total{label} {value}"]
        finished = label.replace("}", ',finished_reason="length"}')
        lines += ["# TYPE vllm:request_success counter", f"vllm:request_success_total{finished} {c.succeeded}"]
        for name, value in {"num_requests_running": c.running, "num_requests_waiting": c.waiting}.items():
            lines += [f"# TYPE vllm:{name} gauge", f"vllm:{name}{label} {value}"]
        text = "\n".join(lines) + "\n"
        return text.replace("vllm:", "engine:") if self.opts.renamed_metrics else text


async def reply(writer: asyncio.StreamWriter, status: int, body: bytes, kind: str = "application/json") -> None:
    writer.write(f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()


async def reply_json(writer: asyncio.StreamWriter, status: int, content: dict[str, Any]) -> None:
    await reply(writer, status, json.dumps(content).encode())


async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()


async def send_event(writer: asyncio.StreamWriter, content: dict[str, Any]) -> None:
    await send(writer, b"data: " + json.dumps(content).encode() + b"\n\n")


async def send_end(writer: asyncio.StreamWriter) -> None:
    await send(writer, b"data: [DONE]\n\n")
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def connection(engine: Engine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while head := await reader.readuntil(b"\r\n\r\n"):
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
            length = next((int(h[15:]) for h in head.lower().split(b"\r\n") if h.startswith(b"content-length:")), 0)
            body = await reader.readexactly(length)
            if engine.opts.silent:
                await asyncio.sleep(3600)
            await engine.answer(method, target.split("?")[0], body, writer)
            if writer.is_closing():
                return
    writer.close()


async def serve(opts: argparse.Namespace) -> None:
    engine = Engine(opts, opts.served_model_name or opts.model)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, (lambda: print("SIGTERM is ignored")) if opts.ignore_sigterm else stop.set)
    await asyncio.sleep(opts.bind_after_s)
    await asyncio.start_server(
        lambda reader, writer: connection(engine, reader, writer),
        opts.listen_on or opts.host,
        opts.port,
        reuse_port=opts.reuse_port or None,
    )
    print(f"serving {engine.name} on port {opts.port}", flush=True)
    await stop.wait()


def main() -> None:
    opts = options()
    for own_session, wanted in ((False, opts.spawn_child), (True, opts.stray_child)):
        if wanted:
            words = [sys.executable, "-S", "-c", CHILD]
            child = subprocess.Popen(words, start_new_session=own_session, stdout=subprocess.PIPE)
            assert child.stdout is not None
            child.stdout.readline()  # from here on it ignores SIGTERM
            print(f"child {child.pid}", flush=True)
    if opts.log_text:
        print(opts.log_text.replace("\\n", "\n"), flush=True)
    if opts.killed:
        os.kill(os.getpid(), signal.SIGKILL)
    if opts.exit_code is not None:
        os._exit(opts.exit_code)
    asyncio.run(serve(opts))
    os._exit(0)


if __name__ == "__main__":
    main()
