"""What a kind of field must know: which values the scanner may take, and how to judge one exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.config.contracts import Field
from pipeline.parse.loops import layout
from pipeline.parse.reasons import Reject, shown

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_WORD = 1 << 63


class Kind(ABC):
    """One field of a contract. What the scanner takes by `rule` and `sure` leaves, `value` returns."""

    needs: str  # what a valid value is, as the end of a sentence
    rule: dict[int, int]  # words of `layout.py`; what is not there is 0
    among: Integers | None = None  # the whole numbers allowed, ascending
    needs_text = False  # for `sure`, beside what the text means

    def __init__(self, field: Field) -> None:
        self.field = field

    @abstractmethod
    def value(self, given: Any) -> Any:
        """One JSON value, not null, as pyarrow takes it for the column; raises `Reject`."""

    def sure(self, column: pa.Array, texts: pa.Array) -> Mask | None:
        """Which of the scanner's values are surely right by the rules that it does not know; None: all."""
        return None

    def reject(self, reason: str, given: Any, why: str) -> Reject:
        return Reject(reason, f"{self.field.name}: {shown(given)} {why}; needed: {self.needs}.")


def steps(step: int, among: Iterable[int] | None) -> tuple[dict[int, int], Integers | None]:
    """The rule and the list of which whole numbers a scanner of 64 bits takes."""
    rule = {layout.STEP: step} if step < _WORD else {layout.NEVER: 1}
    if among is None:
        return rule, None
    return rule, np.array(sorted(number for number in among if -_WORD <= number < _WORD), np.int64)
