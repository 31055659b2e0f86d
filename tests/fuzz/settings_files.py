"""Settings files: taken, or refused with a sentence."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from pipeline import plan
from pipeline.config.settings import load
from pipeline.errors import MillraceError
from tests.fuzz.damage import damaged

READS = ["pipeline.config"]
_folder = tempfile.TemporaryDirectory(prefix="millrace-fuzz-")
_file = Path(_folder.name) / "millrace.toml"
_LINES = [line for line in Path("deploy/reference.toml").read_text("utf-8").splitlines() if line]
_VALUES = ["-1", "0", "1e400", "nan", "inf", "true", "''", '"\\u0000"', '"../.."', "[]", "{}", "[[1]]", "1979-05-27"]
_VALUES += ["99999999999999999999", '"1e999 GiB"', '"٣"', "[" * 2000, "{a={b={c=1}}}", '"x" = 1', '["a", 1]', '"-5 s"']
_WORDS = [word.encode() for word in [*_VALUES, "[", "]", "=", '"', "'''", "\n", ".", "#", "[dimensions.x]", "\ufeff"]]


def made(draw: random.Random) -> bytes:
    lines = [line for line in _LINES if line.startswith("[") or draw.random() < 0.3]
    for _ in range(draw.choice([0, 1, 1, 2, 5])):
        at = draw.randrange(len(lines))
        name, equals, _ = lines[at].lstrip("# ").partition("=")
        if equals:
            lines[at] = f"{name}= {draw.choice(_VALUES)}"
    text = "\n".join(lines).encode()
    return damaged(draw, text, lambda: text, _WORDS) if draw.random() < 0.5 else text


def tried(data: bytes) -> bool:
    _file.write_bytes(data)
    try:
        plan.resolve(load(_file, environment={}))
    except MillraceError as refused:
        assert str(refused).strip()
        return False
    return True
