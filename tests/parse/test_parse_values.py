"""What is written for a field, whatever it is, is read as the strict path reads it; a double is the nearest one."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.config.contracts import TopicContract
from pipeline.parse import Parser
from tests.kit.parse_kinds import EVERYTHING, contract, parsed_alike


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> TopicContract:
    return contract(tmp_path_factory.mktemp("every"), EVERYTHING)


def binary(messages: list[Any]) -> pa.Array:
    return pa.array(messages, pa.binary())


def numbers_like(draw: random.Random) -> str:
    kind = draw.randrange(7)
    if kind == 0:
        return repr(np.frombuffer(draw.randbytes(8), np.float64)[0].item())
    if kind == 1:
        return repr(draw.uniform(-1000, 1000))
    if kind == 2:
        return f"{draw.randrange(10**19)}e{draw.randrange(-345, 312)}"
    if kind == 3:
        return f"{draw.choice(['', '-'])}{draw.randrange(10**9)}.{draw.randrange(10**9):09d}"
    if kind == 4:  # halfway between two doubles, or one off
        odd = (1 << 53) + 2 * draw.randrange(1 << 52) + 1
        return str((odd << draw.randrange(10)) + draw.choice([-1, 0, 0, 1]))
    if kind == 5:
        return f"{(1 << 53) + 2 * draw.randrange(1 << 20) + 1}{'0' * draw.randrange(3)}e-{draw.randrange(12)}"
    return f"0.{'0' * draw.randrange(30)}{draw.randrange(10**17)}E+{draw.randrange(30)}"


def test_a_double_is_the_nearest_to_its_digits(tmp_path: Path) -> None:
    made = contract(tmp_path, {"x": {"type": "number", "x-type": "double"}}, ["x"])
    draw = random.Random(17)
    texts = [text for text in (numbers_like(draw) for _ in range(150_000)) if "n" not in text]
    texts += [f"{digits}e{power}" for digits in (1, 7, (1 << 53) - 1, 10**19 - 1) for power in range(-400, 400)]
    values, sure = Parser(made, 1 << 20)._fast.sales(binary([f'{{"x":{text}}}'.encode() for text in texts]))
    assert len(sure) > 0.95 * len(texts)
    expected = np.array([float(texts[i]) + 0.0 for i in sure])
    assert (values["x"].to_numpy().view(np.int64) == expected.view(np.int64)).all()


WHOLE = st.integers(-(10**21), 10**21).map(str)
WRITTEN = st.one_of(
    WHOLE,
    st.sampled_from([1 << 31, 1 << 32, 1 << 63, 1 << 64, 10**18, 10**19, 10**20, 10**38])
    .flatmap(lambda edge: st.integers(edge - 2, edge + 2))
    .map(str),
    st.decimals(-(10**28), 10**28, places=10).map(lambda number: f"{number:f}"),
    st.decimals(-1, 1, places=20).map(lambda number: f"{number:f}"),
    st.from_regex(r"\A-?(0|[1-9][0-9]{0,21})(\.[0-9]{1,22})?0{0,3}([eE][+-]?[0-9]{1,2})?\Z"),
)
NUMBERS = st.one_of(WRITTEN, WRITTEN.map(lambda text: f'"{text}"'), st.floats(allow_nan=False).map(json.dumps))
TIMES = st.from_regex(
    r'\A"(20[0-9]{2}|0000|0001|9999)-(0[1-9]|1[0-3])-([0-2][0-9]|3[0-2])'
    r'([Tt]([01][0-9]|2[0-4]):[0-5][0-9]:[0-6][0-9](\.[0-9]{0,7})?([zZ]|[+-]([01][0-9]|2[0-4]):[0-6][0-9])?)?"\Z'
)
TEXTS = st.one_of(st.text(), st.text("ab-=/+A0", max_size=14), st.text("aä😀", max_size=5))
STRINGS = st.one_of(TEXTS.map(json.dumps), TEXTS.map(lambda text: json.dumps(text, ensure_ascii=False)))
MEMBERS = st.dictionaries(
    st.sampled_from([*EVERYTHING, "x"]), st.one_of(NUMBERS, TIMES, STRINGS, st.sampled_from(["true", "null"]))
)
GIVEN = st.one_of(st.none(), st.binary(max_size=40), MEMBERS.map(
    lambda members: ("{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}").encode(
        "utf-8", "surrogatepass")
))  # fmt: skip


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(messages=st.lists(GIVEN, max_size=12))
def test_whatever_a_field_is_given_is_judged_as_the_strict_path_judges_it(
    messages: list[bytes | None], every: TopicContract
) -> None:
    parsed_alike(every, binary(messages))


@pytest.mark.parametrize("kind", ["small", "wide", "fine", "huge", "ratio", "at", "day", "photo", "tag"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_each_kind_alone(kind: str, data: st.DataObject, every: TopicContract) -> None:
    fitting = TIMES if kind in ("at", "day") else STRINGS if kind in ("photo", "tag") else NUMBERS
    values = data.draw(st.lists(fitting, min_size=1, max_size=20))
    parsed_alike(every, binary([f'{{"{kind}":{value}}}'.encode("utf-8", "surrogatepass") for value in values]))
