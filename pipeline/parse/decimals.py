"""Decimals: exact or refused, never rounded.

A decimal is a JSON number, or a string that holds the same characters. `12.340` and `1234e-2` are 12.34, `-0` is 0;
`12.345` is out of range for two decimals.
"""

from __future__ import annotations

import re
from decimal import Context
from decimal import Decimal as PythonDecimal
from typing import Any, ClassVar

import msgspec
import numpy as np
import pyarrow as pa

from pipeline.config.contracts import Field
from pipeline.parse.kinds import Kind, QuickValues
from pipeline.parse.reasons import OUT_OF_RANGE, WRONG_TYPE, Number
from pipeline.parse.rules import WholeNumbers
from pipeline.parse.texts import Bytes, ByteTexts, Integers, Mask

_NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_DIGITS = 18  # that surely fit int64; longer numbers are judged one by one
_LONGEST = _DIGITS + len("-.")
_MINUS, _POINT, _ZERO = b"-.0"
_EXACT = Context(prec=100)  # Python's default context would round a decimal of 38 digits to 28
_NULL = np.frombuffer(b"null", np.uint8)[:, None]


class Decimal(Kind):
    """Counted in units of 10 ** -scale, as whole numbers."""

    wire = msgspec.Raw  # the number as written: a float would be rounded already, and a Python Decimal is slow to make
    missing: ClassVar[Any] = msgspec.Raw(b"")

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self._precision, self._scale = field.type.precision, field.type.scale
        most = 10**self._precision - 1
        self._allowed = allowed = WholeNumbers.of(field, -most, most, self._scale)
        self._among = np.array([n for n in allowed.among or () if abs(n) < 10**_DIGITS], np.int64)
        declared = field.rules.get("type", ("number", "string"))
        self._as_number = "number" in declared or "integer" in declared
        self._as_string = "string" in declared
        ways = [way for way, taken in (("number", self._as_number), ("string", self._as_string)) if taken]
        least, most_shown = self._shown(allowed.lowest), self._shown(allowed.highest)
        self.needs = f"a decimal ({' or '.join(ways)}) from {least} to {most_shown} with at most {self._scale} decimals"
        self.needs += f", a multiple of {self._shown(allowed.step)}" if allowed.step > 1 else ""
        self.needs += "" if allowed.among is None else f", one of {', '.join(map(self._shown, sorted(allowed.among)))}"

    def value(self, given: Any) -> PythonDecimal:
        number = type(given) is Number and self._as_number
        written = number or (type(given) is str and self._as_string)
        parts = _NUMBER.fullmatch(given) if written else None
        if parts is None:
            raise self.reject(WRONG_TYPE, given, "is not a decimal")
        units = self._units(*parts.groups(default=""))
        if units is None or not self._allowed.allow(units):
            raise self.reject(OUT_OF_RANGE, given, "is not allowed")
        return self._decimal(units)

    def _units(self, sign: str, whole: str, fraction: str, power: str) -> int | None:
        """The number in units, or None if it has too many digits. By its text, so that `1e999999999` costs nothing."""
        exponent = int(power.lstrip("+-").lstrip("0")[:10] or 0)  # ten digits are beyond any message's length
        exponent = -exponent if power.startswith("-") else exponent
        significant = (whole + fraction).rstrip("0")
        zeros = exponent + len(whole) - len(significant) + self._scale
        significant = significant.lstrip("0")
        if not significant:
            return 0
        if zeros < 0 or len(significant) + zeros > self._precision:
            return None
        units: int = int(significant) * 10**zeros
        return -units if sign else units

    def _decimal(self, units: int) -> PythonDecimal:
        return PythonDecimal(units).scaleb(-self._scale, _EXACT)

    def _shown(self, units: int) -> str:
        return f"{self._decimal(units):f}"

    def column(self, given: list[Any]) -> QuickValues:
        texts, quoted = ByteTexts.of_raws(given).unquoted()
        accepted = np.where(quoted, self._as_string, self._as_number)
        nulls = (texts.lengths == 0) & ~quoted  # an optional field that is not there
        characters = texts.right_aligned(_LONGEST, fill=_ZERO)
        if self.field.nullable and len(characters) >= len(_NULL):
            nulls |= (characters[-len(_NULL) :] == _NULL).all(axis=0) & (texts.lengths == len(_NULL)) & ~quoted
        units, sure = self._read(characters, texts)
        return QuickValues(_column(units, nulls, self.field.type), sure & accepted | nulls)

    def _read(self, characters: Bytes, texts: ByteTexts) -> tuple[Integers, Mask]:
        """The texts, with zeros before them, in units; and which of them are surely that."""
        width, count = characters.shape
        digits = characters - np.uint8(_ZERO)  # bytes wrap round: what is not a digit becomes more than 9
        numeric = digits <= 9
        points = (characters == _POINT).view(np.uint8)
        point = points.sum(axis=0, dtype=np.uint8)
        decimals = (points * np.arange(width, dtype=np.uint8)[::-1, None]).sum(axis=0, dtype=np.int64)
        units = np.zeros(count, np.int64)
        for row, is_digit in zip(digits, numeric, strict=True):
            units = np.where(is_digit, units * 10 + row, units)
        first = texts.character(0)
        minus = (first == _MINUS).astype(np.int64)
        first = np.where(minus, texts.character(1), first)
        whole = texts.lengths - minus - point - decimals
        sure = (
            (numeric.view(np.uint8).sum(axis=0, dtype=np.uint8) + minus + point == width)
            & (point <= 1)
            & (decimals >= point)  # digits follow a point
            & (whole >= 1)
            & ((first != _ZERO) | (whole == 1))
            & (decimals <= self._scale)
            & (whole <= min(self._precision, _DIGITS) - self._scale)
        )
        units *= np.power(10, np.clip(self._scale - decimals, 0, _DIGITS)) * (1 - 2 * minus)
        return units, sure & self._allow(units)

    def _allow(self, units: Integers) -> Mask:
        """`WholeNumbers.allow` for numbers of at most 18 digits."""
        allowed, limit = self._allowed, 1 << 62
        good: Mask = (units >= max(allowed.lowest, -limit)) & (units <= min(allowed.highest, limit))
        if allowed.step > 1:
            good &= units % min(allowed.step, limit) == 0
        return good if allowed.among is None else good & np.isin(units, self._among)


def _column(units: Integers, nulls: Mask, kind: pa.DataType) -> pa.Array:
    """128-bit decimals from 64-bit units: the low half, and the sign spread over the high half."""
    halves = np.empty((len(units), 2), np.int64)
    halves[:, 0] = units
    halves[:, 1] = units >> 63
    valid = pa.array(~nulls).buffers()[1] if nulls.any() else None
    return pa.Array.from_buffers(kind, len(units), [valid, pa.py_buffer(halves)])
