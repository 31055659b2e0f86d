"""A second reading of the sale's contract, slow and strict: what the tests hold messages against."""

import json
from decimal import Decimal

import jsonschema
import numpy as np

from pipeline.config import resources

CONTRACT = json.loads((resources.schemas() / "topics" / "sale.v1.json").read_text(), parse_float=Decimal)
VALIDATOR = jsonschema.Draft202012Validator(CONTRACT, format_checker=jsonschema.FormatChecker())


def strictly_read(message: bytes | None) -> dict:
    """The sale, read as the contract says and no more kindly than that; ValueError or a schema error otherwise."""
    if message is None:
        raise ValueError("no value")
    if len(message) > 1 << 20:
        raise ValueError("larger than kafka.max_message_bytes")

    def no_such_number(text: str) -> None:
        raise ValueError(f"{text} is no JSON")

    def distinct(pairs: list) -> dict:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a field twice")
        return dict(pairs)

    try:
        sale = json.loads(
            message.decode("utf-8"),
            parse_float=Decimal,
            parse_constant=no_such_number,
            object_pairs_hook=distinct,
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    json.dumps(sale, default=str, ensure_ascii=False).encode("utf-8")  # fails on a lone surrogate
    VALIDATOR.validate(sale)
    np.datetime64(sale["sold_at"].removesuffix("Z"))
    if not sale["sold_at"].endswith("Z"):
        raise ValueError("no offset")
    return sale
