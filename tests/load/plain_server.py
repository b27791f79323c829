"""A small OpenAI-compatible completions server with latencies that are known, and faults on demand, for tests of load generators.

    python plain_server.py PORT LOG --ttft 0.05 --gap 0.002 [--faults '{"5": "stall", "7": "503"}'] [--slots 4]

Requests are counted from 0 as they arrive. Each ends as a line of JSON in LOG: n, arrived (Unix seconds), ttft_s and e2e_s as the
server saw them, prompt_tokens, tokens, and the first ids of the prompt. Faults: "stall" (no token ever), "cut" (half of the
tokens, then a proper end), "error" (an error event in the stream), "503", "429", "drop" (the connection closes), "die" (the
process ends).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from pathlib import Path


class Server:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.faults = {int(n): fault for n, fault in json.loads(arguments.faults).items()}
        self.count = 0
        self.slots = asyncio.Semaphore(arguments.slots)
        self.log = Path(arguments.log).open("a", buffering=1)  # noqa: SIM115 - open as long as the process

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode()
                sizes = [
                    line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
                ]
                body = await reader.readexactly(int(sizes[0]) if sizes else 0)
                if path.endswith("/completions"):
                    await self.complete(json.loads(body), writer)
                else:
                    answer = json.dumps({"object": "list", "data": [{"id": "tiny", "object": "model"}]})
                    self.head(writer, "200 OK", "application/json", len(answer))
                    writer.write(answer.encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def head(self, writer: asyncio.StreamWriter, status: str, kind: str, length: int | None = None) -> None:
        size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{size}\r\n\r\n".encode())

    def event(self, writer: asyncio.StreamWriter, data: object) -> None:
        text = f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
        writer.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")

    async def complete(self, asked: dict, writer: asyncio.StreamWriter) -> None:
        arrived, clock = time.time(), time.perf_counter
        start, n = clock(), self.count
        self.count += 1
        fault, tokens, prompt = self.faults.get(n, ""), int(asked["max_tokens"]), asked["prompt"]
        if fault == "die":
            os._exit(9)
        if fault in ("503", "429"):
            answer = json.dumps({"error": {"message": "overloaded", "code": int(fault)}})
            self.head(writer, f"{fault} Refused", "application/json", len(answer))
            writer.write(answer.encode())
            return
        async with self.slots:
            self.head(writer, "200 OK", "text/event-stream")
            if fault == "stall":
                await asyncio.sleep(3600.0)
            told = {"id": f"c{n}", "object": "text_completion", "created": int(arrived), "model": asked["model"]}
            stop = tokens // 2 if fault in ("cut", "error", "drop") else tokens
            first = 0.0
            for i in range(stop):
                due = start + self.arguments.ttft + i * self.arguments.gap
                if (wait := due - clock()) > 0.0 and self.arguments.slots > 1000:
                    await asyncio.sleep(wait)
                elif self.arguments.slots <= 1000:
                    await asyncio.sleep(self.arguments.gap if i else self.arguments.ttft)
                choice = {"index": 0, "text": f" t{i}", "finish_reason": "length" if i == tokens - 1 else None}
                self.event(writer, told | {"choices": [choice]})
                await writer.drain()
                first = first or clock() - start
            if fault == "drop":
                writer.close()
                return
            if fault == "error":
                self.event(writer, {"error": {"message": "engine died", "type": "internal_error", "code": 500}})
            else:
                usage = {"prompt_tokens": len(prompt), "completion_tokens": stop, "total_tokens": len(prompt) + stop}
                self.event(writer, told | {"choices": [], "usage": usage})
            line = {"n": n, "arrived": arrived, "ttft_s": first, "e2e_s": clock() - start}
            self.log.write(
                json.dumps(line | {"prompt_tokens": len(prompt), "tokens": stop, "prompt": prompt[:4]}) + "\n"
            )
            self.event(writer, "[DONE]")
            writer.write(b"0\r\n\r\n")


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("log")
    parser.add_argument("--ttft", type=float, default=0.05)
    parser.add_argument("--gap", type=float, default=0.002)
    parser.add_argument("--faults", default="{}")
    parser.add_argument("--slots", type=int, default=1_000_000)
    server = Server(parser.parse_args())
    async with await asyncio.start_server(server.serve, "127.0.0.1", server.arguments.port, backlog=1024) as listening:
        await listening.serve_forever()


asyncio.run(main())
