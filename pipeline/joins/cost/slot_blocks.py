"""Which blocks of a disk are read for some keys of one page of R."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipeline.joins.cost.lookups import NOTHING, Blocks, Floats, Touched, among
from pipeline.joins.cost.slot_simulation import Pages
from pipeline.joins.cost.zipf import Order, Zipf

_UNLIKE = 8  # pages of an R sorted by frequency: on the others each block is wanted about as much as its neighbours


@dataclass(frozen=True)
class BlocksOfPages:
    """R has pages of d rows."""

    zipf: Zipf
    d: int
    order: Order
    blocks: Blocks
    sales: float  # that want a page together: of more of them the keys are more alike

    def touched(self, pages: Pages, keys: Floats, times: Floats) -> Touched:
        """By queries of so many keys each of these pages, so many times."""
        rows = self.blocks.rows
        like = pages >= (_UNLIKE if self.order == "by frequency" else 0)
        of_a_page = 1 + (self.d - math.gcd(self.d, round(rows))) / rows
        touched = among(keys[like], of_a_page, times[like])
        for page, wanted in enumerate(self._of_first if not like.all() else []):
            here = pages == page
            touched += _touched(wanted, keys[here], times[here]) if here.any() else NOTHING
        return touched

    @cached_property
    def _of_first(self) -> list[Floats]:
        """Of the keys that are wanted of a page, the share of each of its blocks."""
        shares = []
        for page in range(min(_UNLIKE, -(-self.zipf.rows // self.d))):
            first, end = page * self.d, min(self.zipf.rows, (page + 1) * self.d)
            borders = np.arange(first // self.blocks.rows + 1, math.ceil(end / self.blocks.rows)) * self.blocks.rows
            keys = self.zipf.keys_between(np.concatenate([[first], borders, [end]]), self.sales)
            shares.append(keys / max(keys.sum(), 1e-300))
        return shares


def _touched(wanted: Floats, keys: Floats, times: Floats) -> Touched:
    without = (1 - wanted) ** keys[:, None]
    both = np.maximum(0.0, 1 - wanted[1:] - wanted[:-1]) ** keys[:, None]
    blocks = (1 - without).sum(axis=1)
    runs = 1 - without[:, 0] + (without[:, :-1] - both).sum(axis=1)
    return Touched(float((times * blocks).sum()), float((times * runs).sum()))
