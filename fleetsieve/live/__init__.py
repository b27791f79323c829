"""Measurements on live servers: child processes, load, servers and their GPUs, and the probe that joins them."""
