"""What msgspec does not check, seen in the bytes of many messages at once.

msgspec checks the JSON as strictly as we want it, but for three gaps: of a field given twice it keeps the last, it does
not look at the UTF-8 of what it skips, and how deep it follows what it skips depends on the stack. All three need more
members than the contract's own. So first the members are counted, generously: every one has a colon behind a quote or
behind white space, however its name is written. If they are as many as the fields found, the message holds these and
nothing else. Otherwise `clear` looks closer. Neither ever says that a message is bad.
"""

from __future__ import annotations

import re
import sys

import numpy as np
import pyarrow as pa

from pipeline.config.contracts import TopicContract
from pipeline.parse.strict import MAX_DEPTH
from pipeline.parse.texts import Bytes, ByteTexts, Integers, Mask, windows

_ESCAPED_NAME = re.compile(rb'\\[^"\\]*"\s*:')  # may also find an escape in a value: it must only miss none
_COLON, _QUOTE, _SPACE = b':" '
_BRACKETS = ord("{")  # also found for [, once the bit that makes letters small is set
_TAIL = 8  # bytes of a name's end that are compared, as one number


def members_at_most(values: pa.Array) -> Integers:
    """For each message a bound on its members at all levels."""
    data, starts = _bytes(values)
    return _count(_member_colons(data), starts)


class Gaps:
    """Knows the names of a contract's fields by their ends."""

    def __init__(self, contract: TopicContract) -> None:
        ends = [f'"{field.name}"'.encode()[-_TAIL:] for field in contract.fields]
        self._ends = [(_as_number(end), _as_number(b"\xff" * len(end))) for end in ends]

    def clear(self, values: pa.Array, messages: list[bytes], found: Integers) -> Mask:
        """Which messages surely hold each of the fields found once, besides what else is valid and may be ignored."""
        data, starts = _bytes(values)
        clear: Mask = self._named_at_most(data, starts) <= found
        clear &= _count(data | 0x20 == _BRACKETS, starts) <= MAX_DEPTH
        # Each message begins with an ASCII byte, so no message's bytes complete another's UTF-8.
        together = data.tobytes()
        for is_doubtful in (_may_hide_a_name, _is_not_utf8):
            if is_doubtful(together):
                clear[[i for i, message in enumerate(messages) if is_doubtful(message)]] = False
        return clear

    def _named_at_most(self, data: Bytes, starts: Integers) -> Integers:
        """For each message a bound on its members, at all levels, that are named like a field of the contract."""
        colons = _member_colons(data)
        at = np.flatnonzero(colons)
        name_ends = at - ((data[at - 1] == _SPACE) & (data[at - 2] == _QUOTE))  # `"name" :` is common
        named = data[name_ends - 1] != _QUOTE  # other white space: counted as a field's name, to be safe
        tails = windows(np.concatenate((np.zeros(_TAIL, np.uint8), data)), _TAIL)[name_ends].view(np.uint64)
        for end, mask in self._ends:
            named |= tails & mask == end
        colons[at[~named]] = False
        return _count(colons, starts)


def _bytes(values: pa.Array) -> tuple[Bytes, Integers]:
    """The bytes of all messages, none null or empty, and where each one starts."""
    texts = ByteTexts.of_array(values)
    first, last = texts.starts[0], texts.starts[-1] + texts.lengths[-1]
    return texts.data[first:last], texts.starts - first


def _member_colons(data: Bytes) -> Mask:
    colons = np.zeros(len(data), bool)
    colons[1:] = data[1:] == _COLON
    colons[1:] &= data[:-1] <= _QUOTE  # a quote or white space; the one other byte there is `!`
    return colons


def _count(flags: Mask, starts: Integers) -> Integers:
    counts: Integers = np.add.reduceat(flags, starts, dtype=np.int64)
    return counts


def _as_number(end: bytes) -> np.uint64:
    """The last bytes of eight, as numpy reads them."""
    return np.uint64(int.from_bytes(end.rjust(_TAIL, b"\0"), sys.byteorder))


def _may_hide_a_name(message: bytes) -> bool:
    return _ESCAPED_NAME.search(message) is not None


def _is_not_utf8(message: bytes) -> bool:
    try:
        message.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False
