"""Memory by its address, for the compiled loops: loads, stores, and sixteen bytes looked at together.

Nothing here knows where a buffer ends: who calls it does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from pipeline.compiling import numba

_long, _ulong, _double = numba.types.int64, numba.types.uint64, numba.types.float64
_I1, _I64, _I128 = ir.IntType(1), ir.IntType(64), ir.IntType(128)
_SIXTEEN = ir.VectorType(ir.IntType(8), 16)


def _of(result: Any, *given: Any) -> Callable[[Callable[..., Any]], Callable[..., int]]:
    """An instruction for the compiled loops: a function that writes its code, given builder and operands."""

    def make(write: Callable[..., Any]) -> Callable[..., int]:
        def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
            written = write(builder, *operands)
            return context.get_dummy_value() if written is None else written

        def one(context: Any, a: Any) -> Any:
            return result(*given), generate

        def two(context: Any, a: Any, b: Any) -> Any:
            return result(*given), generate

        made: Callable[..., int] = numba.extending.intrinsic((one, two)[len(given) - 1])
        return made

    return make


_of_other: Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]] = _of  # what is no int to Python


def _load(builder: Any, at: Any, kind: Any) -> Any:
    return builder.load(builder.inttoptr(at, kind.as_pointer()), align=1, typ=kind)


def _store(builder: Any, value: Any, at: Any) -> None:
    builder.store(value, builder.inttoptr(at, value.type.as_pointer()), align=1)


def _all(byte: int) -> Any:
    return ir.Constant(_SIXTEEN, [byte] * 16)


def _mask(builder: Any, flags: Any) -> Any:
    return builder.zext(builder.bitcast(flags, ir.IntType(16)), _I64)


@_of(_long, _long)
def byte_at(builder: Any, at: Any) -> Any:
    return builder.zext(_load(builder, at, ir.IntType(8)), _I64)


@_of(_long, _long)
def int_at(builder: Any, at: Any) -> Any:
    return builder.sext(_load(builder, at, ir.IntType(32)), _I64)


@_of(_long, _long)
def long_at(builder: Any, at: Any) -> Any:
    return _load(builder, at, _I64)


@_of_other(_double, _long)
def double_at(builder: Any, at: Any) -> Any:
    return _load(builder, at, ir.DoubleType())


@_of(numba.types.void, _long, _long)
def put_byte(builder: Any, at: Any, value: Any) -> None:
    _store(builder, builder.trunc(value, ir.IntType(8)), at)


@_of(numba.types.void, _long, _long)
def put_int(builder: Any, at: Any, value: Any) -> None:
    _store(builder, builder.trunc(value, ir.IntType(32)), at)


@_of(numba.types.void, _long, _long)
def put_long(builder: Any, at: Any, value: Any) -> None:
    _store(builder, value, at)


@_of(numba.types.void, _long, _double)
def put_double(builder: Any, at: Any, value: Any) -> None:
    _store(builder, value, at)


@_of_other(_double, _ulong)
def as_double(builder: Any, bits: Any) -> Any:
    return builder.bitcast(bits, ir.DoubleType())


@_of(_long, _ulong)
def signed(builder: Any, number: Any) -> Any:
    """The same 64 bits."""
    return number


@_of(_long, _long)
def special(builder: Any, at: Any) -> Any:
    """A bit for each of sixteen bytes: is it a quote, a backslash, a control character or not ASCII?"""
    return _special(builder, _load(builder, at, _SIXTEEN))


@_of(_long, _long, _long)
def copied(builder: Any, to: Any, at: Any) -> Any:
    """Copy sixteen bytes; the same bits of them."""
    sixteen = _load(builder, at, _SIXTEEN)
    _store(builder, sixteen, to)
    return _special(builder, sixteen)


def _special(builder: Any, sixteen: Any) -> Any:
    quote = builder.icmp_unsigned("==", sixteen, _all(ord('"')))
    backslash = builder.icmp_unsigned("==", sixteen, _all(ord("\\")))
    beyond = builder.icmp_signed("<", sixteen, _all(0x20))  # what is not ASCII is negative
    return _mask(builder, builder.or_(builder.or_(quote, backslash), beyond))


@_of(_long, _long, _long)
def differing(builder: Any, one: Any, other: Any) -> Any:
    """A bit for each of sixteen bytes that are not alike."""
    pair = _load(builder, one, _SIXTEEN), _load(builder, other, _SIXTEEN)
    return _mask(builder, builder.icmp_unsigned("!=", *pair))


@_of(_long, _long)
def lowest_bit(builder: Any, mask: Any) -> Any:
    return builder.cttz(mask, ir.Constant(_I1, 1))


@_of(_long, _ulong)
def zeros_before(builder: Any, number: Any) -> Any:
    """Zero bits before the first one of a number that is not 0."""
    return builder.ctlz(number, ir.Constant(_I1, 1))


@_of_other(_ulong, _ulong, _ulong)
def upper_half(builder: Any, one: Any, other: Any) -> Any:
    """The upper 64 bits of a product of 128."""
    product = builder.mul(builder.zext(one, _I128), builder.zext(other, _I128))
    return builder.trunc(builder.lshr(product, ir.Constant(_I128, 64)), _I64)
