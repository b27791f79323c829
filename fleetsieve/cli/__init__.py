"""The command line: parse, call, print. Nothing is decided here, and nothing heavy is imported before it is needed."""

from fleetsieve.cli.main import main

__all__ = ["main"]
