"""Texts of the log, which are in their column's character set, as the server sends them to a session of ours: UTF-8."""

from __future__ import annotations

import codecs
from collections.abc import Callable

_AS_IT_IS = {"", "binary", "ascii", "utf8", "utf8mb3", "utf8mb4"}
# Python's names of the character sets that have another one there.
_CODECS = {
    "latin1": "cp1252",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "sjis": "shift_jis",
    "ujis": "euc_jp",
    "eucjpms": "euc_jp",
    "euckr": "euc_kr",
    "tis620": "tis_620",
    "macroman": "mac_roman",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}


def as_utf8(character_set: str) -> Callable[[bytes], bytes] | None:
    """None: Python does not know the character set. The function raises ValueError for bytes that are no text.

    >>> as_utf8("latin1")(bytes([0xE9])).decode(), as_utf8("klingon")
    ('é', None)
    """
    if character_set in _AS_IT_IS:
        return lambda value: value
    codec = _CODECS.get(character_set, character_set)
    try:
        codecs.lookup(codec)
    except LookupError:
        return None
    return lambda value: value.decode(codec).encode()
