"""A second opinion on the sale contract, written without a line of the parser: json, jsonschema and decimal."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from decimal import Context, Decimal, localcontext
from typing import Any

import jsonschema

from pipeline.config import resources

SCHEMA = json.loads((resources.schemas() / "topics" / "sale.v1.json").read_text(), parse_float=Decimal)
SCHEMA["properties"]["currency"]["pattern"] = r"^[A-Z]{3}\Z"  # Python's $ also matches before a last line break
_VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE)


class _Object(dict):  # type: ignore[type-arg]
    doubled: frozenset[str] = frozenset()


class Undecided(Exception):
    """This judge cannot say."""


def judged(message: bytes) -> dict[str, Any] | None:
    """The sale's values, None if the message is no sale; raises `Undecided`."""
    if len(re.findall(rb"[\[{]", message)) > 50:
        raise Undecided  # its own stack is the limit
    try:
        sale = json.loads(
            message.decode("utf-8"), object_pairs_hook=_object, parse_float=_decimal, parse_constant=_refuse
        )
    except (UnicodeDecodeError, json.JSONDecodeError, _Refused):
        return None
    except ValueError as error:  # more digits than Python turns into an int
        raise Undecided from error
    if not isinstance(sale, _Object) or sale.doubled & SCHEMA["properties"].keys():
        return None
    with localcontext(Context(prec=1000)):
        if not _VALIDATOR.is_valid(sale):
            return None
    known = {name: sale[name] for name in SCHEMA["properties"]}
    if any(isinstance(value, str) and re.search("[\0\ud800-\udfff]", value) for value in known.values()):
        return None
    try:
        return {**known, "unit_price": _price(known["unit_price"]), "sold_at": _instant(known["sold_at"])}
    except (ValueError, OverflowError):
        return None


class _Refused(Exception):
    pass


def _refuse(literal: str) -> None:
    raise _Refused(literal)


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    made = _Object(pairs)
    names = [name for name, _ in pairs]
    made.doubled = frozenset(name for name in names if names.count(name) > 1)
    return made


def _decimal(text: str) -> Decimal:
    if "e" in text.lower() and len(re.split("[eE]", text)[1]) > 6:
        raise ValueError("an exponent beyond this judge")
    return Decimal(text)


def _price(given: Any) -> Decimal:
    if isinstance(given, str) and not re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,6})?", given):
        raise ValueError(given)
    price = Decimal(given)
    with localcontext(Context(prec=1000)):
        if not 0 <= price < 10**16 or price % Decimal("0.01") != 0:
            raise ValueError(given)
        return price.quantize(Decimal("0.01"))


def _instant(given: str) -> datetime:
    parts = _TIMESTAMP.fullmatch(given)
    if parts is None:
        raise ValueError(given)
    day, clock, fraction, zone = parts.groups(default="")
    if zone[0] in "+-" and (int(zone[1:3]) > 23 or int(zone[4:]) > 59):
        raise ValueError(given)
    whole = datetime.fromisoformat(f"{day}T{clock}.{fraction[1:].ljust(6, '0')}{'+00:00' if zone in 'zZ' else zone}")
    return whole.astimezone(timezone.utc)
