"""The joins' inner loops, compiled: hash tables and chains of waiting sales, one key after the other.

Array operations have no word for "go on to the next in the chain": without compiled loops a probe passes over all
waiting sales, whatever it finds. To import this module compiles it, which takes some seconds the first time. What was
compiled is kept beside this file, and serves every processor of the kind; an image brings it along in `compiled/`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.compiling import compiled, numba, part
from pipeline.joins.parts.demand_loops import wanted as wanted
from pipeline.joins.parts.demand_loops import wanted_by as wanted_by
from pipeline.joins.parts.demand_loops import wanted_no_more as wanted_no_more
from pipeline.joins.parts.demand_loops import worth_most as worth_most
from pipeline.joins.parts.filter_loops import mark as mark
from pipeline.joins.parts.filter_loops import marked as marked
from pipeline.joins.parts.mixing import mixed
from pipeline.joins.parts.sketch_loops import halve as halve
from pipeline.joins.parts.sketch_loops import recall as recall
from pipeline.joins.parts.sketch_loops import remember as remember

_HALF = np.uint64(32)

_Codes = numba.types.Array(numba.uint64, 2, "C", readonly=True)  # of Arrow's memory, if keys are integers
_Kept = numba.types.Array(numba.uint64, 2, "C")
_Ints = numba.types.Array(numba.int32, 1, "C")
_Numbers = numba.types.Array(numba.int32, 1, "C", readonly=True)
_Places = numba.types.Array(numba.int64, 1, "C", readonly=True)
_Longs = numba.types.Array(numba.int64, 1, "C")
_Flags = numba.types.Array(numba.boolean, 1, "C")
_Pair = numba.types.UniTuple(_Ints, 2)  # type: ignore[no-untyped-call]
_int = numba.int64


@part
def _bucket(codes: Any, row: Any, buckets: Any) -> Any:
    """A key's place in a table of any size."""
    return ((mixed(codes, row) >> _HALF) * buckets) >> _HALF


@part
def _buckets(codes: Any, first: Any) -> Any:
    """The bucket of each key, in an array that will have its slot."""
    slots, buckets = np.empty(len(codes), np.int32), np.uint64(len(first))
    for row in range(len(codes)):
        slots[row] = _bucket(codes, np.uint64(row), buckets)
    return slots


# The loop through a chain stands in `find` and in `add`: as a part of its own it would count, for each key, the uses of
# its arrays, which takes longer than the loop.


@compiled(_Ints(_Codes, _Codes, _Numbers, _Numbers))
def find(codes: Any, kept: Any, first: Any, after: Any) -> Any:
    """The slot of each key, or -1. `first`: the slot at the head of each bucket's chain, `after`: the next in it."""
    slots, words = _buckets(codes, first), codes.shape[1]
    # In passes, so that the memory's answers come while others are asked for: the shorter a pass, the more of them.
    for row in range(len(codes)):
        slots[row] = first[np.uint64(slots[row])]
    for row in range(len(codes)):
        slot = slots[row]
        while slot >= 0:
            word = 0
            while word < words and kept[np.uint64(slot), np.uint64(word)] == codes[np.uint64(row), np.uint64(word)]:
                word += 1
            if word == words:
                break
            slot = after[np.uint64(slot)]
        slots[row] = slot
    return slots


@compiled(_Ints(_Codes, _Kept, _Ints, _Ints, _Flags, _Ints))
def add(codes: Any, kept: Any, first: Any, after: Any, used: Any, free: Any) -> Any:
    """The same, with a slot for new keys; -2 where none was left.

    `free`: the first slot without a key, and how many there are; `after` leads to the others.
    """
    slots, words = _buckets(codes, first), codes.shape[1]
    for row in range(len(codes)):
        bucket = np.uint64(slots[row])
        slot = first[bucket]
        while slot >= 0:
            word = 0
            while word < words and kept[np.uint64(slot), np.uint64(word)] == codes[np.uint64(row), np.uint64(word)]:
                word += 1
            if word == words:
                break
            slot = after[np.uint64(slot)]
        if slot < 0:
            slot = free[0]
            if slot < 0:
                slots[row] = -2
                continue
            free[0], free[1] = after[slot], free[1] - 1
            for word in range(words):
                kept[slot, word] = codes[row, word]
            after[slot], first[bucket] = first[bucket], slot
            used[slot] = True
        slots[row] = slot
    return slots


@compiled(numba.void(_Numbers, _Codes, _Ints, _Ints, _Flags, _Ints))
def remove(slots: Any, kept: Any, first: Any, after: Any, used: Any, free: Any) -> None:
    """Forget the keys of these (distinct) slots."""
    for slot in slots:
        bucket = _bucket(kept, np.uint64(slot), np.uint64(len(first)))
        here = first[bucket]
        if here == slot:
            first[bucket] = after[slot]
        else:
            while after[here] != slot:
                here = after[here]
            after[here] = after[slot]
        used[slot] = False
        after[slot], free[0], free[1] = free[0], slot, free[1] + 1


@compiled(numba.void(_Numbers, _int, _Ints, _Ints, _Ints, _Ints))
def enqueue(slots: Any, end: int, slot: Any, earlier: Any, newest: Any, uses: Any) -> None:
    """Sales with the keys of these slots take the places from `end` on.

    `earlier`: the place before with the same key.
    """
    for number in range(len(slots)):
        key, place = slots[number], end + number
        slot[place], earlier[place], newest[key] = key, newest[key], place
        uses[key] += 1


@compiled(_int(_Numbers, _Numbers, _Ints, _Ints, _Ints, _Longs, _Ints))
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


@compiled(_int(_Places, _int, _Ints, _Ints, _Ints, _Ints))
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


@compiled(_int(_int, _int, _int, _Longs, _Ints, _Ints, _Ints, _Flags))
def close_up(begin: int, end: int, gone: int, positions: Any, slot: Any, earlier: Any, newest: Any, met: Any) -> Any:
    """Move the sales to the first places, in their order, their chains with them; how many there are.

    A key's newest place is where it was, and no earlier than the sale in hand, until its first sale has moved. Places
    that are gone move too, and are written over: to leave them out is to guess wrong at every fourth.
    """
    count = 0
    for place in range(begin, end):
        key = slot[place]
        before = newest[key]
        positions[count], slot[count] = positions[place], key
        earlier[count], newest[key] = before if before < place else -1, count
        if len(met):
            met[count] = met[place]
        count += key != gone
    for place in range(count, end):
        slot[place] = gone
        if len(met):
            met[place] = False
    return count


@compiled(_int(_int, _int, _int, _Numbers, _Longs))
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


@compiled(numba.void(_Numbers, _Numbers, _Ints, _Ints, _Ints, _Ints))
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


@compiled(_Ints(_int, _Numbers))
def chain(key: int, after: Any) -> Any:
    """This key and all behind it."""
    count, here = 0, key
    while here >= 0:
        count, here = count + 1, after[here]
    keys = np.empty(count, np.int32)
    for number in range(count):
        keys[number], key = key, after[key]
    return keys


@compiled(_Pair(_Numbers, _Numbers))
def every_chain(first: Any, after: Any) -> Any:
    """All that is in a chain, and whose chain it is in; what stands in two comes twice. For those who check."""
    members, owners = np.empty(2 * len(after), np.int32), np.empty(2 * len(after), np.int32)
    count = 0
    for owner in range(len(first)):
        here = first[owner]
        while here >= 0 and count < len(members):
            members[count], owners[count] = here, owner
            count, here = count + 1, after[here]
    return members[:count].copy(), owners[:count].copy()
