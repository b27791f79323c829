"""A live run while it continues: a view that is renewed on a terminal, plain lines now and then without one; on standard error."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fleetsieve.instance import CellKey
from fleetsieve.live.probe import Phase
from fleetsieve.loop.sieve import Experiment
from fleetsieve.loop.steps import Step
from fleetsieve.presentation.steps import show_step
from fleetsieve.presentation.terminal import literal, say

PLAIN_EVERY_S = 30.0
"""Seconds of one phase between two lines without a terminal."""

NEXT = 2
"""Candidates that are named beside the one that is measured."""


class LiveView:
    """What is measured now, with its phase and the time left, the decision so far and what may come next. Used as a context."""

    def __init__(self, console: Console) -> None:
        self._console, self._grid_gpu_s = console, 0.0
        self._live: Live | None = None
        self._phases: dict[CellKey, Phase] = {}
        self._rates: dict[CellKey, float] = {}
        self._shown_s: dict[tuple[CellKey, str], float] = {}
        self._step: Step | None = None
        self._asked: Experiment | None = None
        self._changing = threading.Lock()

    def __enter__(self) -> LiveView:
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=2, transient=True, get_renderable=self._view)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            with suppress(Exception):
                self._live.stop()
            self._live = None

    def note(self, sentence: str) -> None:
        """Something that a person should know."""
        say(self._console, f"note: {sentence}", "yellow")

    def asked(self, experiment: Experiment) -> None:
        """What is measured next."""
        self._asked = experiment

    def step(self, step: Step, grid_gpu_s: float) -> None:
        """A step that was made; `grid_gpu_s` is the expected cost of one measurement of each cell, each server started once."""
        self._step, self._grid_gpu_s = step, grid_gpu_s
        show_step(self._console, step, grid_gpu_s)

    def phase(self, phase: Phase) -> None:
        """What a measurement is doing."""
        with self._changing:
            before = self._phases.get(phase.key)
            if phase.flow is not None and before is not None and before.flow is not None:
                seconds = phase.flow.elapsed_s - before.flow.elapsed_s
                if seconds > 0.0:
                    now = (phase.flow.output_tokens - before.flow.output_tokens) / seconds
                    self._rates[phase.key] = now + 0.8 * (self._rates.get(phase.key, now) - now)
            if phase.name == "done":
                self._phases.pop(phase.key, None)
            else:
                self._phases[phase.key] = phase
        for sentence in phase.notes:
            self.note(f"{phase.key}: {sentence}")
        if self._live is None:
            self._show_plainly(phase)

    def _show_plainly(self, phase: Phase) -> None:
        if phase.name == "done":
            self._shown_s = {place: at for place, at in self._shown_s.items() if place[0] != phase.key}
            return
        place = (phase.key, phase.name)
        if phase.elapsed_s - self._shown_s.get(place, -PLAIN_EVERY_S) >= PLAIN_EVERY_S:
            self._shown_s[place] = phase.elapsed_s
            say(self._console, f"    {phase.key}: {self._words(phase)}", "dim")

    def _words(self, phase: Phase) -> str:
        what = "server start" if phase.name == "start" else "load"
        time = f"{phase.elapsed_s:.0f} s" + (f" of about {phase.expected_s:.0f}" if phase.expected_s else "")
        parts = [f"{what}, {time}"]
        flow = phase.flow
        if flow is not None:
            parts.append("warm-up" if flow.window_at_s is None or flow.window_at_s < 0.0 else "window")
            parts.append(f"{flow.ended} requests answered")
            if flow.ended > flow.succeeded:
                parts.append(f"{flow.ended - flow.succeeded} failed")
            if phase.in_flight is not None:
                parts.append(f"{phase.in_flight:.0f} in flight")
            if phase.key in self._rates:
                parts.append(f"{self._rates[phase.key]:.0f} tokens/s")
        return ", ".join(parts)

    def _view(self) -> Group:
        with self._changing:
            phases = list(self._phases.values())
        lines: list[Any] = [self._bar(phase) for phase in phases]
        step = self._step
        if step is not None:
            c = step.sieve.certificate
            plan = ", ".join(f"{key} x{count}" for key, count in c.conservative.replica_counts.items()) or "nothing yet"
            share = f" ({step.sieve.spent_gpu_s / self._grid_gpu_s:.0%} of the full grid)" if self._grid_gpu_s else ""
            lines.append(literal(f"plan so far: {plan}"))
            gap = f"gap {c.gap.min_fulfilment:.3f}/{c.gap.goodput:.3f} (certifies at {c.epsilon:g})"
            lines.append(literal(f"{gap}; spent {step.sieve.spent_gpu_s:,.0f} GPU-seconds{share}"))
        if self._asked is not None and self._asked.scores:
            after = sorted((-score, key) for key, score in self._asked.scores.items() if key != self._asked.key)[:NEXT]
            if after:
                lines.append(literal(f"perhaps next: {', '.join(str(key) for _, key in after)}", "dim"))
        return Group(*lines)

    def _bar(self, phase: Phase) -> Table | Text:
        text = literal(f"{phase.key}: {self._words(phase)}", "bold")
        if not phase.expected_s:
            return text
        from rich.progress_bar import ProgressBar

        row = Table.grid(padding=(0, 1))
        row.add_row(
            ProgressBar(total=phase.expected_s, completed=min(phase.elapsed_s, phase.expected_s), width=20), text
        )
        return row
