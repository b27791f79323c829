"""Answers from a certificate: why a floor cannot be met, the fewest GPUs, what each cell can still change, other numbers."""
