"""All that is promised of a master that moves, in one run: moving_master_run.py [seconds] [sales a second] [changes].

By itself it runs for three minutes at 20 000 sales and 200 changes a second, on the embedded server, or on a real MySQL
with MILLRACE_DATABASE=mysql; the result of the other server stays in the file. What is done and held against what is
in `tests/kit/moving_proof.py`, and a test of half a minute is `tests/faults/test_moving_master.py`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from join_lab import RESULTS, host

from pipeline.generate.keys import Sizes
from pipeline.laptop.stack.stack import Stack
from tests.kit.moving_proof import MovingProof, told
from tests.kit.mysql_server import asked_for

SIZES = Sizes(products=2_000, customers=2_000, stores=100)


def main() -> None:
    seconds, rate, changes = (float(word) for word in (*sys.argv[1:], *("180", "20000", "200")[len(sys.argv) - 1 :]))
    began, result = time.time(), RESULTS / "moving_master.json"
    with (
        tempfile.TemporaryDirectory(prefix="millrace-moving-") as folder,
        Stack(Path(folder) / "stack", supervised=True, program=asked_for) as stack,
    ):
        stack.database.create_database("moving")
        work = Path(folder) / "job"
        work.mkdir()
        proof = MovingProof(stack, "moving", "sales-moving", work, SIZES, seconds, rate, changes)
        proof.run()
        run = {"host": host(), **told(proof, began)}
    known = json.loads(result.read_text()) if result.exists() else {}
    result.write_text(json.dumps(known | {run["server"]: run}, indent=1) + "\n")
    print(json.dumps(run), file=sys.stderr)


if __name__ == "__main__":
    main()
