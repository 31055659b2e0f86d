"""Redpanda Connect: an enrichment that is a configuration and no program, without a sink.

What its manual advises where much is to go through: a thread a core, the input's batches as large as its buffers, one
query a batch and dimension. Every sale's key is in it: a configuration has no simple way to ask for a key once.

There is no cache. The manual has two ways to one, and both were tried: `cached`, which is filled by a query a key,
and an LRU before the query of a batch, which then has only those keys that the cache has not. They ask for 0.4 to 0.6
keys a sale rather than 1, and take more processor in all: 47 and 23 µs a sale rather than 17 (150 000 sales of 50 000
products, 2 000 rows in the cache, on a busy machine, so that it is their order that counts).

It promises each sale at least once: offsets are noted every five seconds in a group, and a sale whose look-up failed is
tried again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request

import pyarrow as pa
import pyarrow.json as pa_json

from pipeline.laptop.stack import ports
from tests.benchmarks.peers import progress, redpanda_build, redpanda_config
from tests.benchmarks.peers.task import Peer, Task, key_of

_EVERY = 0.2  # seconds


def main(task: Task) -> None:
    program = redpanda_build.fetch()
    [port] = ports.choose(1)
    file = task.folder / "connect.json"  # JSON is YAML, too
    file.touch(mode=0o600)
    file.write_text(json.dumps(redpanda_config.configuration(task, port)))
    with subprocess.Popen([program, "run", file]) as connect, progress.open_progress(task.folder) as told:
        while connect.poll() is None:
            time.sleep(_EVERY)
            told.write(f"{done(port)}\n")
    sys.exit(f"Redpanda Connect ended with {connect.returncode}.")


def done(port: int) -> int:
    """Sales that the output has had; none as long as nobody answers."""
    try:
        with urllib.request.urlopen(f"http://{ports.LOOPBACK}:{port}/stats", timeout=30) as answered:
            return sum(json.load(answered).values())
    except OSError:
        return 0


def answer(task: Task) -> pa.Table:
    types = pa.schema([("sale_id", pa.string()), *((key_of(name), pa.int64()) for name in task.dimensions)])
    return pa_json.read_json(task.folder / redpanda_config.ANSWER, parse_options=pa_json.ParseOptions(types))


PEER = Peer("redpanda", __name__, lambda task: progress.told(task.folder), answer)

if __name__ == "__main__":
    main(Task.read(sys.argv[1]))
