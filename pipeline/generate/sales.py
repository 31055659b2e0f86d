"""The bytes of the messages: draws in, JSON as `sale.v1` has it out, by whole columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.generate import malformed
from pipeline.generate.draws import LOWER_CASE, NEAR, NONE, TRAILING_SPACE, Draws
from pipeline.generate.keys import CUSTOMER, PRODUCT, STORE, Rows, customer_numbers, digits, product_codes, store_codes
from pipeline.generate.workload import Workload

_CURRENCIES = pa.array(["EUR", "CHF", "GBP", "USD"])


@dataclass(frozen=True)
class Messages:
    """What Kafka is given, one entry a message."""

    values: list[bytes | None]
    keys: list[bytes | None] | None

    def take(self, places: list[int]) -> Messages:
        values = [self.values[place] for place in places]
        return Messages(values, self.keys and [self.keys[place] for place in places])


class SaleWriter:
    """Turns draws into messages. It remembers when the last sales were sold: a duplicate repeats that instant."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._opening = f'{{"sale_id":"{workload.seed:x}-'
        self._recent = [(np.empty(0, np.int64), np.empty(0, np.int64)) for _ in workload.topics]

    def write(self, draws: Draws, sold_at: Rows) -> Messages:
        """The messages of these draws, sold at these instants (microseconds since 1970)."""
        if self._workload.duplicates:
            sold_at = self._as_first_sold(draws, sold_at)
        stores = _with_look_alikes(store_codes(draws.rows[:, STORE]), draws, STORE)
        products = _with_look_alikes(product_codes(draws.rows[:, PRODUCT]), draws, PRODUCT)
        customers = pc.cast(pa.array(customer_numbers(draws.rows[:, CUSTOMER])), pa.string())
        instants = pc.cast(pa.array(sold_at).cast(pa.timestamp("us")), pa.string())
        cents = list_price(draws.rows[:, PRODUCT])
        sales = pc.binary_join_element_wise(
            self._opening,
            digits(draws.sale, 12),
            '","sold_at":"',
            pc.binary_replace_slice(instants, 10, 11, "T"),  # Arrow writes a space between date and time
            'Z","store_code":',
            _or_null(_quoted(stores), draws, STORE),
            ',"product_code":',
            _or_null(_quoted(products), draws, PRODUCT),
            ',"customer_number":',
            _or_null(customers, draws, CUSTOMER),
            ',"quantity":',
            pc.cast(pa.array(draws.quantity), pa.string()),
            ',"unit_price":',
            pc.cast(pa.array(cents // 100), pa.string()),
            ".",
            digits(cents % 100, 2),
            ',"currency":"',
            _CURRENCIES.take(pa.array(draws.rows[:, STORE] % len(_CURRENCIES))),
            '"}',
            "",
        )
        values = sales.cast(pa.binary()).to_pylist()
        for place in np.flatnonzero(draws.malformed != NONE).tolist():
            values[place] = malformed.spoil(int(draws.malformed[place]), values[place], self._workload.oversized_bytes)
        return Messages(values, self._keys(stores, draws))

    def _keys(self, stores: Any, draws: Draws) -> list[bytes | None] | None:
        if not self._workload.keyed:
            return None
        return list(pc.if_else(pa.array(draws.null == STORE), None, stores).cast(pa.binary()).to_pylist())

    def _as_first_sold(self, draws: Draws, sold_at: Rows) -> Rows:
        sold_at = sold_at.copy()
        for topic, (numbers, instants) in enumerate(self._recent):
            mine = draws.topic == topic
            originals = mine & draws.original
            numbers = np.concatenate([numbers, draws.sale[originals]])
            instants = np.concatenate([instants, sold_at[originals]])
            again = mine & draws.duplicate
            sold_at[again] = instants[np.searchsorted(numbers, draws.sale[again])]
            self._recent[topic] = numbers[-NEAR:], instants[-NEAR:]
        return sold_at


def list_price(products: Rows) -> Rows:
    """The price of a product in hundredths: from 0.99, always the same for the same product."""
    return products * 7_919 % 99_901 + 99


def _with_look_alikes(codes: Any, draws: Draws, dimension: int) -> Any:
    for form, alike in (
        (LOWER_CASE, pc.utf8_lower),
        (TRAILING_SPACE, lambda few: pc.binary_join_element_wise(few, " ", "")),
    ):
        mask = pa.array((draws.unknown == dimension) & (draws.form == form))
        if mask.true_count:
            codes = pc.replace_with_mask(codes, mask, alike(codes.filter(mask)))
    return codes


def _quoted(codes: Any) -> Any:
    return pc.binary_join_element_wise('"', codes, '"', "")


def _or_null(json: Any, draws: Draws, dimension: int) -> Any:
    null = draws.null == dimension
    return pc.if_else(pa.array(null), "null", json) if null.any() else json
