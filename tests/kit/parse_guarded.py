"""Messages that end where memory ends: to read one byte further kills the process. Run as a program, with a seed."""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.parse import Parser
from tests.kit.guarded import Guarded
from tests.kit.parse_kinds import EVERYTHING, contract
from tests.kit.parse_mutants import mutated, written


def messages_at_the_end(messages: list[bytes], data: Guarded, offsets: Guarded) -> pa.Array:
    ends = np.cumsum([0, *map(len, messages)]).astype(np.int32)
    buffers = [None, offsets.holding(ends.tobytes()), data.holding(b"".join(messages))]
    return pa.Array.from_buffers(pa.binary(), len(messages), buffers)


def main(seed: int) -> None:
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        made = contract(Path(folder), EVERYTHING)
    parser, data, offsets = Parser(made, 1 << 20), Guarded(), Guarded()
    found = []
    for i in range(3_000):
        given = [mutated(draw) for _ in range(draw.choice([1, 1, 2]))]
        if i % 3 == 0:
            message = written(draw)
            given = [message[: draw.randrange(len(message) + 1)]]
        parsed = parser.parse(messages_at_the_end(given, data, offsets))
        elsewhere = parser.parse(pa.array(given, pa.binary()))
        assert parsed.sales.equals(elsewhere.sales)
        assert parsed.details.equals(elsewhere.details)
        found.append((len(parsed.valid), len(parsed.rejected)))
    print(json.dumps(np.sum(found, axis=0).tolist()))


if __name__ == "__main__":
    main(int(sys.argv[1]))
