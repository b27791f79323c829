"""Fixtures of the tests that call the command."""

from __future__ import annotations

from cli.command_line import cli

__all__ = ["cli"]
