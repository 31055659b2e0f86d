"""The door of every join, and the contract it keeps; behind it stands an algorithm.

A join is an object over one dimension that outlasts micro-batches. Its user offers sales, steps until nothing is
pending, and gets every sale back at least once: with its master row, or with the proof that there is none.

    taken = join.offer(positions, keys)        # how many sales were taken; offer the rest again later
    for served in join.step(): ...             # one iteration of the paper's outer loop

Nothing of the *stream* may outlive a micro-batch: step until `pending` is 0. Master rows may.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import BudgetTooSmall, NotUnique
from pipeline.joins.algorithm import ABSENT, Positions, Served, Workplace
from pipeline.joins.cost.question import Question
from pipeline.joins.counts import JoinStatistics
from pipeline.joins.parts.budget import LONG_KEYS_SHARE
from pipeline.joins.parts.kept import KeptRows
from pipeline.joins.parts.keycodes import LONG_KEY_BYTES, KeyCoder, picked
from pipeline.joins.recipe import Options, Recipe, relation
from pipeline.joins.sieve import Sieve
from pipeline.master.port import Master

Flags = npt.NDArray[np.bool_]


class Join:
    """One semi-stream join: null keys, the coding of keys, the budget, what is counted. Made by `joins.make`."""

    def __init__(self, recipe: Recipe, master: Master, memory: int, options: Options) -> None:
        self.label = recipe.name  # as a metric names it
        self.master = master
        self.memory = memory  # bytes for everything this join keeps or makes, as `options.accounting` counts them
        self.statistics = JoinStatistics()
        self.workplace = workplace = check(recipe, master, memory, options, self.statistics)
        self.coder = workplace.coder
        self.relation = workplace.question.R
        self._longest_offer = workplace.question.offer
        self._accounting = options.accounting
        self._most_long_keys = max(1, memory // LONG_KEYS_SHARE // LONG_KEY_BYTES)
        self._without_row: list[Positions] = []  # of sales whose key is null, or known to be none of R's
        self._recipe = recipe
        self.algorithm = recipe.build(workplace)
        self._asks_by_key = self.algorithm.asks_by_key
        has_sieve = recipe.has_sieve and self.relation.unique and workplace.question.settings.key_filter
        self.sieve = Sieve(workplace) if has_sieve else None

    def offer(self, positions: Positions, keys: pa.Array, news_is_older: Flags | None = None) -> int:
        """Admit as many of these sales, from the front, as the budget allows; say how many.

        `positions` ascend, within a call and from call to call, until nothing is pending. `news_is_older`: of these
        sales it is not told yet what was there when they were sent, so the master is asked for a key that is new.
        """
        most = min(self._longest_offer, self.algorithm.room) if self._held < self._longest_offer else 0
        positions, keys = positions[:most], keys.slice(0, most)
        if not most:
            return 0
        keys = self._with_few_long_ones(keys)
        positions = positions[: len(keys)]
        sieve = self.sieve if self.knows_all_keys else None
        if keys.null_count or sieve:
            taken = self._admit_some(positions, keys, sieve, news_is_older)
        else:
            taken = self.algorithm.admit(positions, self.coder.encode(keys, self._asks_by_key))
        self.statistics.offered += taken
        return taken

    def step(self, drain: bool = False) -> list[Served]:
        """Run one iteration of the algorithm and return what it served.

        `drain` says that no more sales will come before all pending ones are served. Only a join that otherwise waits
        for more input (MESHJOIN) needs to know.
        """
        self.statistics.steps += 1
        served = [self.algorithm.absent(positions) for positions in self._without_row]
        self._without_row = []
        if self.algorithm.pending:
            found = self.algorithm.iterate(drain)
            served += found
            if self.sieve:
                self.sieve.note(found)
        if self.sieve:
            self.sieve.read()
        if not self.algorithm.pending:
            self.coder.forget()
        for piece in served:
            matched = int(np.count_nonzero(piece.match != ABSENT))
            self.statistics.matched += matched
            self.statistics.unmatched += len(piece.match) - matched
        return served

    def changed(self, keys: pa.Array | None) -> None:
        """The rows with these keys have changed in the master (None: any of them): none that was read before is served
        from memory again.

        For when nothing is pending.
        """
        assert not self.pending
        before = self.cached_rows
        codes = None if keys is None else self.coder.encode(keys.drop_null(), remember=False)
        keepers: list[KeptRows | Sieve] = [*self.algorithm.kept, *filter(None, [self.sieve])]
        for kept in keepers:
            if codes is None:
                kept.clear()
            else:
                kept.forget(codes)
        self.statistics.forgotten += before - self.cached_rows

    def informed(self, seconds_ago: float) -> None:
        """A batch begins, and all that had changed in the master so long ago has been told by `changed`. Infinite:
        nobody tells.
        """
        assert not self.pending
        if self.sieve is None:
            return
        question = self._question_now()
        self.sieve.informed(seconds_ago, question)
        if self.sieve.wanted != self.sieve.taken:
            # Both memories at once would be too much: the old one goes first.
            del self.algorithm
            self.sieve.make()
            self.algorithm = self._recipe.build(replace(self.workplace, question=self.sieve.left_of(question)))

    def _question_now(self) -> Question[Any]:
        """What the whole join would be asked now: with costs and skew as the algorithm has seen them."""
        asked, seen = self.workplace.question, self.algorithm.seen
        costs = replace(seen.costs, c_S=asked.costs.c_S, loop=asked.costs.loop)
        return replace(asked, costs=costs, stream=replace(asked.stream, e=seen.stream.e))

    @property
    def pending(self) -> int:
        """Sales admitted and not yet served."""
        return self.algorithm.pending + self._held

    @property
    def cached_rows(self) -> int:
        """Master rows, and proofs that there is none, kept in memory from one batch to the next."""
        return sum(map(len, self.algorithm.kept))

    @property
    def cached_bytes(self) -> int:
        """What they take."""
        return sum(kept.nbytes for kept in self.algorithm.kept)

    @property
    def knows_all_keys(self) -> bool:
        """Whether a filter of all keys answers for those that are not in R."""
        return self.sieve is not None and self.sieve.answers

    def memory_used(self) -> dict[str, int]:
        """Bytes in use by part, as measured; their sum never exceeds `memory`, if the accounting counts these."""
        used = self.algorithm.memory_used()
        return used | {"filter": self.sieve.nbytes} if self.sieve and self.sieve.nbytes else used

    def check(self) -> None:
        """Assert every invariant. Tests call it after each step."""
        used = self.memory_used()
        # The budget holds, if it counts what is taken.
        assert sum(used.values()) <= self.memory or not self._accounting.holds, (used, self.memory)
        self.algorithm.check()
        if self.sieve:
            self.sieve.check()

    def _admit_some(
        self, positions: Positions, keys: pa.Array, sieve: Sieve | None, news_is_older: Flags | None
    ) -> int:
        """All but those that have no row for certain: a null key is the unknown member at once, and so is one that is
        none of R's. They ask nothing, and take no place in the queue."""
        asked = np.flatnonzero(pc.is_valid(keys).to_numpy(zero_copy_only=False))
        codes = self.coder.encode(keys.drop_null(), self._asks_by_key)
        if sieve and len(asked):
            may_be_there = sieve.has(codes)
            if news_is_older is not None:
                may_be_there |= news_is_older[asked]
            there = np.flatnonzero(may_be_there)
            asked, codes = asked[there], picked(codes, there)
        admitted = self.algorithm.admit(positions[asked], codes) if len(asked) else 0
        taken = len(keys) if admitted == len(asked) else int(asked[admitted])
        without = np.setdiff1d(np.arange(taken), asked[:admitted], assume_unique=True)
        if len(without):
            null = keys.slice(0, taken).null_count
            self._without_row.append(positions[without])
            self.statistics.null_keys += null
            self.statistics.ruled_out += len(without) - null
        return taken

    @property
    def _held(self) -> int:
        return sum(map(len, self._without_row))

    def _with_few_long_ones(self, keys: pa.Array) -> pa.Array:
        """As many keys, from the front, as have no more long ones among them than there is room to remember."""
        if self.coder.is_integer or not self._asks_by_key or not len(keys):
            return keys
        long = np.flatnonzero(np.asarray(pc.fill_null(pc.binary_length(keys), 0)) > self.coder.longest)
        room = self._most_long_keys - self.coder.long_keys
        if len(long) <= room:
            return keys
        return keys.slice(0, int(long[max(0, room)])) if self.algorithm.pending or room > 0 else keys.slice(0, 1)


