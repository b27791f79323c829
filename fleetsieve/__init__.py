"""FleetSieve: certified fleet decisions for LLM serving, from as few measurements as they need."""

__version__ = "0.1.0"
