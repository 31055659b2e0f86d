"""Which sales are sent: what each message is about, drawn in blocks of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from pipeline.generate import malformed
from pipeline.generate.keys import CUSTOMER, DIMENSIONS, PRODUCT, Rows
from pipeline.generate.workload import Workload
from pipeline.generate.zipf import Uniforms, ZipfDraw, exponent_of

Flags = npt.NDArray[np.bool_]

NONE = -1  # in `unknown`, `null`, `malformed`: the message is not of that sort
BLOCK = 10_000  # messages drawn at once; a constant, or the same seed would give other messages
NEAR = 1_000  # a duplicate repeats one of this many sales before it

# What an unknown key looks like. Most are rows beyond the end of the table. A database whose collation ignores case
# or trailing spaces finds a row for the other two, but by its bytes the key is not there.
BEYOND_THE_END, LOWER_CASE, TRAILING_SPACE = 0, 1, 2
_FORMS = np.array([BEYOND_THE_END] * 6 + [LOWER_CASE, TRAILING_SPACE])

_MALFORMED, _OVERSIZED, _UNKNOWN, _NULL, _DUPLICATE = range(5)


@dataclass(frozen=True)
class Draws:
    """One entry a message."""

    sale: Rows  # number of the sale; a duplicate has the number of an earlier one
    topic: Rows  # place in the workload's list of topics
    rows: Rows  # (messages, 3): the row in each master table
    unknown: Rows  # the dimension whose key is not in the master table
    form: Rows  # what the unknown key looks like
    null: Rows  # the dimension whose key is null
    malformed: Rows  # place in the list of kinds
    duplicate: Flags
    quantity: Rows

    def __len__(self) -> int:
        return len(self.sale)

    @property
    def original(self) -> Flags:
        """Well-formed and not a duplicate: what a later message may repeat."""
        well_formed: Flags = self.malformed == NONE
        return well_formed & ~self.duplicate

    def take(self, where: Rows | Flags | slice) -> Draws:
        return Draws(*(getattr(self, column.name)[where] for column in fields(self)))

    def followed_by(self, later: Draws) -> Draws:
        return Draws(*(np.concatenate([getattr(self, c.name), getattr(later, c.name)]) for c in fields(self)))


class Drawer:
    """Draws block after block, endlessly."""

    def __init__(self, workload: Workload) -> None:
        self._random = np.random.default_rng([workload.seed, workload.first_sale])
        self._sizes = workload.sizes.by_dimension
        skews = (workload.skew, workload.customer_skew, workload.store_skew)
        self._laws = [ZipfDraw(size, exponent_of(skew, size)) for skew, size in zip(skews, self._sizes, strict=True)]
        # From the seed alone: a run that goes on behind another sells the same products most.
        scatter = np.random.default_rng(workload.seed)
        self._product_of_rank = scatter.permutation(workload.sizes.products) if workload.scatter else None
        weights = np.array(list(workload.topics.values()), np.float64)
        self._topic_ends = np.cumsum(weights / weights.sum())[:-1]
        shares = (workload.malformed, workload.oversized, workload.unknown, workload.null_keys, workload.duplicates)
        self._category_ends = np.cumsum(shares)  # in the order of _MALFORMED to _DUPLICATE
        self._next_sale = workload.first_sale
        self._malformed_so_far = 0
        self._duplicates = workload.duplicates > 0
        self._recent = [_nothing() for _ in weights]

    def __iter__(self) -> Iterator[Draws]:
        while True:
            yield self._with_duplicates(self._block())

    def _block(self) -> Draws:
        # Every column is drawn for every message: the shares decide what is done to a sale, not which sale it is.
        which, topic, *ranks, dimension, form, quantity = self._random.random((8, BLOCK))
        category = np.searchsorted(self._category_ends, which, side="right")
        turned = (dimension * len(DIMENSIONS)).astype(np.int64)
        unknown = np.where(category == _UNKNOWN, turned, NONE)
        forms = np.where(unknown == CUSTOMER, BEYOND_THE_END, _FORMS[(form * len(_FORMS)).astype(np.int64)])
        sale = np.arange(self._next_sale, self._next_sale + BLOCK)
        self._next_sale += BLOCK
        return Draws(
            sale=sale,
            topic=np.searchsorted(self._topic_ends, topic, side="right"),
            rows=self._rows(ranks, unknown, forms),
            unknown=unknown,
            form=forms,
            null=np.where(category == _NULL, turned, NONE),
            malformed=self._kinds(category),
            duplicate=category == _DUPLICATE,
            quantity=_quantity(quantity),
        )

    def _rows(self, uniforms: list[Uniforms], unknown: Rows, forms: Rows) -> Rows:
        rows = np.stack([law.draw(uniform) for law, uniform in zip(self._laws, uniforms, strict=True)], axis=1)
        if self._product_of_rank is not None:
            rows[:, PRODUCT] = self._product_of_rank[rows[:, PRODUCT]]
        for dimension, size in enumerate(self._sizes):
            rows[(unknown == dimension) & (forms == BEYOND_THE_END), dimension] += size
        return rows

    def _kinds(self, category: Rows) -> Rows:
        """Malformed messages cycle through the kinds, so that even a short run has many of them."""
        kinds = np.full(len(category), NONE)
        (places,) = np.nonzero(category == _MALFORMED)
        kinds[places] = (self._malformed_so_far + np.arange(len(places))) % len(malformed.CYCLE)
        self._malformed_so_far += len(places)
        kinds[category == _OVERSIZED] = malformed.OVERSIZED
        return kinds

    def _with_duplicates(self, block: Draws) -> Draws:
        lags = self._random.random(len(block))
        if not self._duplicates:
            return block
        for topic, recent in enumerate(self._recent):
            (places,) = np.nonzero(block.topic == topic)
            mine, self._recent[topic] = _repeat_earlier(block.take(places), recent, lags[places])
            for column in fields(block):
                getattr(block, column.name)[places] = getattr(mine, column.name)
        return block


def _repeat_earlier(block: Draws, recent: Draws, lags: Uniforms) -> tuple[Draws, Draws]:
    """Make each duplicate of one topic repeat one of the NEAR originals before it; also return the last originals."""
    (well_formed,) = np.nonzero(block.malformed == NONE)
    if not len(recent) and len(well_formed):
        block.duplicate[well_formed[0]] = False  # a topic's first sale has nothing to repeat
    originals = recent.followed_by(block.take(block.original))
    (duplicates,) = np.nonzero(block.duplicate)
    before = len(recent) + np.cumsum(block.original)[duplicates]
    sources = originals.take(before - 1 - (lags[duplicates] * np.minimum(before, NEAR)).astype(np.int64))
    for column in fields(block):
        if column.name != "duplicate":
            getattr(block, column.name)[duplicates] = getattr(sources, column.name)
    return block, originals.take(slice(-NEAR, None))


def _nothing() -> Draws:
    none = np.empty(0, np.int64)
    rows = np.empty((0, len(DIMENSIONS)), np.int64)
    return Draws(none, none, rows, none, none, none, none, np.empty(0, np.bool_), none)


def _quantity(uniform: Uniforms) -> Rows:
    """One to nine pieces, small numbers more often; one sale in forty is a return."""
    pieces = (1 + 9 * (uniform * 40 % 1) ** 3).astype(np.int64)
    return np.where(uniform < 1 / 40, -pieces, pieces)
