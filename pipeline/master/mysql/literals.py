"""Values as SQL, a whole column at a time.

No quote, backslash, NUL or SQL mode can change what a value means: text is written between quotes only if no byte of
the whole column needs care, and as a hexadecimal literal with its character set otherwise. A literal for a column of
another character set is converted to the column's, or the server would convert the column instead, and read the
whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import BadContract

BETWEEN_QUOTES = np.ones(256, bool)  # bytes that mean themselves there, in a connection of utf8mb4
BETWEEN_QUOTES[[*range(0x20), ord("'"), ord("\\"), 0x7F]] = False
_NUMBER = r"^-?[0-9]+(\.[0-9]+)?$"
_PLAIN = r"^[0-9A-Za-z :.+-]*$"  # moments, addresses, UUIDs


@dataclass(frozen=True)
class Part:
    """One column of an index as the server describes it."""

    name: str
    form: str  # number, string, binary, plain: how its values are written
    character_set: str = ""  # of the column; empty unless it is text
    collation: str = ""
    nullable: bool = False
    in_json: str = ""  # the type as which JSON brings such values; empty: it cannot

    def literals(self, values: pa.Array) -> pa.Array:
        """Each value as SQL: integers, or the bytes with which the server itself writes the value.

        >>> Part("n", "number").literals(pa.array([-7])).to_pylist()
        ['-7']
        >>> Part("code", "string", "utf8mb4", "utf8mb4_bin").literals(pa.array([b"ab"])).to_pylist()
        ["'ab'"]
        >>> Part("code", "string", "utf8mb4", "utf8mb4_bin").literals(pa.array([b"a'b", b"c"])).to_pylist()
        ["_utf8mb4 x'612762'", "_utf8mb4 x'63'"]
        >>> Part("code", "string", "latin1", "latin1_bin").literals(pa.array(["é"])).to_pylist()
        ["CONVERT(_utf8mb4 x'c3a9' USING latin1) COLLATE latin1_bin"]
        """
        if self.form in ("number", "plain"):
            texts = values.cast(pa.string())
            if not pa.types.is_integer(values.type):
                _need_form(texts, _NUMBER if self.form == "number" else _PLAIN, self.name)
            return texts if self.form == "number" else around("'", texts, "'")
        if self.form == "binary":
            return around("x'", _hexadecimal(values), "'")
        if self.character_set != "utf8mb4":
            # What the column's character set lacks becomes a question mark; the comparison of bytes rejects it later.
            tail = f"' USING {self.character_set}) COLLATE {self.collation}"
            return around("CONVERT(_utf8mb4 x'", _hexadecimal(values), tail)
        texts = values.cast(pa.string())
        if bool(BETWEEN_QUOTES[bytes_of(texts)[1]].all()):
            return around("'", texts, "'")
        return around("_utf8mb4 x'", _hexadecimal(texts), "'")


def listed(parts: Sequence[Part], columns: Sequence[pa.Array]) -> str:
    """The condition that a row has one of these keys; for keys of several columns by row constructors."""
    literals = [part.literals(values) for part, values in zip(parts, columns, strict=True)]
    names = [quoted(part.name) for part in parts]
    if len(literals) == 1:
        return f"{names[0]} IN ({joined(literals[0])})"
    rows = around("(", pc.binary_join_element_wise(*literals, ","), ")")
    return f"({','.join(names)}) IN ({joined(rows)})"


def quoted(identifier: str) -> str:
    """An identifier between backticks.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + identifier.replace("`", "``") + "`"


def text(value: str) -> str:
    """A string as SQL, whatever it holds."""
    return f"_utf8mb4 x'{value.encode().hex()}'"


def around(before: str, values: pa.Array, after: str) -> pa.Array:
    """Each value between these."""
    return pc.binary_join_element_wise(before, values, after, "")


def joined(values: pa.Array) -> str:
    """All of them, with commas between."""
    every = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return str(pc.binary_join(every, ",")[0].as_py())


def _hexadecimal(values: pa.Array) -> pa.Array:
    offsets, data = bytes_of(values)
    digits = pa.py_buffer(data.tobytes().hex().encode())
    return pa.Array.from_buffers(pa.string(), len(values), [None, pa.py_buffer((2 * offsets).astype(np.int32)), digits])


def bytes_of(values: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Where each value ends, from 0 on, and all their bytes."""
    values = values.cast(pa.binary())
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, 4 * values.offset)
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], data


def _need_form(values: pa.Array, form: str, column: str) -> None:
    wrong = values.filter(pc.invert(pc.match_substring_regex(values, form)))
    if len(wrong):
        raise BadContract(f"column {column}: the value {wrong[0].as_py()!r} cannot be written as SQL.")
