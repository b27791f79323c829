"""Continuous batching on one replica, iteration by iteration.

The scheduler works at the boundaries of iterations (Orca, OSDI 2022): requests join and leave a running batch there.
Decoding sequences take one token each; what is left of the token budget goes to prompts, oldest first and in chunks
(Sarathi-Serve, OSDI 2024). First come, first served. The KV cache is shared; with the policy "recompute" the youngest
sequence is evicted when it is full, goes back to the head of the queue and later prefills its prompt and what it had
generated once more (vLLM, SOSP 2023).

An iteration that completes a prompt gives that request's first token; each further token takes one more iteration. A
request that has not ended `timeout_s` after it was sent fails: it is aborted at the next boundary.

While nothing arrives that could be admitted, ends, times out or runs out of memory, the batch is constant and
iteration j takes a + c (K + j n) with n sequences and K tokens in their caches: k iterations take
k a + c (k K + n k (k - 1) / 2), and the loop advances by the greatest such k at once. This is exact, not a shortcut.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from fleetsieve.errors import UsageError
from fleetsieve.simulator.hardware import EngineSpec, ReplicaSpec


@dataclass(slots=True)
class Request:
    """One request. Times in seconds since the run's start; None until they happen. `status`: "", "ok", "timeout"."""

    number: int
    sent_s: float
    input_tokens: int
    output_tokens: int
    first_token_s: float | None = None
    ended_s: float | None = None
    status: str = ""
    generated: int = 0
    prompt: int = 0
    prefilled: int = 0
    start_step: int = -1
    finish_step: int = -1


@dataclass(slots=True)
class Served:
    """What a run leaves: every request in the order sent, and counters of the engine."""

    requests: list[Request] = field(default_factory=list)
    preemptions: int = 0
    peak_kv_tokens: int = 0
    peak_sequences: int = 0
    ended_at_s: float = 0.0


