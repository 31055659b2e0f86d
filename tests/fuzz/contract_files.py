"""Contracts of messages, master tables and warehouse tables: taken, or refused with the file's name."""

from __future__ import annotations

import copy
import json
import random
import tempfile
from pathlib import Path

from pipeline.config import resources
from pipeline.config.contracts import Contracts
from pipeline.errors import MillraceError
from pipeline.parse import Parser
from tests.fuzz.damage import damaged

READS = ["pipeline.config", "pipeline.parse"]
_folder = tempfile.TemporaryDirectory(prefix="millrace-fuzz-")
_here = Path(_folder.name)
_SHIPPED = sorted(path for path in resources.schemas().rglob("*") if path.suffix in (".json", ".toml"))
_KINDS = {path.parent.name for path in _SHIPPED}
_WORDS = [
    b"null",
    b"-1",
    b"1e400",
    b"[]",
    b"{}",
    b'""',
    b"true",
    b'"string"',
    b"\\u0000",
    b"[" * 2_000,
    b"99999999999999999999",
]
_ODD = [
    None,
    -1,
    0,
    1.5,
    10**30,
    float("inf"),
    [],
    {},
    "",
    "(",
    "x" * 300,
    True,
    ["string", "null"],
    [1, [2]],
    {"a": 1},
]


def made(draw: random.Random) -> bytes:
    """The number of the shipped contract that it was, then its text."""
    number = draw.randrange(len(_SHIPPED))
    text = _SHIPPED[number].read_bytes()
    if _SHIPPED[number].suffix == ".json" and draw.random() < 0.6:
        document = json.loads(text)
        for _ in range(draw.choice([1, 1, 2, 4])):
            _changed(draw, document)
        text = json.dumps(document).encode()
    elif draw.random() < 0.6:
        lines = text.splitlines()
        for _ in range(draw.choice([1, 1, 3])):
            at = draw.randrange(len(lines))
            name, equals, value = lines[at].partition(b"=")
            lines[at] = name + equals + draw.choice([*_WORDS, value]) if equals else draw.choice(lines)
        text = b"\n".join(lines)
    return bytes([number]) + damaged(draw, text, lambda: text, _WORDS)


def tried(data: bytes) -> bool:
    if not data:
        return False
    path = _SHIPPED[data[0] % len(_SHIPPED)]
    kind, name = path.parent.name, path.stem
    for folder in _KINDS:
        (_here / folder).mkdir(exist_ok=True)
    (_here / kind / path.name).write_bytes(data[1:])
    contracts = Contracts(str(_here))
    try:
        if kind == "topics":
            Parser(contracts.topic(name), 1 << 20)
        elif kind == "dimensions":
            contracts.dimension(name)
        else:
            contracts.table(name)
    except MillraceError as refused:
        assert name in str(refused) or "field " in str(refused), refused
        return False
    return True


def _changed(draw: random.Random, document: object) -> None:
    """One value somewhere in it is another, is gone, or has another name."""
    place = document
    while True:
        inner = [
            value
            for value in (place.values() if isinstance(place, dict) else place)
            if isinstance(value, (dict, list)) and value
        ]  # type: ignore[union-attr, attr-defined]
        if not inner or draw.random() < 0.2:
            break
        place = draw.choice(inner)
    if isinstance(place, dict):
        name = draw.choice([*place])
        value = place.pop(name)
        if draw.random() < 0.8:
            place[name if draw.random() < 0.9 else "x"] = copy.deepcopy(draw.choice([*_ODD, value]))
    elif isinstance(place, list):
        place[draw.randrange(len(place))] = copy.deepcopy(draw.choice(_ODD))
