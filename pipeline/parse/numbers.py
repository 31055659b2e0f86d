"""Integers, doubles and booleans.

An integer is written as one: `1.0` and `1e2` are wrong types for it, as are `"5"` and `true`. `-0` is 0.
"""

from __future__ import annotations

import math
import re
import struct
from fractions import Fraction
from typing import Any

from pipeline.config.contracts import Field
from pipeline.parse.kinds import Kind, steps
from pipeline.parse.loops import layout
from pipeline.parse.reasons import OUT_OF_RANGE, WRONG_TYPE, Number
from pipeline.parse.rules import NUMBER_KEYWORDS, WholeNumbers, allowed_values, require

_INTEGER = re.compile(r"-?[0-9]+")  # the JSON reader has already refused leading zeros
_LONGEST = 20  # characters of the longest int64


class Integer(Kind):
    def __init__(self, field: Field) -> None:
        super().__init__(field)
        half = 1 << field.type.bit_width - 1
        self._allowed = allowed = WholeNumbers.of(field, -half, half - 1)
        step = allowed.step if allowed.step > 1 else None
        stepping, self.among = steps(allowed.step, allowed.among)
        self.rule = {layout.KIND: layout.INT32 if field.type.bit_width == 32 else layout.INT64, **stepping}
        self.rule |= {layout.LOWEST: allowed.lowest, layout.HIGHEST: allowed.highest}
        self.needs = f"an integer from {allowed.lowest} to {allowed.highest}"
        self.needs += f", a multiple of {step}" if step else ""
        if allowed.among is not None:
            self.needs += f", one of {', '.join(map(str, sorted(allowed.among)))}"

    def value(self, given: Any) -> int:
        if type(given) is not Number or not _INTEGER.fullmatch(given):
            raise self.reject(WRONG_TYPE, given, "is not written as an integer")
        if len(given) > _LONGEST or not self._allowed.allow(int(given)):
            raise self.reject(OUT_OF_RANGE, given, "is not allowed")
        return int(given)


class Double(Kind):
    needs = "a number within the contract's rules and a double's range"

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        require(field, ("number",), NUMBER_KEYWORDS)
        self._least = float(field.rules.get("minimum", -math.inf))
        self._most = float(field.rules.get("maximum", math.inf))
        self._above = float(field.rules.get("exclusiveMinimum", -math.inf))
        self._below = float(field.rules.get("exclusiveMaximum", math.inf))
        self._step = Fraction(str(field.rules["multipleOf"])) if "multipleOf" in field.rules else None
        among = allowed_values(field)
        self._among = None if among is None else {float(v) for v in among if v is not None}
        bounds = {layout.LEAST: self._least, layout.MOST: self._most, layout.ABOVE: self._above}
        self.rule = {word: _bits(bound) for word, bound in (bounds | {layout.BELOW: self._below}).items()}
        self.rule |= {layout.KIND: layout.DOUBLE, layout.NEVER: self._step is not None or self._among is not None}

    def value(self, given: Any) -> float:
        if type(given) is not Number:
            raise self.reject(WRONG_TYPE, given, "is not a number")
        number = float(given) + 0.0
        if not (math.isfinite(number) and self._within(number) and self._listed(number)):
            raise self.reject(OUT_OF_RANGE, given, "is not allowed")
        return number

    def _within(self, number: float) -> bool:
        return self._least <= number <= self._most and self._above < number < self._below

    def _listed(self, number: float) -> bool:
        if self._among is not None and number not in self._among:
            return False
        # Judged by the shortest text of the double, so that 0.3 is a multiple of 0.1.
        return self._step is None or (Fraction(repr(number)) / self._step).denominator == 1


class Boolean(Kind):
    needs = "true or false"

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        require(field, ("boolean",), ())
        self.rule = {layout.KIND: layout.BOOLEAN}

    def value(self, given: Any) -> bool:
        if given is not True and given is not False:
            raise self.reject(WRONG_TYPE, given, "is not a boolean")
        return bool(given)


def _bits(number: float) -> int:
    bits: int = struct.unpack("q", struct.pack("d", number))[0]
    return bits
