"""What a kind of field must know: how to read many values quickly, and how to judge one exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from pipeline.config.contracts import Field
from pipeline.parse.reasons import Reject, shown
from pipeline.parse.texts import Mask


class QuickValues(NamedTuple):
    """Values read quickly, and which of them are surely right (None: all). Of the others nothing is said."""

    values: pa.Array
    sure: Mask | None


class Kind(ABC):
    """One field of a contract. `column` and `value` agree: what the first is sure of, the second returns."""

    wire: Any  # what msgspec decodes the field to; it checks what it can
    missing: ClassVar[Any] = None  # what stands in for an optional field that is not there
    needs: str  # what a valid value is, as the end of a sentence

    def __init__(self, field: Field) -> None:
        self.field = field

    @abstractmethod
    def column(self, given: list[Any]) -> QuickValues:
        """The values msgspec decoded, as a column."""

    @abstractmethod
    def value(self, given: Any) -> Any:
        """One JSON value, not null, as pyarrow takes it for the column; raises `Reject`."""

    def reject(self, reason: str, given: Any, why: str) -> Reject:
        return Reject(reason, f"{self.field.name}: {shown(given)} {why}; needed: {self.needs}.")
