"""The door to the compiled inner loops: they are loaded when the first join is made, for the compiler takes its time.

Who only asks a cost model, as the driver does, never loads it.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from pipeline.joins.parts import inner_loops

    loop = globals()[name] = getattr(inner_loops, name)
    return loop
