"""The joins' inner loops, compiled: hash tables and chains of waiting sales, one key after the other.

Array operations have no word for "go on to the next in the chain": without compiled loops a probe passes over all
waiting sales, whatever it finds. The compiled code is kept beside this file, or where `NUMBA_CACHE_DIR` says, or else
in a folder of this user's own. It is made for any processor of the kind, so that an image can bring it along: to import
this module makes it, which takes some seconds the first time.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

os.environ.setdefault("NUMBA_CPU_NAME", "generic")
if "NUMBA_CACHE_DIR" not in os.environ and not os.access(Path(__file__).parent, os.W_OK):
    _own = Path(tempfile.gettempdir()) / f"millrace-kernels-{os.getuid()}"
    _own.mkdir(mode=0o700, exist_ok=True)
    # What lies there is run: it must be a folder of ours, closed to others.
    if _own.lstat().st_uid == os.getuid() and stat.S_IMODE(_own.lstat().st_mode) == 0o700:
        os.environ["NUMBA_CACHE_DIR"] = str(_own)

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

_ODD = np.array([0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xC2B2AE3D27D4EB4F], np.uint64)
_HALF = np.uint64(32)

_Codes = numba.types.Array(numba.uint64, 2, "C", readonly=True)  # of Arrow's memory, if keys are integers
_Kept = numba.types.Array(numba.uint64, 2, "C")
_Ints = numba.types.Array(numba.int32, 1, "C")
_Numbers = numba.types.Array(numba.int32, 1, "C", readonly=True)
_Places = numba.types.Array(numba.int64, 1, "C", readonly=True)
_Longs = numba.types.Array(numba.int64, 1, "C")
_Flags = numba.types.Array(numba.boolean, 1, "C")
_int = numba.int64


def _compiled(signature: Any, inline: Literal["never", "always"] = "never") -> Callable[[F], F]:
    compiled: Callable[[F], F] = numba.njit(signature, cache=True, nogil=True, inline=inline)
    return compiled


@_compiled(_int(_Codes, _int, _int), inline="always")
def _bucket(codes: Any, row: int, buckets: int) -> Any:
    """A key's place in a table of any size."""
    mixed = codes[row, 0] * _ODD[0]
    for word in range(1, codes.shape[1]):
        mixed ^= mixed >> _HALF
        mixed += codes[row, word]
        mixed *= _ODD[word % 3]
    mixed ^= mixed >> _HALF
    mixed *= _ODD[1]
    return np.int64(((mixed >> _HALF) * np.uint64(buckets)) >> _HALF)


@_compiled(numba.int32(_Codes, _int, _Codes, _Numbers, _Numbers), inline="always")
def _slot(codes: Any, row: int, kept: Any, first: Any, after: Any) -> Any:
    slot = first[_bucket(codes, row, len(first))]
    while slot >= 0:
        word = 0
        while word < codes.shape[1] and kept[slot, word] == codes[row, word]:
            word += 1
        if word == codes.shape[1]:
            break
        slot = after[slot]
    return slot


@_compiled(_Ints(_Codes, _Codes, _Numbers, _Numbers))
def find(codes: Any, kept: Any, first: Any, after: Any) -> Any:
    """The slot of each key, or -1. `first`: the slot at the head of each bucket's chain, `after`: the next in it."""
    slots = np.empty(len(codes), np.int32)
    for row in range(len(codes)):
        slots[row] = _slot(codes, row, kept, first, after)
    return slots


@_compiled(_Ints(_Codes, _Kept, _Ints, _Ints, _Flags, _Ints))
def add(codes: Any, kept: Any, first: Any, after: Any, used: Any, free: Any) -> Any:
    """The same, with a slot for new keys; -2 where none was left.

    `free`: the first slot without a key, and how many there are; `after` leads to the others.
    """
    slots = np.empty(len(codes), np.int32)
    for row in range(len(codes)):
        slot = _slot(codes, row, kept, first, after)
        if slot < 0:
            slot = free[0]
            if slot < 0:
                slots[row] = -2
                continue
            free[0], free[1] = after[slot], free[1] - 1
            for word in range(codes.shape[1]):
                kept[slot, word] = codes[row, word]
            bucket = _bucket(codes, row, len(first))
            after[slot], first[bucket] = first[bucket], slot
            used[slot] = True
        slots[row] = slot
    return slots


