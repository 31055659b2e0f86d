"""The two paths agree with each other, and the strict one with a judge that shares no code with it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.parse import Parser
from tests.kit.parse_judge import Undecided, judged
from tests.kit.parse_kinds import parsed_alike
from tests.kit.parse_samples import CONTRACT, FIELDS, LIMIT, message


def judged_alike(messages: list[bytes]) -> tuple[int, int]:
    """How many sales and rejects the independent judge confirmed, row by row."""
    parsed = parsed_alike(CONTRACT, pa.array(messages, pa.binary()))
    rows: dict[int, Any] = dict(zip(parsed.valid.tolist(), parsed.sales.to_pylist(), strict=True))
    sales = rejects = 0
    for i, given_message in enumerate(messages):
        try:
            expected = judged(given_message)
        except Undecided:
            continue
        assert rows.get(i) == expected, given_message
        sales += expected is not None
        rejects += expected is None
    return sales, rejects


LITERALS = r""" 0 -0 1 -1 1.0 1e2 1E+2 12.34 12.340 12.345 "12.34" "12.345" "-0.00" 0.1e1 1e400 1e-400 1.5 00 01 0e5
    9999999999999999.99 9999999999999999.991 99999999999999999.99 999999999999999999 9223372036854775807
    9223372036854775808 1000000 1000001 -1000001 123456789012345678901234567890 1e99999 true false null NaN Infinity
    "NaN" "" "x" "\u0000" "\ud800" "\ud83d\ude00" "\udc00" "EUR" "eur" "EURO" "\u0045UR" "a\"b" "a\\" "\n" "\/" "ä" "😀"
    "null" "12.3e1" "1." ".5" "2026-11-18T09:30:00Z" "2026-11-18t09:30:00.123456+05:30" "2026-11-18T09:30:00.1234567Z"
    "2026-02-30T00:00:00Z" "2024-02-29T23:59:59.5-23:59" "0001-01-01T00:00:00+00:01" "9999-12-31T23:59:59.9-00:01"
    "2026-11-18T09:30:60Z" "2026-11-18T09:30:00.12\u005a" [] {} [1] {"a":1} {"quantity":1} [[[[]]]] """
JUNK = [*LITERALS.split(), *map(json.dumps, ["x" * 64, "x" * 65, "ö" * 32]), "[" * 40 + "]" * 40]
NAMES = [*FIELDS, "note", "quantit\\u0079", "\\u0063urrency", "sale\\u005fid", "", "a\\\\", 'a\\"b', "ä", "\\ud800"]
TOKENS = [
    *'"\\,:{}[] \t\r\n\0',
    "\\u00",
    "\\",
    '":',
    '" :',
    '"quantity":3,',
    "\ufeff",
    "\udcff",
    "\u2028",
    "1",
    "e",
    "-",
    ".",
]


def variants(seed: int, how_many: int) -> list[bytes]:
    """Real messages with a field, a name, the layout or some bytes changed."""
    draw = random.Random(seed)
    made = []
    for _ in range(how_many):
        members = [[name, value] for name, value in FIELDS.items()]
        for change in draw.choices(
            [_nothing, _value, _extra, _rename, _drop, _swap], [4, 6, 2, 1, 1, 1], k=draw.choice([1, 1, 2])
        ):
            change(draw, members)
        colon = draw.choice([":"] * 6 + [" : ", "\n:", ": "])
        comma = draw.choice([","] * 4 + [",\r\n  ", " , "])
        text = "{" + comma.join(f'"{name}"{colon}{value}' for name, value in members) + "}"
        made.append(_damaged(draw, text.encode("utf-8", "surrogateescape")))
    return made


def _nothing(draw: random.Random, members: list[list[str]]) -> None:
    pass


def _value(draw: random.Random, members: list[list[str]]) -> None:
    draw.choice(members)[1] = draw.choice(JUNK)


def _extra(draw: random.Random, members: list[list[str]]) -> None:
    members.insert(draw.randrange(len(members) + 1), [draw.choice(NAMES), draw.choice(JUNK)])


def _rename(draw: random.Random, members: list[list[str]]) -> None:
    draw.choice(members)[0] = draw.choice(NAMES)


def _drop(draw: random.Random, members: list[list[str]]) -> None:
    members.pop(draw.randrange(len(members)))


def _swap(draw: random.Random, members: list[list[str]]) -> None:
    draw.shuffle(members)


def _damaged(draw: random.Random, given_message: bytes) -> bytes:
    if draw.random() < 0.7:
        return given_message
    at = draw.randrange(len(given_message))
    token = draw.choice(TOKENS).encode("utf-8", "surrogateescape")
    kinds: list[Callable[[], bytes]] = [
        lambda: given_message[:at] + given_message[at + 1 :],
        lambda: given_message[:at] + token + given_message[at:],
        lambda: given_message[:at] + token + given_message[at + len(token) :],
        lambda: given_message[:at] + bytes([draw.randrange(256)]) + given_message[at + 1 :],
        lambda: given_message[:at],
        lambda: given_message + token,
    ]
    return draw.choice(kinds)()


@pytest.mark.parametrize("seed", range(4))
def test_mutated_messages_are_judged_alike_by_all_three(seed: int) -> None:
    sales, rejects = judged_alike(variants(seed, 2_500))
    assert min(sales, rejects) > 500  # both answers were asked for


def test_the_paths_agree_on_many_more_mutated_messages() -> None:
    parsed = parsed_alike(CONTRACT, pa.array(variants(99, 30_000), pa.binary()))
    assert min(len(parsed.sales), len(parsed.rejected)) > 7_000


FIELD_VALUES = st.one_of(
    st.sampled_from(JUNK),
    st.integers().map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(lambda number: str(number).replace("E", "e")),
    st.decimals(min_value=-10, max_value=10**17, places=2).map(str),
    st.from_regex(r'\A"?-?[0-9]{0,20}\.?[0-9]{0,4}([eE][+-]?[0-9]{1,3})?"?\Z'),
    st.text().map(json.dumps),
    st.text().map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.datetimes().map(lambda instant: f'"{instant.isoformat()}Z"'),
    st.from_regex(
        r'\A"[0-9]{4}-[01][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9]'
        r'(\.[0-9]{0,8})?([zZ]|[+-][0-2][0-9]:?[0-6][0-9]|)"\Z'
    ),
)
MESSAGES = st.dictionaries(st.sampled_from([*FIELDS, "note"]), FIELD_VALUES, max_size=3).map(
    lambda written: message(f'"note":{written.pop("note")}' if "note" in written else "", **written)
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(MESSAGES, min_size=1, max_size=12))
def test_a_batch_is_judged_alike_by_all_three(messages: list[bytes]) -> None:
    judged_alike(messages)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(st.none(), st.binary(max_size=40), MESSAGES), max_size=12))
def test_the_paths_agree_on_any_bytes(messages: list[bytes | None]) -> None:
    parsed_alike(CONTRACT, pa.array(messages, pa.binary()))


def test_the_fast_path_takes_what_shops_commonly_send() -> None:
    common = [
        message(),
        message(product_code="null", customer_number="null"),
        message('"note":"Käse \\"mild\\"","path":"a\\\\b","tags":["a","b"],"shop":{"name":"x","till":3}'),
        message(unit_price='"12.34"'),
        message(unit_price="5", sold_at='"2026-11-18T09:30:00Z"', sale_id='"M\\u00fcller"'),
        message().replace(b":", b" : ").replace(b"09 : 30 : 00.5+01 : 00", b"09:30:00.5+01:00"),
        json.dumps(json.loads(message()), indent=2).encode(),
    ]
    _, positions = Parser(CONTRACT, LIMIT)._fast.sales(pa.array(common, pa.binary()))
    assert positions.tolist() == list(range(len(common)))
