"""Fixtures of the tests that call commands."""

from cli.command_line import cli

__all__ = ["cli"]
