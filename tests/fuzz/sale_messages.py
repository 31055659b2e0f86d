"""Messages of shops: the compiled scan in memory with nothing around it, held to the strict path and to a judge that
shares no line with either."""

from __future__ import annotations

import json
import random
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.parse import Parser
from tests.fuzz.damage import damaged
from tests.kit.guarded import Guarded
from tests.kit.parse_judge import Undecided, judged
from tests.kit.parse_kinds import EVERYTHING, contract, strict_parser
from tests.kit.parse_mutants import TOKENS, mutated, written
from tests.kit.parse_samples import CONTRACT, FIELDS

READS: list[str] = []  # the scan goes by addresses, and cannot run as plain Python
_MOST = 8_000
_bytes, _offsets = Guarded(), Guarded(1)
with tempfile.TemporaryDirectory() as _folder:
    _EVERY = contract(Path(_folder), EVERYTHING)
_PAIRS = [(Parser(made, _MOST), strict_parser(made, _MOST)) for made in (_EVERY, CONTRACT)]


def made(draw: random.Random) -> bytes:
    kind = draw.randrange(4)
    if kind == 0:
        return mutated(draw)[:_MOST]
    one = _sale if kind == 1 else written
    return damaged(draw, one(draw), lambda: one(draw), TOKENS)


def tried(data: bytes) -> bool:
    """Whether it is a sale. With it lies another one, so that the scan has something to come from and to go to."""
    draw = random.Random(zlib.crc32(data))
    fast, strict = _PAIRS[draw.randrange(2)]
    given = draw.choice([[data], [data], [data, b"{}"], [b'{"code":"', data]])
    at_its_end = draw.random() < 0.9
    ends = np.cumsum([0, *map(len, given)]).astype(np.int32).tobytes()
    buffers = [None, _offsets.holding(ends), _bytes.holding(b"".join(given), at_its_end)]
    messages = pa.Array.from_buffers(pa.binary(), len(given), buffers)
    parsed, slowly = fast.parse(messages), strict.parse(pa.array(given, pa.binary()))
    parsed.sales.validate(full=True)
    assert parsed.sales.equals(slowly.sales)
    assert parsed.details.equals(slowly.details)
    assert parsed.reasons.equals(slowly.reasons)
    if fast is _PAIRS[1][0] and given == [data]:
        _hear_the_judge(data, parsed.sales)
    return given.index(data) in parsed.valid


def _hear_the_judge(data: bytes, sales: pa.Table) -> None:
    try:
        said = judged(data)
    except Undecided:
        return
    assert (said is not None) == bool(len(sales)), f"the judge says {said}"
    if said is not None:
        [row] = sales.to_pylist()
        assert row == {name: said[name] for name in row}


def _sale(draw: random.Random) -> bytes:
    members = list(FIELDS.items())
    if draw.random() < 0.3:
        draw.shuffle(members)
    if draw.random() < 0.3:
        members[draw.randrange(len(members))] = ("extra", json.dumps({"a": [1, None, "ü"]}))
    return ("{" + draw.choice([",", ", ", "\n,"]).join(f'"{name}":{value}' for name, value in members) + "}").encode()
