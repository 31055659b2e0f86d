"""The data that a point names: R with its rows, and the law of what the sales ask for."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, get_type_hints

import msgspec

from pipeline.bench.workload import sources
from pipeline.bench.workload.sources import Data

USUAL = "synthetic"


def data_of(R: dict[str, Any], skew: float | None) -> Data:
    """`R`: "of", a name of sources.py, and what that takes; `skew` is the sales', if they have one to be told."""
    return _made(msgspec.json.encode(R, order="sorted"), skew)


@lru_cache(maxsize=64)
def _made(encoded: bytes, skew: float | None) -> Data:
    parameters = msgspec.json.decode(encoded)
    name = parameters.pop("of", USUAL)
    takes = get_type_hints(sources.SOURCES[name]) if name in sources.SOURCES else {}
    if skew is not None:
        if takes and "skew" not in takes:
            raise ValueError(f"sales.skew = {skew:g}: the sales of {name} have a law of their own")
        parameters["skew"] = skew
    for key, value in parameters.items():
        try:
            msgspec.convert(value, takes.get(key, Any))
        except msgspec.ValidationError as wrong:
            raise ValueError(f"R.{key}: {wrong}") from None
    return sources.of(name, **parameters)