def check(
    recipe: Recipe, master: Master, memory: int, options: Options, statistics: JoinStatistics | None = None
) -> Workplace:
    """What the algorithm will find, or the refusal of a table it cannot read, or of a budget it cannot work in."""
    size = master.statistics()
    coder = KeyCoder(master.key_type, size.key_bytes)
    question = recipe.question(memory, relation(size, coder.words, master.unique), options)
    if not recipe.reads(master.unique, master.indexed):
        kind = "an" if recipe.main.takes_repeated_keys else "a unique"
        raise NotUnique(
            f"{recipe.name} needs {kind} index on the natural key of the master table, which has none. "
            "Add one, or use auto, meshjoin or r-meshjoin, which need no index and deliver every row of a key."
        )
    if question.memory < recipe.model.least(question):
        raise _too_small(recipe, memory, question)
    return Workplace(
        master,
        coder,
        question,
        max_staleness=options.max_staleness,
        absent_staleness=options.absent_staleness,
        clock=options.clock,
        statistics=JoinStatistics() if statistics is None else statistics,
    )


def _too_small(recipe: Recipe, memory: int, question: Question[Any]) -> BudgetTooSmall:
    usual = recipe.main.Settings()
    needed, by_itself = (
        question.accounting.memory_for(recipe.model.least(replace(question, settings=settings)))
        for settings in (question.settings, usual)
    )
    said = f"{recipe.name}: memory = {memory:,} bytes, but {recipe.least_for(question.R.R_t)} needs {needed:,}"
    remedy = f"Raise the dimension's memory to at least {needed:,} bytes"
    if needed == by_itself:
        return BudgetTooSmall(f"{said}. {remedy}.")
    values = {field.name: getattr(question.settings, field.name) for field in fields(usual)}
    told = (f"{name} = {json.dumps(value)}" for name, value in values.items() if value != getattr(usual, name))
    return BudgetTooSmall(f"{said} with {', '.join(told)}. {remedy}, or set other sizes: it can do with {by_itself:,}.")
