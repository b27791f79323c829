"""A run on disk: its journal, its steps, its history, and whether its certificate still holds."""