class SimulatedServer:
    """One replica under load; `run` serves until every request sent inside the window has ended.

    `sends` holds the send times in order; in a closed loop (`closed`) the end of a request sends the next one. Requests
    sent before `window_start_s` are warm-up; those sent after `window_end_s` keep the load up while the last ones of
    the window finish.
    """

    def __init__(
        self,
        machine: ReplicaSpec,
        engine: EngineSpec,
        sends: list[float],
        lengths: Iterator[tuple[int, int]],
        *,
        closed: bool,
        window_start_s: float,
        window_end_s: float,
        timeout_s: float,
    ) -> None:
        self.machine = machine
        self.engine = engine
        self.lengths = lengths
        self.closed = closed
        self.window = (window_start_s, window_end_s)
        self.timeout_s = timeout_s
        self.now = 0.0
        self.served = Served()
        self.sends = deque(sends)
        self.waiting: deque[Request] = deque()
        self.running: dict[int, Request] = {}
        self.prefilling: deque[Request] = deque()
        self.decoding = 0
        self.finishing: list[tuple[int, int]] = []
        self.step = 0
        self.cached = 0
        self.held = 0
        self.backlog = 0
        self.open = sum(window_start_s <= sent < window_end_s for sent in sends)
        self.growth = 0 if engine.kv_policy == "reserve" else 1
        self.spare = math.floor(engine.watermark * machine.kv_tokens)

    def run(self) -> Served:
        """Serve, and give every request with what became of it.

        Raises:
            UsageError: when a request is longer than the whole KV cache.
        """
        while self.now < self.window[1] or self.open > 0:
            self._arrive()
            self._expire()
            evicted = self._make_room()
            if not evicted:
                self._admit()
            if self.prefilling:
                self._mixed_iteration()
            elif self.decoding:
                self._decode(one=evicted)
            elif self.sends:
                self.now = max(self.now, self.sends[0])
            elif not self.waiting:
                break
        self.served.ended_at_s = self.now
        return self.served

    def _arrive(self) -> None:
        sends = self.sends
        while sends and sends[0] <= self.now:
            inputs, outputs = next(self.lengths)
            if inputs + outputs > self.machine.kv_tokens:
                raise UsageError(
                    f"a request of {inputs} + {outputs} tokens cannot fit a KV cache of {self.machine.kv_tokens} tokens",
                    "cap the lengths, or leave this tensor-parallel degree out",
                )
            request = Request(len(self.served.requests), sends.popleft(), inputs, outputs, prompt=inputs)
            self.served.requests.append(request)
            self.waiting.append(request)

    def _expire(self) -> None:
        limit = self.now - self.timeout_s
        while self.waiting and self.waiting[0].sent_s <= limit:
            self._end(self.waiting.popleft(), "timeout")
        while self.running:
            oldest = next(iter(self.running.values()))
            if oldest.sent_s > limit:
                return
            self._leave(oldest)
            self._end(oldest, "timeout")

    def _end(self, request: Request, status: str) -> None:
        request.status = status
        request.ended_s = self.now
        if self.window[0] <= request.sent_s < self.window[1]:
            self.open -= 1
        if self.closed:
            self.sends.append(self.now)
            self.open += self.window[0] <= self.now < self.window[1]

    def _leave(self, request: Request) -> None:
        """Take a running request out of the batch and free its cache."""
        del self.running[request.number]
        if request.start_step >= 0:
            generated = self.step - request.start_step
            self.cached -= request.prompt + generated
            self.decoding -= 1
            self.held -= self._need(request) + generated * self.growth
            request.generated += generated
            request.start_step = request.finish_step = -1
        else:
            self.prefilling.remove(request)
            self.backlog -= request.prompt - request.prefilled
            self.held -= self._need(request)

    def _need(self, request: Request) -> int:
        """Tokens of KV cache that the request takes when it is admitted."""
        return request.prompt if self.growth else request.input_tokens + request.output_tokens

    def _make_room(self) -> bool:
        """Evict the youngest sequences until each decoding one has room for a token."""
        evicted = False
        while self.growth and self.machine.kv_tokens - self.held < self.decoding:
            request = self.running[next(reversed(self.running))]
            self._leave(request)
            request.prompt = request.input_tokens + request.generated
            request.prefilled = 0
            self.waiting.appendleft(request)
            self.served.preemptions += 1
            evicted = True
        return evicted

    def _admit(self) -> None:
        budget = self.engine.max_batched_tokens - self.decoding - self.backlog
        while self.waiting and budget > 0 and len(self.running) < self.engine.max_num_seqs:
            request = self.waiting[0]
            need = self._need(request)
            spare = self.spare if self.running else 0
            if self.held + need + spare > self.machine.kv_tokens:
                return
            self.waiting.popleft()
            self.running[request.number] = request
            self.prefilling.append(request)
            self.held += need
            self.backlog += request.prompt
            budget -= request.prompt

    def _mixed_iteration(self) -> None:
        """One iteration with at least one chunk of a prompt in it."""
        budget = self.engine.max_batched_tokens - self.decoding
        sequences = tokens = self.decoding
        read = self.cached + self.decoding
        pairs = 0.0
        complete = 0
        for request in self.prefilling:
            chunk = min(request.prompt - request.prefilled, budget)
            if chunk == 0:
                break
            read += request.prefilled
            pairs += chunk * (request.prefilled + (chunk + 1) / 2)
            request.prefilled += chunk
            sequences += 1
            tokens += chunk
            budget -= chunk
            self.backlog -= chunk
            complete += request.prefilled == request.prompt
        self._advance(1, self.machine.iteration_s(tokens, sequences, read, pairs))
        for _ in range(complete):
            self._start_decoding(self.prefilling.popleft())

    def _start_decoding(self, request: Request) -> None:
        if request.first_token_s is None:
            request.first_token_s = self.now
        request.generated += 1
        request.start_step = self.step
        request.finish_step = self.step + request.output_tokens - request.generated
        self.decoding += 1
        self.cached += request.prompt
        if request.finish_step == self.step:
            self._leave(request)
            self._end(request, "ok")
        else:
            heapq.heappush(self.finishing, (request.finish_step, request.number))

    def _decode(self, *, one: bool) -> None:
        """As many iterations of the constant batch as pass before anything can change it; `one` for just one."""
        count = self.decoding
        steps = 1 if one else self._next_finish() - self.step
        if self.growth:
            steps = min(steps, (self.machine.kv_tokens - self.held) // count)
        slope = self.machine.kv_s_per_token * count
        first = self.machine.iteration_s(count, count, self.cached + count)
        steps = min(steps, _steps_until(self._next_event_s() - self.now, first, slope))
        self._advance(steps, steps * first + slope * (steps * (steps - 1) / 2))

    def _next_finish(self) -> int:
        requests = self.served.requests
        while requests[self.finishing[0][1]].finish_step != self.finishing[0][0]:
            heapq.heappop(self.finishing)
        return self.finishing[0][0]

    def _next_event_s(self) -> float:
        oldest = next(iter(self.running.values())).sent_s
        if self.waiting:
            return min(oldest, self.waiting[0].sent_s) + self.timeout_s
        if self.sends and len(self.running) < self.engine.max_num_seqs:
            return min(oldest + self.timeout_s, self.sends[0])
        return oldest + self.timeout_s

    def _advance(self, steps: int, seconds: float) -> None:
        """Let `steps` iterations pass, and end the requests whose last token they bring."""
        self.now += seconds
        self.step += steps
        self.cached += self.decoding * steps
        self.held += self.decoding * steps * self.growth
        served = self.served
        served.peak_kv_tokens = max(served.peak_kv_tokens, self.held)
        served.peak_sequences = max(served.peak_sequences, len(self.running))
        while self.finishing and self.finishing[0][0] <= self.step:
            finish, number = heapq.heappop(self.finishing)
            request = served.requests[number]
            if request.finish_step == finish:
                self._leave(request)
                self._end(request, "ok")


def _steps_until(seconds: float, first: float, slope: float) -> int:
    """Least k >= 1 with k first + slope k (k - 1) / 2 >= seconds: the first boundary not before an event."""
    if seconds <= first:
        return 1
    linear = first - slope / 2
    root = 2.0 * seconds / (linear + math.sqrt(linear * linear + 2.0 * slope * seconds))
    steps = max(1, math.ceil(root))
    while steps > 1 and (steps - 1) * first + slope * ((steps - 1) * (steps - 2) / 2) >= seconds:
        steps -= 1
    while steps * first + slope * (steps * (steps - 1) / 2) < seconds:
        steps += 1
    return steps
