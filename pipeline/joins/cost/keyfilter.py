"""A filter of all keys of R before `auto`: what it takes, and whether it spares clearly more than it costs.

It spares the look-ups of keys that are not there. It costs a pass over all keys of R, each time it is made, and what
less memory makes of the join behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline.joins.cost import auto
from pipeline.joins.cost.inlj import Batched
from pipeline.joins.cost.question import Question, Relation
from pipeline.joins.parts.keycodes import MOST_WORDS
from pipeline.joins.parts.keyfilter import KeyFilter

BEFORE = 10.0  # seconds in which changes are noted before the first key is read: see `Sieve`
READING = 10  # one part of so many of the time goes to reading keys, until all are read
LONGEST = 0.05  # seconds that one step of a join reads keys
_MOST = 2  # it takes one part of so many of the memory, at most
_AT_ONCE = 32  # one part of so many of the memory is for the keys of one read
_FEWEST = 1_000  # keys: a table that is empty today may grow
_SURELY = 2.0  # times what it costs it must spare before it is made


@dataclass(frozen=True)
class Seen:
    """Of the sales, lately."""

    sales: float  # a second
    absent: float  # share of them without a master row
    keys: float  # a second, that were asked for and are not there, or would have been asked for
    steps: float  # of the join, a second


NOTHING = Seen(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Size:
    keys: int  # of R
    read: int  # of them at once
    nbytes: int


def size(keys: int, question: Question[Batched]) -> Size | None:
    """None: there is no room. `question`: with the memory of the whole join."""
    keys = max(keys, _FEWEST)
    a_key = _key_bytes(question.R)
    read = int(max(1, min(question.memory // _AT_ONCE // a_key, question.caps.read)))
    nbytes = KeyFilter.bytes_for(keys) + int(read * a_key)
    left = replace(question, memory=question.memory - nbytes)
    fits = nbytes * _MOST <= question.memory and left.memory >= auto.least(left)
    return Size(keys, read, nbytes) if fits else None


def _key_bytes(R: Relation) -> float:
    """Of a key while it is read: as the server sent it, as columns, packed, and its code."""
    if R.words == MOST_WORDS:  # it may be longer than its code
        return R.row_bytes + 24
    return 4 * (8 * R.words + 8) + 8 * R.words


def is_worth_making(wanted: Size, seen: Seen, seconds: float, question: Question[Batched]) -> bool:
    """If it may hope to be good for so many seconds."""
    costs, caps = question.costs, question.caps
    reads = -(-wanted.keys // wanted.read)
    reading = max(reads * costs.scan.request + wanted.keys * costs.borders, caps.seconds(reads, wanted.keys))
    ready = BEFORE + max(READING * reading, reading / max(1e-9, LONGEST * seen.steps))
    spared = _spared(seen, question) * (seconds - ready)
    # The model is asked only where the reading alone leaves something.
    return spared >= _SURELY * reading and spared >= _SURELY * (reading + seconds * _lost(wanted, seen, question))


def is_worth_keeping(taken: Size, seen: Seen, question: Question[Batched]) -> bool:
    """The keys have been read already."""
    return _spared(seen, question) >= _lost(taken, seen, question)


def _spared(seen: Seen, question: Question[Batched]) -> float:
    """Of each second."""
    costs = question.costs
    a_key = costs.overlapped.item if question.connections > 1 else costs.lookup.item + costs.c_K
    return seen.keys * max(a_key, question.caps.seconds(1 / question.settings.batch, 0))


def _lost(size: Size, seen: Seen, question: Question[Batched]) -> float:
    """Of each second, for the sales that do have a row: fewer rows are kept, or fewer sales wait together."""
    have_a_row = 1 - min(1.0, seen.absent)
    if not have_a_row:
        return 0.0
    batch = max(1, round(question.stream.batch * have_a_row))
    present = replace(question, stream=replace(question.stream, batch=batch, absent=0.0))
    left = replace(present, memory=present.memory - size.nbytes)
    slower = 1 / auto.predict(left).mu - 1 / auto.predict(present).mu
    return seen.sales * have_a_row * max(0.0, slower)
