"""What the generated master rows say beside their keys: names, categories, places, and when they last changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.generate.keys import (
    CUSTOMER,
    PRODUCT,
    STORE,
    Rows,
    customer_numbers,
    product_codes,
    store_codes,
    surrogate_keys,
)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


_ADJECTIVES = _words("Classic, Organic, Compact, Extra, Mild, Double, Travel, Family, Sport, Winter, Baker's")
_NOUNS = _words(
    "Almonds, Backpack, Candle, Detergent, Espresso, Headphones, Kettle, Lamp, Notebook, Olives, Shampoo, Socks, Tea, "
    "Toothbrush, Umbrella, Yoghurt, Screwdriver"
)
_CATEGORIES = _words(
    "Bakery, Beverages, Books, Cleaning, Clothing, Dairy, Electronics, Frozen, Fruit, Garden, Health & Beauty, "
    "Household, Meat, Office, Pets, Snacks, Sports, Tools, Toys"
)
_BRANDS = _words(
    "Alpina, Borealis, Corvo, Dunmore, Elster, Fjord, Greta's, Halcyon, Ibex, Juniper, Kestrel, Lumen, Marlow"
)
_LINES = ("", " Basics", " Select", " Pro", " Home", " Kids", " Premium")
# The customers' names are utf8mb4 in the DDL; everything else must also fit a database whose default is latin1.
_FIRST_NAMES = _words(
    "Aïcha, Björn, Chloé, Dženan, Elena, François, Grażyna, Haruto, Ирина, José, Łukasz, Мария, Νίκος, Ólafur, 佐藤, "
    "Zoë, Anna, Peter, Ruth"
)
_LAST_NAMES = _words(
    "Andersson, Brüllmann, Castañeda, Dvořák, Esposito, Fernández, Grönlund, Horváth, Ivanov, Jørgensen, Kowalski, "
    "O'Neill, Müller, Nguyễn, Smith, Öztürk, d'Angelo"
)
_SEGMENTS = _words("consumer, loyal, business, student, senior, staff, wholesale")
_COUNTRIES = _words("AT, BE, CH, DE, DK, ES, FR, GB, IT, NL, PL, SE, US")
_CITIES = _words(
    "Zürich, Genève, Bern, Wien, Graz, München, Berlin, Köln, Paris, Lyon, Málaga, Madrid, Roma, Milano, London, "
    "Leeds, Malmö, Århus, Gent"
)
_REGIONS = _words("CH, CH, CH, AT, AT, DE, DE, DE, FR, FR, ES, ES, IT, IT, GB, GB, SE, DK, BE")  # of the cities above

_CHANGES_SINCE = np.datetime64("2023-01-01T00:00:00", "us").astype(np.int64)
_CHANGES_FOR = 3 * 365 * 86_400 * 1_000_000
_LAPS, _STRIDE = 1_000_003, 7_919_000_000_017  # their product stays below 64 bits

Columns = dict[str, Any]  # Arrow strings or integers, by the name of the table's column


def _product(rows: Rows) -> Columns:
    brand = _joined(_pick(_BRANDS, rows, 3), _pick(_LINES, rows, 5))
    return {
        "product_code": product_codes(rows),
        "product_key": pa.array(surrogate_keys(PRODUCT, rows)),
        "name": _joined(_pick(_ADJECTIVES, rows, 7), " ", _pick(_NOUNS, rows, 1), " no. ", _text(rows + 1)),
        "category": _pick(_CATEGORIES, rows, 11),
        "brand": brand,
        "updated_at": _updated_at(rows),
    }


def _customer(rows: Rows) -> Columns:
    return {
        "customer_number": pa.array(customer_numbers(rows)),
        "customer_key": pa.array(surrogate_keys(CUSTOMER, rows)),
        "name": _joined(_pick(_FIRST_NAMES, rows, 1), " ", _pick(_LAST_NAMES, rows, 5)),
        "segment": _pick(_SEGMENTS, rows, 3),
        "country": _pick(_COUNTRIES, rows, 7),
        "updated_at": _updated_at(rows),
    }


def _store(rows: Rows) -> Columns:
    return {
        "store_code": store_codes(rows),
        "store_key": pa.array(surrogate_keys(STORE, rows)),
        "name": _joined(_pick(_CITIES, rows, 1), " ", _text(rows + 1)),
        "city": _pick(_CITIES, rows, 1),
        "region": _pick(_REGIONS, rows, 1),
        "updated_at": _updated_at(rows),
    }


MASTERS: dict[str, Callable[[Rows], Columns]] = {"product": _product, "customer": _customer, "store": _store}


def _pick(words: tuple[str, ...], rows: Rows, step: int) -> Any:
    """A word for each row; tables with different steps or lengths do not rise and fall together."""
    return pa.array(words).take(pa.array((rows * step + rows // len(words)) % len(words)))


def _updated_at(rows: Rows) -> Any:
    """Moments of three years, to the microsecond, in no order."""
    return _text((_CHANGES_SINCE + rows % _LAPS * _STRIDE % _CHANGES_FOR).astype("datetime64[us]"))


def _text(values: Any) -> Any:
    return pc.cast(pa.array(values), pa.string())


def _joined(*pieces: Any) -> Any:
    return pc.binary_join_element_wise(*pieces, "")
