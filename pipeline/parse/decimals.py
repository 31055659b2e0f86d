"""Decimals: exact or refused, never rounded.

A decimal is a JSON number, or a string that holds the same characters. `12.340` and `1234e-2` are 12.34, `-0` is 0;
`12.345` is out of range for two decimals.
"""

from __future__ import annotations

import re
from decimal import Context
from decimal import Decimal as PythonDecimal
from typing import Any

from pipeline.config.contracts import Field
from pipeline.parse.kinds import Kind, steps
from pipeline.parse.loops import layout
from pipeline.parse.reasons import OUT_OF_RANGE, WRONG_TYPE, Number
from pipeline.parse.rules import WholeNumbers

_NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_SCALE = 19  # the most decimals that the scanner can count; numbers with more are judged one by one
_EXACT = Context(prec=100)  # Python's default context would round a decimal of 38 digits to 28


class Decimal(Kind):
    """Counted in units of 10 ** -scale, as whole numbers."""

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self._precision, self._scale = field.type.precision, field.type.scale
        most = 10**self._precision - 1
        self._allowed = allowed = WholeNumbers.of(field, -most, most, self._scale)
        declared = field.rules.get("type", ("number", "string"))
        self._as_number = "number" in declared or "integer" in declared
        self._as_string = "string" in declared
        stepping, self.among = steps(allowed.step, allowed.among)
        lowest, highest = _halves(allowed.lowest), _halves(allowed.highest)
        self.rule = {layout.KIND: layout.DECIMAL, **stepping, layout.SCALE: self._scale}
        self.rule |= {layout.LOWEST: lowest[0], layout.LOWEST_HALF: lowest[1]}
        self.rule |= {layout.HIGHEST: highest[0], layout.HIGHEST_HALF: highest[1]}
        self.rule |= {layout.AS_NUMBER: self._as_number, layout.AS_TEXT: self._as_string}
        if self._scale > _SCALE:
            self.rule[layout.NEVER] = 1
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


def _halves(number: int) -> tuple[int, int]:
    """128 bits as two numbers of 64, both with a sign; the lower one first."""
    lower = number & (1 << 64) - 1
    return lower - (1 << 64) if lower >> 63 else lower, number >> 64
