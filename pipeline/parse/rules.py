"""The rules of a contract's field: which JSON Schema keywords a column type honours, and what they allow.

A rule that is not checked is worse than no rule, so a keyword that a type does not honour is refused when the
contract is read, not ignored when a message comes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.contracts import Field
from pipeline.errors import BadContract

_ANNOTATIONS = {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"} | {
    "contentEncoding",
    "contentMediaType",
}
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
NUMBER_KEYWORDS = (*_BOUNDS, "multipleOf", "enum", "const")
TEXT_KEYWORDS = ("minLength", "maxLength", "pattern", "enum", "const")


def require(field: Field, types: Iterable[str], keywords: Iterable[str]) -> None:
    """Refuse a field whose `type` cannot become its column, or with a rule that its column type does not honour."""
    declared = field.rules.get("type", list(types))
    listed = declared if isinstance(declared, list) else [declared]
    if not all(isinstance(name, str) for name in listed) or not isinstance(field.rules.get("enum", []), list):
        raise BadContract(f"field {field.name}: `type` must be a name or a list of names, and `enum` a list of values.")
    declared = {declared} if isinstance(declared, str) else set(declared)
    if not declared - {"null"} or not declared <= {*types, "null"}:
        raise BadContract(
            f"field {field.name}: `type` is {sorted(declared)}, but x-type {field.type} is made from "
            f"{' or '.join(types)}. Change one of the two."
        )
    allowed = {*keywords, *_ANNOTATIONS, "type", "format"}
    for keyword in field.rules:
        if keyword not in allowed and not keyword.startswith("x-"):
            raise BadContract(
                f"field {field.name}: the rule `{keyword}` is not checked for x-type {field.type}. "
                f"Remove it; checked are: {', '.join(sorted(keywords)) or 'none'}."
            )


@dataclass(frozen=True)
class WholeNumbers:
    """Which whole numbers are allowed, for integers and for decimals counted in their smallest unit."""

    lowest: int
    highest: int
    step: int
    among: frozenset[int] | None

    @classmethod
    def of(cls, field: Field, lowest: int, highest: int, scale: int = 0) -> WholeNumbers:
        """The rules of `field` within what its column can hold; numbers are counted in units of 10 ** -scale.

        >>> price = Field("price", "price", pa.decimal128(4, 2), False, True, {"minimum": 0.015, "multipleOf": 0.05})
        >>> WholeNumbers.of(price, -9999, 9999, scale=2)
        WholeNumbers(lowest=2, highest=9999, step=5, among=None)
        """
        require(field, _types(field), NUMBER_KEYWORDS)
        rules = {k: _exact(field, k) * 10**scale for k in (*_BOUNDS, "multipleOf") if k in field.rules}
        if (step := rules.get("multipleOf", Fraction(1))) <= 0:
            raise BadContract(f"field {field.name}: `multipleOf` must be above 0.")
        if "minimum" in rules:
            lowest = max(lowest, math.ceil(rules["minimum"]))
        if "exclusiveMinimum" in rules:
            lowest = max(lowest, math.floor(rules["exclusiveMinimum"]) + 1)
        if "maximum" in rules:
            highest = min(highest, math.floor(rules["maximum"]))
        if "exclusiveMaximum" in rules:
            highest = min(highest, math.ceil(rules["exclusiveMaximum"]) - 1)
        if lowest > highest:
            raise BadContract(f"field {field.name}: no {field.type} lies between its minimum and its maximum.")
        # A whole multiple of p/q (in lowest terms) is a multiple of p.
        among = allowed_values(field)
        return cls(lowest, highest, step.numerator, among and _whole(among, scale))

    def allow(self, number: int) -> bool:
        return (
            self.lowest <= number <= self.highest
            and number % self.step == 0
            and (self.among is None or number in self.among)
        )


def _types(field: Field) -> tuple[str, ...]:
    if pa.types.is_integer(field.type):
        return ("integer",)
    whole = pa.types.is_decimal(field.type) and field.type.scale == 0
    return ("number", "string", "integer") if whole else ("number", "string")


def _whole(values: Iterable[Any], scale: int) -> frozenset[int]:
    numbers = (_fraction(v) * 10**scale for v in values if v is not None)
    return frozenset(int(n) for n in numbers if n.denominator == 1)


def _exact(field: Field, keyword: str) -> Fraction:
    value = field.rules[keyword]
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not _is_bounded(value):
        raise BadContract(f"field {field.name}: `{keyword}` is {value!r}; it must be a finite number.")
    return _fraction(value)


def _is_bounded(value: int | float | Decimal) -> bool:
    """Within what a double or a decimal of 38 digits can be: with an exponent of a billion no fraction is ever made."""
    number = Decimal(value)
    return number.is_finite() and abs(number.adjusted()) < 400


def _fraction(value: Any) -> Fraction:
    return Fraction(str(value))  # through its text: 0.01 means a hundredth, not the nearest binary fraction


def allowed_values(field: Field) -> frozenset[Any] | None:
    """What `enum` and `const` leave, or None where neither is given."""
    if "const" not in field.rules and "enum" not in field.rules:
        return None
    values = [field.rules["const"]] if "const" in field.rules else field.rules["enum"]
    kind = field.type
    numeric = pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind)
    for value in values:
        good = isinstance(value, int | float | Decimal) and _is_bounded(value) if numeric else isinstance(value, str)
        if isinstance(value, bool) or not (good or value is None):
            raise BadContract(f"field {field.name}: {value!r} in `enum` or `const` cannot be a {field.type}.")
    return frozenset(values)


def _is_length(value: object) -> bool:
    """
    >>> [_is_length(value) for value in (3, Decimal("3.0"), Decimal("3.5"), -1, True, "3")]
    [True, True, False, False, False, False]
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not _is_bounded(value):
        return False
    return value >= 0 and value == int(value)


@dataclass(frozen=True)
class Texts:
    """Which strings are allowed. Lengths are in characters, as JSON Schema counts them."""

    shortest: int
    longest: int | None
    pattern: str | None
    among: frozenset[str] | None

    @classmethod
    def of(cls, field: Field) -> Texts:
        require(field, ("string",), TEXT_KEYWORDS)
        rules = field.rules
        pattern, lengths = rules.get("pattern", ""), [rules.get(name, 0) for name in ("minLength", "maxLength")]
        if not isinstance(pattern, str):
            raise BadContract(f"field {field.name}: `pattern` is {pattern!r}; it must be a text.")
        if wrong := [length for length in lengths if not _is_length(length)]:
            raise BadContract(f"field {field.name}: a length of {wrong[0]!r} characters; it must be a whole number.")
        try:
            # RE2 is linear in the text, whatever the pattern; and its $ and \d mean what JSON Schema's mean.
            pc.match_substring_regex(pa.array([""]), pattern)
        except pa.ArrowInvalid as error:
            raise BadContract(
                f"field {field.name}: `pattern` is not a regular expression RE2 knows: {error}."
            ) from error
        longest = None if rules.get("maxLength") is None else int(lengths[1])
        return cls(int(lengths[0]), longest, rules.get("pattern"), allowed_values(field))

    def __str__(self) -> str:
        longest = "" if self.longest is None else f"to {self.longest} "
        parts = [f" of {self.shortest} {longest}characters" if self.shortest or longest else ""]
        parts += [f" matching {self.pattern}"] if self.pattern else []
        parts += [f" among {', '.join(sorted(map(str, self.among)))}"] if self.among is not None else []
        return "".join(parts)
