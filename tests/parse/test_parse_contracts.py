"""Any contract: every column type, every rule, required and optional, nullable and not."""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.config.contracts import TopicContract
from pipeline.errors import BadContract
from pipeline.parse import Parsed, Parser
from tests.kit.parse_kinds import BAD, EVERYTHING, GOOD, contract, parsed_alike


def parse(made: TopicContract, *messages: str) -> Parsed:
    return Parser(made, 1 << 20).parse(pa.array([message.encode() for message in messages], pa.binary()))


@pytest.mark.parametrize("field", EVERYTHING)
def test_a_value_of_every_type_is_kept_exactly(field: str, tmp_path: Path) -> None:
    made = contract(tmp_path, {field: EVERYTHING[field]}, [field])
    parsed = parse(made, *(f'{{"{field}":{written}}}' for written, _ in GOOD[field]))
    assert parsed.details.to_pylist() == []
    assert parsed.sales.schema.equals(made.schema)
    values = parsed.sales.column(0).to_pylist()
    assert values == [value for _, value in GOOD[field]]
    assert all(not isinstance(value, float) or str(value) != "-0.0" for value in values)


@pytest.mark.parametrize("field", EVERYTHING)
def test_a_value_against_a_rule_is_a_reject_of_every_type(field: str, tmp_path: Path) -> None:
    made = contract(tmp_path, {field: EVERYTHING[field]}, [field])
    parsed = parse(made, *(f'{{"{field}":{written}}}' for written, _ in BAD[field]))
    assert len(parsed.sales) == 0
    assert parsed.reasons.to_pylist() == [reason for _, reason in BAD[field]]
    column = EVERYTHING[field].get("x-column", field)
    assert column == made.schema.names[0]
    assert all(detail.startswith(f"{field}: ") for detail in parsed.details.to_pylist())


@pytest.mark.parametrize("required", [list(EVERYTHING), [], list(EVERYTHING)[::2]], ids=["all", "none", "half"])
def test_both_paths_agree_on_every_type_required_or_not(required: list[str], tmp_path: Path) -> None:
    made = contract(tmp_path, EVERYTHING, required)
    draw = random.Random(7)
    messages = []
    for _ in range(3_000):
        written = {
            field: draw.choice(GOOD[field])[0] for field in EVERYTHING if field in required or draw.random() < 0.6
        }
        if draw.random() < 0.5:
            field = draw.choice(list(EVERYTHING))
            written[field] = draw.choice([*BAD[field], *BAD[draw.choice(list(EVERYTHING))], ("null", "")])[0]
        if draw.random() < 0.1:
            written.pop(draw.choice(list(written)), None) if written else None
        messages.append("{" + ",".join(f'"{field}":{value}' for field, value in written.items()) + "}")
    parsed = parsed_alike(made, pa.array([message.encode() for message in messages], pa.binary()))
    assert min(len(parsed.valid), len(parsed.rejected)) > 500


def test_an_optional_field_may_be_missing_but_not_null_unless_the_contract_says_so(tmp_path: Path) -> None:
    for field, rules in EVERYTHING.items():
        made = contract(tmp_path, {field: rules})
        nullable = "null" in rules["type"]
        parsed = parse(made, "{}", f'{{"{field}":null}}', '{"other":1}')
        assert parsed.sales.column(0).to_pylist() == [None] * (3 if nullable else 2)
        assert parsed.reasons.to_pylist() == ([] if nullable else ["wrong_type"])


def test_a_field_given_twice_is_seen_with_short_names_optional_fields_and_escapes(tmp_path: Path) -> None:
    made = contract(tmp_path, {name: {"type": "integer", "x-type": "int64"} for name in ("a", "id", "ident1")}, ["a"])
    doubled = [
        '"a":1,"a":1',
        '"a":1,"id":1,"id" : 1',
        '"a":1,"\\u0069d":1,"id":1,"x":"\\\\"',
        '"a":1,"ident1":1,"\\u0069dent1":2',
    ]
    for members in doubled:
        assert parse(made, "{" + members + "}").reasons.to_pylist() == ["duplicate_field"]
    alike = ['"a":1,"xid":1,"id":1', '"a":1,"b":"a","c":"\\"id\\":"', '"a":1,"id":1,"IDENT1":2,"dent1":3']
    for members in alike:
        assert parse(made, "{" + members + "}").reasons.to_pylist() == []


def test_a_decimal_bound_is_exact_though_json_wrote_it_as_a_float(tmp_path: Path) -> None:
    price = {"type": "number", "x-type": "decimal(18,3)", "minimum": 0.1, "maximum": 0.3}
    made = contract(tmp_path, {"price": price}, ["price"])
    parsed = parse(made, *(f'{{"price":{price}}}' for price in ("0.099", "0.1", "0.100", "0.3", "0.301")))
    assert parsed.valid.tolist() == [1, 2, 3]


