"""A discrete-event simulator of LLM serving with continuous batching: measurements where there is no GPU.

It is small and honest rather than exact: a roofline for what an iteration costs (`hardware`), the scheduler of a
vLLM-like engine (`batching`), bursty or closed-loop traffic (`traffic`), and what a load generator would report
(`measuring`). `simulate` turns a simulation.toml into an instance folder, the same bytes every time.

What it leaves out: prefix caching, speculative decoding, tokenisation and network time, jitter of kernels, block
rounding of the KV cache, pipeline parallelism, mixtures of experts.
"""

from fleetsieve.simulator.grid import simulate
from fleetsieve.simulator.measuring import RECORD_COLUMNS, CellRun, simulate_cell
from fleetsieve.simulator.spec import SPEC_NAME, Simulation, read_spec

__all__ = ["RECORD_COLUMNS", "SPEC_NAME", "CellRun", "Simulation", "read_spec", "simulate", "simulate_cell"]