@_compiled(numba.void(_Numbers, _Codes, _Ints, _Ints, _Flags, _Ints))
def remove(slots: Any, kept: Any, first: Any, after: Any, used: Any, free: Any) -> None:
    """Forget the keys of these (distinct) slots."""
    for slot in slots:
        bucket = _bucket(kept, slot, len(first))
        here = first[bucket]
        if here == slot:
            first[bucket] = after[slot]
        else:
            while after[here] != slot:
                here = after[here]
            after[here] = after[slot]
        used[slot] = False
        after[slot], free[0], free[1] = free[0], slot, free[1] + 1


@_compiled(numba.void(_Numbers, _int, _Ints, _Ints, _Ints, _Ints))
def enqueue(slots: Any, end: int, slot: Any, earlier: Any, newest: Any, uses: Any) -> None:
    """Sales with the keys of these slots take the places from `end` on.

    `earlier`: the place before with the same key.
    """
    for number in range(len(slots)):
        key, place = slots[number], end + number
        slot[place], earlier[place], newest[key] = key, newest[key], place
        uses[key] += 1


@_compiled(_int(_Numbers, _Numbers, _Ints, _Ints, _Ints, _Longs, _Ints))
def pairs(slots: Any, rows: Any, slot: Any, earlier: Any, newest: Any, places: Any, numbers: Any) -> Any:
    """Every sale with one of these keys, and the row's number; how many there are.

    Places that are gone leave the chain.
    """
    found = 0
    for number in range(len(slots)):
        key = slots[number]
        place, before = newest[key], -1
        while place >= 0:
            if slot[place] == key:
                places[found], numbers[found] = place, rows[number]
                found += 1
                before = place
            elif before < 0:
                newest[key] = earlier[place]
            else:
                earlier[before] = earlier[place]
            place = earlier[place]
    return found


@_compiled(_int(_Places, _int, _Ints, _Ints, _Ints, _Ints))
def leave(places: Any, gone: int, slot: Any, newest: Any, uses: Any, last: Any) -> Any:
    """These (distinct) places are free; the keys that no sale has any more, in `last`, and their number."""
    count = 0
    for place in places:
        key = slot[place]
        slot[place] = gone
        uses[key] -= 1
        if not uses[key]:
            newest[key] = -1
            last[count] = key
            count += 1
    return count


@_compiled(_int(_int, _int, _int, _Longs, _Ints, _Ints, _Ints, _Flags))
def close_up(begin: int, end: int, gone: int, positions: Any, slot: Any, earlier: Any, newest: Any, met: Any) -> Any:
    """Move the sales to the first places, in their order, their chains with them; how many there are."""
    count = 0
    for place in range(begin, end):
        if slot[place] != gone:
            newest[slot[place]] = -1
    for place in range(begin, end):
        key = slot[place]
        if key != gone:
            positions[count], slot[count] = positions[place], key
            earlier[count], newest[key] = newest[key], count
            if len(met):
                met[count] = met[place]
            count += 1
    for place in range(count, end):
        slot[place] = gone
        if len(met):
            met[place] = False
    return count


@_compiled(_int(_int, _int, _int, _Numbers, _Longs))
def oldest(begin: int, end: int, gone: int, slot: Any, places: Any) -> Any:
    """The first places that are not gone, as many as `places` takes; how many there are."""
    count = 0
    for place in range(begin, end):
        if count == len(places):
            break
        if slot[place] != gone:
            places[count] = place
            count += 1
    return count


@_compiled(numba.void(_Numbers, _Numbers, _Ints, _Ints, _Ints, _Ints))
def put(keys: Any, pages: Any, page_of: Any, first: Any, before: Any, after: Any) -> None:
    """Each of these keys onto its page, off another one if it was there; page -1: on none."""
    for number in range(len(keys)):
        key, page, old = keys[number], pages[number], page_of[keys[number]]
        if old >= 0:
            if before[key] >= 0:
                after[before[key]] = after[key]
            else:
                first[old] = after[key]
            if after[key] >= 0:
                before[after[key]] = before[key]
        page_of[key] = page
        if page >= 0:
            before[key], after[key] = -1, first[page]
            if first[page] >= 0:
                before[first[page]] = key
            first[page] = key


@_compiled(_Ints(_int, _Numbers))
def chain(key: int, after: Any) -> Any:
    """This key and all behind it."""
    count, here = 0, key
    while here >= 0:
        count, here = count + 1, after[here]
    keys = np.empty(count, np.int32)
    for number in range(count):
        keys[number], key = key, after[key]
    return keys
