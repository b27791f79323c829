"""Requests sent to one replica: what is sent when, by which load generator, and what came of it."""
