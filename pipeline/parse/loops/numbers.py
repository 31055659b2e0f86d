"""Numbers in JSON, in compiled loops: whole ones, decimals of up to 128 bits, doubles to the nearest one.

A double is its digits as a whole number times a power of ten. Where both are exact as doubles, one multiplication or
division rounds once, and rightly so. Otherwise the number's first 64 bits are multiplied by the first 128 of the power
(Lemire, "Number parsing at a gigabyte per second", 2021): nearly always the product's upper bits are beyond doubt.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.compiling import piece
from pipeline.parse.loops.layout import UNSURE
from pipeline.parse.loops.memory import as_double, byte_at, signed, upper_half, zeros_before
from pipeline.parse.loops.texts import ZERO

_MINUS, _POINT, _E = ord("-"), ord("."), ord("e")
_NONE, _ONE, _TEN = np.uint64(0), np.uint64(1), np.uint64(10)
MOST_DIGITS = 19  # that fit 64 bits whatever they are
_TWENTY_DIGITS = np.uint64(10**19)
TENS = np.array([10**power for power in range(MOST_DIGITS + 1)], np.uint64)

_EXACT = 22  # the greatest power of ten that is a double
_EXACT_POWERS = np.array([float(10**power) for power in range(_EXACT + 1)])
_EXACT_WHOLE = np.uint64(1 << 53)
_LEAST_POWER, _MOST_POWER = -342, 308
_DIVISIBLE = -27  # 5 ** 27 is the greatest power of five in 64 bits


def _powers() -> Any:
    """The first 128 bits of each power of five, in two halves.

    They are rounded down; up are those fractions by which a number may be divisible, so that it is seen to be.
    """
    halves = []
    for power in range(_LEAST_POWER, _MOST_POWER + 1):
        five = 5 ** abs(power)
        if power >= 0:
            number = five << 128 >> five.bit_length()
        else:
            number = (1 << five.bit_length() + 127) // five + (power >= _DIVISIBLE)
        halves.append((number >> 64, number & (1 << 64) - 1))
    return np.array(halves, np.uint64)


_FIVES = _powers()


@piece
def digits(at: int, end: int, before: Any) -> tuple[Any, int]:
    """The digits from here on, behind those of another number; and the place behind them."""
    while at < end:
        digit = byte_at(at) - ZERO
        if digit < 0 or digit > 9:
            break
        before = before * _TEN + np.uint64(digit)
        at += 1
    return before, at


@piece
def whole(at: int, end: int) -> tuple[Any, int]:
    """A number without sign, point and exponent, and the place behind it; `UNSURE` if it has no place in 64 bits."""
    number, after = digits(at, end, _NONE)
    count = after - at
    if count == 0 or (count > 1 and byte_at(at) == ZERO) or count > 20:
        return number, UNSURE
    # Of twenty digits those fit that begin with 1, unless they have run over.
    if count == 20 and (byte_at(at) != ZERO + 1 or number < _TWENTY_DIGITS):
        return number, UNSURE
    return number, after


@piece
def integer(at: int, end: int) -> tuple[int, int]:
    """A number of 64 bits with its sign, and the place behind it."""
    minus = at < end and byte_at(at) == _MINUS
    number, after = whole(at + minus, end)
    if number > np.uint64((1 << 63) - 1):
        return 0, UNSURE
    return (-signed(number) if minus else signed(number)), after


@piece
def decimal(at: int, end: int, scale: int) -> tuple[int, Any, int]:
    """A number without exponent in units of 10 ** -scale: upper and lower half, and the place behind it."""
    minus = at < end and byte_at(at) == _MINUS
    number, after = whole(at + minus, end)
    if after < 0:
        return 0, number, UNSURE
    fraction, kept = _NONE, 0
    if after < end and byte_at(after) == _POINT:
        first = after + 1
        fraction, after = digits(first, min(end, first + scale), _NONE)
        kept = after - first
        while after < end and byte_at(after) == ZERO:
            after += 1
        if after == first:
            return 0, number, UNSURE
    lower = fraction * TENS[scale - kept]
    upper = signed(upper_half(number, TENS[scale]))
    if upper >= 1 << 62 or upper < 0:
        return 0, lower, UNSURE
    lower += number * TENS[scale]
    upper += lower < fraction * TENS[scale - kept]
    if minus:
        lower = ~lower + _ONE
        upper = ~upper + (lower == _NONE)
    return upper, lower, after


@piece
def double(at: int, end: int) -> tuple[float, int]:
    """The double nearest to a number, and the place behind it."""
    minus = at < end and byte_at(at) == _MINUS
    at += minus
    number, after = digits(at, end, _NONE)
    count, power = after - at, 0
    if count == 0 or (count > 1 and byte_at(at) == ZERO):
        return 0.0, UNSURE
    if after < end and byte_at(after) == _POINT:
        first = after + 1
        number, after = digits(first, end, number)
        power = first - after
        if power == 0:
            return 0.0, UNSURE
        count -= power
    if count > MOST_DIGITS and count - _zeros(at, after) > MOST_DIGITS:
        return 0.0, UNSURE
    if after < end and byte_at(after) | 0x20 == _E:
        more, after = _exponent(after + 1, end)
        if after < 0:
            return 0.0, UNSURE
        power += more
    magnitude = _nearest(number, power)
    if magnitude < 0:
        return 0.0, UNSURE
    return (0.0 - magnitude if minus else magnitude), after


@piece
def _zeros(at: int, end: int) -> int:
    """How many zeros a number begins with."""
    count = 0
    while at < end and (byte_at(at) == ZERO or byte_at(at) == _POINT):
        count += byte_at(at) == ZERO
        at += 1
    return count


@piece
def _exponent(at: int, end: int) -> tuple[int, int]:
    minus = at < end and byte_at(at) == _MINUS
    at += at < end and (minus or byte_at(at) == ord("+"))
    number, after = digits(at, end, _NONE)
    if after == at or after - at > 4:
        return 0, UNSURE
    return (-signed(number) if minus else signed(number)), after


@piece
def _nearest(number: Any, power: int) -> Any:
    """The double nearest to number * 10 ** power; -1 where it is beyond doubles, very small, or in doubt."""
    if number == _NONE:
        return 0.0
    if number <= _EXACT_WHOLE and -_EXACT <= power <= _EXACT:
        exact = np.float64(signed(number))
        return exact / _EXACT_POWERS[-power] if power < 0 else exact * _EXACT_POWERS[power]
    if power < _LEAST_POWER or power > _MOST_POWER:
        return -1.0
    zeros = zeros_before(number)
    number <<= np.uint64(zeros)
    row = power - _LEAST_POWER
    upper, lower = upper_half(number, _FIVES[row, 0]), number * _FIVES[row, 0]
    below = np.uint64(0x1FF)  # the bits that rounding looks at
    if upper & below == below:
        more = upper_half(number, _FIVES[row, 1])
        lower += more
        upper += np.uint64(lower < more)
        if lower == ~_NONE:
            return -1.0
    top = upper >> np.uint64(63)
    shift = top + np.uint64(9)
    bits = upper >> shift  # 53 and one to round by
    exponent = (217_706 * power >> 16) + 63 + signed(top) - zeros + 1023
    if exponent <= 0:
        return -1.0
    # Halfway between two doubles is only what these powers make; it goes to the even one.
    if lower <= _ONE and -4 <= power <= 23 and bits & np.uint64(3) == _ONE and bits << shift == upper:
        bits &= ~_ONE
    bits = (bits + (bits & _ONE)) >> _ONE
    if bits >> np.uint64(53):
        bits, exponent = _EXACT_WHOLE >> _ONE, exponent + 1
    if exponent >= 2047:
        return -1.0
    return as_double(bits & ((_EXACT_WHOLE >> _ONE) - _ONE) | np.uint64(exponent) << np.uint64(52))
