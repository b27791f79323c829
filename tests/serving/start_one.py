"""A run in small, to be killed: starts one hostile server with the record in a folder, waits for it, and stays.

python start_one.py FOLDER PORT [arguments of the server]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from hostile import hostile

from fleetsieve.live.serving.register import Register
from fleetsieve.live.serving.server import Server

folder, port, *arguments = sys.argv[1:]
print("begin", flush=True)
server = Server.start(hostile(*arguments), 1, (), int(port), Path(folder) / "log", Register(Path(folder)))
print("started", flush=True)
server.wait_ready()
print("ready", flush=True)
time.sleep(600)
