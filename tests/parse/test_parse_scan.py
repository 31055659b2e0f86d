"""The compiled scan of every kind of field: held to the strict path whatever the bytes are, and to its own memory."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline.config.contracts import TopicContract
from pipeline.parse import Parser, columns, fast
from pipeline.parse.loops import layout
from tests.kit.parse_kinds import BEYOND, EVERYTHING, GOOD, LEFT, contract, parsed_alike
from tests.kit.parse_mutants import mutated, written
from tests.kit.parse_samples import CONTRACT, message

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> TopicContract:
    return contract(tmp_path_factory.mktemp("every"), EVERYTHING)


@pytest.fixture(scope="module")
def scanned_required(tmp_path_factory: pytest.TempPathFactory) -> TopicContract:
    required = [field for field in EVERYTHING if field not in LEFT]
    return contract(tmp_path_factory.mktemp("required"), EVERYTHING, required)


def binary(messages: list[Any]) -> pa.Array:
    return pa.array(messages, pa.binary())


@pytest.mark.parametrize("seed", range(4))
def test_messages_with_mutated_bytes_are_judged_as_the_strict_path_judges_them(seed: int, every: TopicContract) -> None:
    draw = random.Random(seed)
    messages = binary([mutated(draw) for _ in range(5_000)])
    parsed, (_, scanned) = parsed_alike(every, messages), Parser(every, 1 << 20)._fast.sales(messages)
    assert len(parsed.valid) > len(scanned) + 20  # each of the three things came to pass
    assert min(len(parsed.rejected), len(scanned)) > 1_000


def test_required_fields_too(scanned_required: TopicContract) -> None:
    draw = random.Random(99)
    parsed = parsed_alike(scanned_required, binary([mutated(draw) for _ in range(8_000)]))
    assert min(len(parsed.valid), len(parsed.rejected)) > 250


def test_a_message_cut_anywhere_is_judged_as_the_strict_path_judges_it(every: TopicContract) -> None:
    draw = random.Random(5)
    for _ in range(6):
        message = written(draw, 0)
        parsed = parsed_alike(every, binary([message[:size] for size in range(len(message) + 1)]))
        assert len(parsed.rejected) >= len(message.rstrip())


@pytest.mark.parametrize("seed", range(2))
def test_not_a_byte_is_read_beyond_the_messages(seed: int) -> None:
    command = [sys.executable, "-m", "tests.kit.parse_guarded", str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert min(json.loads(done.stdout)) > 300


def test_slices_nulls_and_empty_messages_keep_their_places(every: TopicContract) -> None:
    draw = random.Random(11)
    messages = [draw.choice([None, b"", written(draw), written(draw)]) for _ in range(200)]
    whole = binary(messages)
    for start, count in ((0, 200), (1, 199), (7, 64), (8, 8), (63, 70), (199, 1), (200, 0), (50, 0)):
        for values in (whole.slice(start, count), pa.array(messages, pa.large_binary()).slice(start, count)):
            parsed = parsed_alike(every, values)
            assert set(np.flatnonzero([not given for given in messages[start : start + count]])) <= {*parsed.rejected}


def test_pieces_give_what_the_whole_gives(every: TopicContract) -> None:
    draw = random.Random(12)
    pieces = pa.chunked_array([binary([mutated(draw) for _ in range(count)]) for count in (300, 0, 1, 77)])
    parser = Parser(every, 1 << 20)
    parts, whole = [parser.parse(piece) for piece in pieces.chunks], parser.parse(pieces.combine_chunks())
    assert pa.concat_tables([part.sales for part in parts]).equals(whole.sales)
    assert [detail for part in parts for detail in part.details.to_pylist()] == whole.details.to_pylist()


def test_messages_that_have_no_bytes_at_all(every: TopicContract) -> None:
    for messages in ([], [None], [b""], [None, b"", None]):
        assert parsed_alike(every, binary(messages)).rejected.tolist() == [*range(len(messages))]


def test_a_message_longer_than_allowed_is_not_looked_into(every: TopicContract) -> None:
    messages = [b'{"code":"ab"}', b'{"code":"ab" }', b"no json at all"]
    assert parsed_alike(every, binary(messages), limit=13).reasons.to_pylist() == ["too_large"] * 2


class Watched(columns.Column):
    """Has bytes behind the room for its texts that are to stay as they are."""

    def __init__(self, kind: int, has_nulls: bool, count: int, size: int) -> None:
        super().__init__(kind, has_nulls, count, size + 64)

    def _behind(self) -> Any:
        return np.frombuffer(self._texts, np.uint8)[-64:]

    def place(self) -> list[int]:
        *words, room = super().place()
        self._behind()[:] = 0xA5
        return [*words, max(0, room - 64)]

    def grow(self, rows: int, done: float) -> None:
        assert (self._behind() == 0xA5).all()
        super().grow(rows, done)

    def array(self, rows: int, of_type: pa.DataType) -> pa.Array:
        assert (self._behind() == 0xA5).all()
        return super().array(rows, of_type)


@pytest.mark.parametrize("room", [80, 81, 1_000])
def test_texts_that_outgrow_their_room_get_more_and_stay_within(
    room: int, every: TopicContract, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(room)
    messages = [mutated(draw) for _ in range(2_000)]
    sizes = (1, 15, 16, 17, 5_000, 40_000, 3)
    messages[1_000:1_000] = [f'{{"tag":"{"a" * size}","füll":1}}'.encode() for size in sizes]
    expected = Parser(every, 1 << 20).parse(binary(messages))
    monkeypatch.setattr(columns, "_FIRST_TEXTS", room)
    monkeypatch.setattr(fast, "Column", Watched)
    parsed = Parser(every, 1 << 20).parse(binary(messages))
    assert parsed.sales.equals(expected.sales)
    assert parsed.details.equals(expected.details)


def test_a_scan_takes_the_memory_of_its_columns(arrow_memory: pa.MemoryPool) -> None:
    text, count = message(sale_id='"a sale with a longer name"'), 200_000
    offsets = np.arange(count + 1, dtype=np.int32) * len(text)  # not of Arrow's memory, and so not counted
    messages = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text * count)])
    Parser(CONTRACT, 1 << 20).parse(messages.slice(0, 10))
    before = arrow_memory.max_memory()
    tracemalloc.start()
    parsed = Parser(CONTRACT, 1 << 20).parse(messages)
    _, of_python = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(parsed.sales) == count
    most = parsed.sales.nbytes + parsed.valid.nbytes
    assert before < most / 5
    assert arrow_memory.max_memory() + of_python < 1.15 * most


@pytest.mark.parametrize("field", [field for field in EVERYTHING if field not in LEFT])
def test_the_scan_takes_what_the_table_in_its_module_says(field: str, tmp_path: Path) -> None:
    made = contract(tmp_path, {field: EVERYTHING[field]})
    messages = [f'{{"{field}":{value}}}'.encode() for value, _ in GOOD[field] if value not in BEYOND]
    _, sure = Parser(made, 1 << 20)._fast.sales(binary(messages))
    assert sure.tolist() == [*range(len(messages))]


@pytest.mark.parametrize(
    "rules",
    [
        {"type": "string", "x-type": "string", "minLength": 1.0, "maxLength": 10**30},
        {"type": "string", "x-type": "string", "minLength": 10**30},
        {"type": "integer", "x-type": "int64", "multipleOf": 10**30},
        {"type": "number", "x-type": "decimal(38,2)", "multipleOf": 10**30, "enum": [0, 10**30, 1]},
        {"type": "number", "x-type": "decimal(38,2)", "minimum": -(10**30), "maximum": 10**25},
        {"type": "integer", "x-type": "int32", "enum": [5, 10**30]},
        {"type": "number", "x-type": "double", "minimum": -(10**300), "exclusiveMaximum": 10**30},
    ],
)
def test_rules_beyond_64_bits_are_kept(rules: dict[str, Any], tmp_path: Path) -> None:
    made = contract(tmp_path, {"x": rules})
    given = [
        '""',
        '"a"',
        "0",
        "5",
        "100",
        *(f"{sign}{10**power}" for power in (18, 19, 25, 30, 31) for sign in ("", "-")),
    ]
    assert len(parsed_alike(made, binary([f'{{"x":{value}}}'.encode() for value in given])).rejected) > 0


def test_no_word_of_the_tables_has_the_name_of_another() -> None:
    kinds, others = 9, ("RULES", "COLUMNS", "STATE", "UNSURE", "FULL", "ROOM")
    words = {name for name in vars(layout) if name.isupper()} - {*others}
    assert len(words) == kinds + layout.RULES + layout.COLUMNS + layout.STATE