def test_long_values_cost_no_more_than_their_length(tmp_path: Path) -> None:
    million = 1_000_000
    slow = [
        '{"code":"' + "\\\\" * million + "}",
        '{"x":"' + '\\"' * million + "[" * 100,
        "[" * 100 + '"' + '\\"' * million,
        '{"wide":' + "9" * million + "}",
        '{"wide":1e' + "9" * million + "}",
        '{"wide":0.' + "0" * million + "1e1000001}",
        '{"ratio":' + "1" * million + "}",
        '{"grid":1e-' + "9" * million + "}",
        '{"tag":"' + "a-" * million + '"}',
        '{"photo":"' + "A" * million + '"}',
        "{" + '"a":1,' * million + '"a":1}',
    ]
    made = contract(tmp_path, EVERYTHING)
    parsed = Parser(made, 10 * million).parse(pa.array([message.encode() for message in slow], pa.binary()))
    assert dict(zip(parsed.rejected.tolist(), parsed.reasons.to_pylist(), strict=True)) == {
        **{0: "not_json", 1: "not_json", 2: "too_deep", 3: "out_of_range", 4: "out_of_range"},
        **{6: "out_of_range", 8: "bad_text", 9: "out_of_range"},
    }
    assert parsed.sales["wide"].to_pylist() == [1, None, None]
    assert parsed.sales["grid"].to_pylist() == [None, 0, None]
    assert parsed.valid.tolist() == [5, 7, 10]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"x-type": "string", "type": "integer"}, "string"),
        ({"x-type": "int32", "type": ["integer", "string"]}, "integer"),
        ({"x-type": "timestamp", "type": "number"}, "timestamp"),
        ({"x-type": "string", "type": "null"}, "type"),
        ({"x-type": "string", "type": "string", "minimum": 3}, "minimum"),
        ({"x-type": "string", "type": "string", "anyOf": []}, "anyOf"),
        ({"x-type": "boolean", "type": "boolean", "enum": [True]}, "enum"),
        ({"x-type": "string", "type": "string", "pattern": "(?=a)"}, "RE2"),
        ({"x-type": "string", "type": "string", "enum": [1]}, "enum"),
        ({"x-type": "int32", "type": "integer", "enum": ["1"]}, "enum"),
        ({"x-type": "int32", "type": "integer", "minimum": 5, "maximum": 4}, "minimum"),
        ({"x-type": "int32", "type": "integer", "minimum": "5"}, "minimum"),
        ({"x-type": "int32", "type": "integer", "multipleOf": 0}, "multipleOf"),
        ({"x-type": "decimal(2,5)", "type": "number"}, "decimals"),
        ({"x-type": "decimal(39,2)", "type": "number"}, "from 1 to 38 digits"),
        ({"x-type": "decimal(0,0)", "type": "number"}, "from 1 to 38 digits"),
    ],
)
def test_a_contract_that_cannot_be_kept_is_refused_by_name(rules: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(BadContract) as refused:
        Parser(contract(tmp_path, {"field1": rules}), 100)
    assert "field1" in str(refused.value)
    assert words in str(refused.value)


def test_two_fields_may_not_become_one_column(tmp_path: Path) -> None:
    rules = {"type": "string", "x-type": "string", "x-column": "c"}
    with pytest.raises(BadContract, match="the column c"):
        Parser(contract(tmp_path, {"a": rules, "b": rules}), 100)


def test_a_name_that_needs_escapes_is_refused(tmp_path: Path) -> None:
    for name in ('a"b', "a\\b", "a\nb"):
        with pytest.raises(BadContract, match="escapes"):
            Parser(contract(tmp_path, {name: {"type": "string", "x-type": "string"}}), 100)


def test_names_that_are_no_python_names_are_read(tmp_path: Path) -> None:
    names = ["class", "sold-at", "1st", "f0", "", "ä b", "__init__"]
    made = contract(tmp_path, {name: {"type": "integer", "x-type": "int64"} for name in names}, names)
    members = ",".join(f'"{name}":{i}' for i, name in enumerate(names))
    parsed = parse(made, "{" + members + "}", "{" + members + ',"note":1}')
    assert parsed.sales.to_pylist() == [dict(zip(names, range(len(names)), strict=True))] * 2


def test_base64_has_one_spelling(tmp_path: Path) -> None:
    made = contract(tmp_path, {"photo": {"type": "string", "x-type": "binary"}}, ["photo"])
    draw = random.Random(3)
    for _ in range(200):
        value = draw.randbytes(draw.randrange(20))
        written = base64.b64encode(value).decode()
        parsed = parse(made, f'{{"photo":"{written}"}}')
        assert parsed.sales["photo"].to_pylist() == [value]
