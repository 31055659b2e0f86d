"""A second memory before a join: which keys there are at all. Who is not among them is absent, and nobody is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.errors import BadContract
from pipeline.joins.algorithm import Served, Workplace
from pipeline.joins.cost import keyfilter as cost
from pipeline.joins.cost.question import Question
from pipeline.joins.parts.kept import index_of
from pipeline.joins.parts.keycodes import Codes
from pipeline.joins.parts.keyfilter import KeyFilter

NEVER = math.inf  # seconds since all changes were told, where nobody tells them

_LOOK = 10.0  # seconds of sales by which it is judged
_PATIENCE = 60.0  # seconds that memory is kept for a filter that cannot be filled
_TOO_FULL = 1.5  # times the keys that were expected


class Stage(Enum):
    NONE = "there is no filter"
    LISTENING = "changes are noted, and no key is read yet"
    READING = "keys are read"
    COMPLETE = "it answers"


class Sieve:
    """
    Idea
        A Bloom filter of all keys of R. It is filled by reading R's keys from their index, a slice now and then, and
        kept true by the feed: a key that is told as changed is noted, and so asked for. A key that it does not have is
        absent.

        That is certain. Until when the feed has told all comes with each batch's news. Of a sale that was sent later it
        is not known what was there then: the master is asked for its key (`Join.offer`), and for all keys when that was
        longer ago than `absent_staleness`. A key that was told since changes are noted, is noted. One that was told
        before had been logged ten seconds before the first slice was read, or more: then others can read it, even if
        the server committed it late, or is a replica of it that lags. So a slice has it, or it has gone, which is told.

        What no feed can see is bounded by `max_staleness`, as with rows: it is made anew that long after its first
        slice. Where the feed names no keys, or a worker has missed some, it begins anew at once. Keys that go stay
        noted, which costs questions and no answer; with half as many new ones as it was made for it is made anew.

        There is one where it spares more than it costs, as the sales, and the feed, have been until now.

    Memory
        Ten bits for each key of R and a slice of keys, half of the join's memory at most. The algorithm has the rest:
        it is made anew when that changes, and what it kept is read again.
    """

    def __init__(self, workplace: Workplace) -> None:
        self._master, self._coder, self._clock = workplace.master, workplace.coder, workplace.clock
        self._life, self._absent_life = workplace.max_staleness, workplace.absent_staleness
        self._statistics = workplace.statistics
        self._keys = workplace.question.R.R_t  # of R, as far as is known
        self._most_counted = workplace.question.offer
        self.stage = Stage.NONE
        self.taken: cost.Size | None = None
        self.wanted: cost.Size | None = None
        self._filter: KeyFilter | None = None
        now = self._clock()
        self._told_at = -NEVER  # all changes before were told
        self._named_since = now  # the feed has named the keys of all changes
        self._since = now  # this stage
        self._began = now  # reading
        self._good_at = now  # it was made, or complete
        self._behind: Any = None  # the key that was read last
        self._spent = 0.0  # seconds of reading
        self._is_unreadable = False
        self._seen = cost.NOTHING
        self._looked_at, self._before = now, replace(self._statistics)
        self._asked_in_vain = self._absent_in_vain = 0  # keys, and their sales
        self._asked_of_absent = 1.0  # keys that had to be asked for, of an absent sale

    def informed(self, ago: float, question: Question[Any]) -> None:
        """A batch begins; all changes up to so many seconds ago have been told. What is `wanted` may be another size
        then. `question`: what the whole join is asked now."""
        now = self._clock()
        self._told_at = now - ago
        has_looked = self._look(now)
        if ago == NEVER or self._is_unreadable:
            self._end()
        elif self.stage is Stage.NONE:
            if has_looked and self._is_up_to_date:
                self.wanted = self._worth_making(now, question)
        elif self._is_too_full(now):
            self._end()
        elif self.stage is Stage.LISTENING:
            if has_looked and now - self._since >= cost.BEFORE:
                self._begin_or_give_up(now, question)
        elif now - self._began >= self._life:
            self._listen(now)
        elif self.stage is Stage.COMPLETE:
            self._good_at = now
            if has_looked and self.taken and not cost.is_worth_keeping(self.taken, self._seen, question):
                self._end()

    def make(self) -> None:
        """Take the bytes that are wanted, or give them back."""
        self.taken = self.wanted
        self._filter = KeyFilter(self.taken.keys) if self.taken else None
        if self.taken:
            self._good_at = self._clock()
            self._listen(self._clock())

    def left_of(self, question: Question[Any]) -> Question[Any]:
        """What the algorithm behind it is asked."""
        if self.taken is None:
            return question
        return replace(
            question, memory=question.memory - self.taken.nbytes, stream=replace(question.stream, absent=0.0)
        )

    @property
    def answers(self) -> bool:
        return self.stage is Stage.COMPLETE and self._is_up_to_date and self._clock() - self._began < self._life

    def has(self, codes: Codes) -> npt.NDArray[np.bool_]:
        """False: R has no such key."""
        assert self._filter is not None
        return self._filter.has(codes)

    def forget(self, codes: Codes) -> None:
        """These have changed: from now on they are asked for."""
        if self._filter is not None:
            self._filter.note(codes)

    def clear(self) -> None:
        """Any may have changed."""
        self._named_since = self._clock()
        if self._filter is not None:
            self._listen(self._named_since)

    def note(self, served: Sequence[Served]) -> None:
        """What the algorithm has served: how many keys were asked for in vain."""
        for piece in served if self._told_at > -NEVER else ():
            if piece.absent_keys is not None and len(piece.absent_keys):
                self._asked_in_vain += len(index_of(piece.absent_keys[: self._most_counted]))
                self._absent_in_vain += len(piece.absent_keys)

    def read(self) -> None:
        """Read some keys, if that is what is to be done now."""
        took = 0.0
        while self.stage is Stage.READING and took < cost.LONGEST:
            began = self._clock()
            if self._spent * cost.READING > began - self._began:
                return
            self._read_slice()
            took += self._clock() - began
            self._spent += self._clock() - began

    @property
    def nbytes(self) -> int:
        return 0 if self._filter is None else self._filter.nbytes

    def check(self) -> None:
        """Assert every invariant."""
        # It keeps to what it has taken.
        assert self.nbytes <= (self.taken.nbytes if self.taken else 0)
        assert (self._filter is None) == (self.stage is Stage.NONE)

    def _read_slice(self) -> None:
        assert self._filter is not None
        assert self.taken is not None
        try:
            keys = self._master.keys(self._behind, self.taken.read)
        except BadContract:
            # A key that is none of the contract's type: no sale can have it, and a join that looks up never meets it.
            self._is_unreadable = True
            self._enter(Stage.LISTENING, self._clock())
            return
        if not len(keys):
            self._keys = max(1, self._filter.noted)
            self._enter(Stage.COMPLETE, self._clock())
            return
        self._filter.note(self._coder.encode(keys, remember=False))
        self._behind = keys[-1].as_py()

    def _begin_or_give_up(self, now: float, question: Question[Any]) -> None:
        if self._worth_making(now, question):
            self._behind, self._spent, self._began = None, 0.0, now
            self._enter(Stage.READING, now)
        elif now - self._good_at > _PATIENCE:
            self._end()

    def _worth_making(self, now: float, question: Question[Any]) -> cost.Size | None:
        hope = min(self._life, now - self._named_since)
        size = self.taken or cost.size(self._keys, question)
        return size if size and cost.is_worth_making(size, self._seen, hope, question) else None

    def _is_too_full(self, now: float) -> bool:
        assert self._filter is not None
        assert self.taken is not None
        if self._filter.noted <= _TOO_FULL * self.taken.keys:
            return False
        self._keys = max(self._filter.noted, 2 * self.taken.keys * (self.stage is Stage.READING))
        return True

    def _listen(self, now: float) -> None:
        """Begin anew, with what is told from now on."""
        assert self._filter is not None
        self._filter.clear()
        self._enter(Stage.LISTENING, now)

    def _end(self) -> None:
        self.wanted = None
        self._enter(Stage.NONE, self._clock())

    def _enter(self, stage: Stage, now: float) -> None:
        self.stage, self._since = stage, now

    @property
    def _is_up_to_date(self) -> bool:
        return self._clock() - self._told_at < self._absent_life

    def _look(self, now: float) -> bool:
        """What the sales were since the last look, if there is enough to see."""
        lately, seconds = self._statistics - self._before, now - self._looked_at
        if seconds < _LOOK or not lately.offered:
            return False
        windows = lately.looked_up + lately.by_pages + lately.by_scan
        by_name = 1 - lately.by_scan / windows if windows else 1.0
        if self._absent_in_vain and self.stage is not Stage.COMPLETE:
            self._asked_of_absent = by_name * self._asked_in_vain / self._absent_in_vain
        spared = lately.ruled_out * self._asked_of_absent
        absent = (lately.unmatched - lately.null_keys) / lately.offered
        keys = by_name * self._asked_in_vain + spared
        self._seen = cost.Seen(lately.offered / seconds, max(0.0, absent), keys / seconds, lately.steps / seconds)
        self._looked_at, self._before = now, replace(self._statistics)
        self._asked_in_vain = self._absent_in_vain = 0
        return True
