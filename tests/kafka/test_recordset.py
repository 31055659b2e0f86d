"""Record batches that another client wrote, read by columns; and what is none of that is refused by its offset."""

from __future__ import annotations

import random
import re
import struct

import numpy as np
import pyarrow as pa
import pytest
from kafka.record.util import calc_crc32c

from pipeline.errors import CorruptMessages
from pipeline.kafka import compression, loops
from pipeline.kafka.recordset import RecordSet
from tests.kit import record_batches as made
from tests.kit.record_batches import as_array, batch, control, empty

NOON = 1_767_355_200_000
SALES = [(n, NOON + n, f"sale {n}".encode()) for n in range(5)]


def read(*batches: bytes, first: int = 0, end: int = 1 << 60, aborted=()) -> list[tuple[int, int, bytes | None]]:
    """Offset, milliseconds, value of each message."""
    records = RecordSet("sales", 3, as_array(*batches), first, aborted)
    found = []
    for some in records.messages(first, end):
        some.validate(full=True)
        assert set(some["topic"].to_pylist()) <= {"sales"}
        assert set(some["partition"].to_pylist()) <= {3}
        times = [time // 1_000 for time in some["timestamp"].cast(pa.int64()).to_pylist()]
        found += zip(some["offset"].to_pylist(), times, some["value"].to_pylist(), strict=True)
    return found


def at(base: int, messages=SALES) -> list[tuple[int, int, bytes | None]]:
    return [(base + offset, time, value) for offset, time, value in messages]


def test_offsets_times_and_values_are_those_that_were_written() -> None:
    untidy = [(0, NOON, None), (1, NOON - 5, b""), (2, NOON + 9, b"x" * 300_000), (7, NOON, b"\xff\x00")]
    assert read(batch(10, SALES), batch(100, untidy)) == at(10) + at(100, untidy)


@pytest.mark.parametrize("codec", [made.GZIP, made.SNAPPY, made.LZ4, made.ZSTD])
def test_every_compression_is_read_beside_plain_batches(codec: int) -> None:
    large = [(n, NOON, random.Random(n).randbytes(90_000)) for n in range(9)]  # several pieces of Snappy's framing
    given = [batch(0, SALES), batch(10, large, codec), batch(30, SALES, codec), batch(40, SALES)]
    assert read(*given) == at(0) + at(10, large) + at(30) + at(40)


def test_snappy_without_javas_frame_is_read_as_librdkafka_writes_it() -> None:
    plain = batch(5, SALES)
    packed = pa.Codec("snappy").compress(plain[61:], asbytes=True)
    data = bytearray(plain[:61] + packed)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, 21, made.SNAPPY)
    assert read(made.sealed(data)) == at(5)


def test_only_the_offsets_asked_for_come_and_the_next_to_ask_for_is_behind_all_that_came() -> None:
    given = batch(10, SALES), batch(15, SALES, made.ZSTD), batch(20, SALES)
    assert read(*given, first=13, end=18) == [*at(10)[3:], *at(15)[:3]]
    assert RecordSet("sales", 0, as_array(*given), 13).next_offset == 25


def test_a_time_that_the_broker_stamped_counts_for_all_of_a_batch() -> None:
    assert [time for _, time, _ in read(batch(0, SALES, flags=made.STAMPED))] == [NOON + 4] * 5


def test_times_that_no_calendar_has_are_bounded() -> None:
    for time, bounded in ((1 << 62, "10000-01-01T00:00:00.000"), (-(1 << 62), "0001-01-01T00:00:00.000")):
        [some] = RecordSet("sales", 0, as_array(batch(0, [(0, time, b"")])), 0).messages(0, 1)
        expected = np.datetime64(bounded, "us").astype(np.int64)
        assert some["timestamp"].cast(pa.int64()).to_pylist() == [expected]


def test_what_compaction_and_the_end_of_an_answer_leave_out_is_no_fault() -> None:
    thinned = [SALES[1], SALES[3]]
    given = batch(0, thinned, last=9), empty(10, 19), batch(20, SALES)
    cut = batch(25, SALES)[:-3]
    assert read(*given, cut) == at(0, thinned) + at(20)
    assert RecordSet("sales", 0, as_array(*given, cut), 0).next_offset == 25
    assert RecordSet("sales", 0, as_array(*given[:2]), 0).next_offset == 20
    assert RecordSet("sales", 0, as_array(batch(0, SALES), control(5, 1, made.COMMIT)), 0).next_offset == 6


def test_control_records_never_come_and_aborted_transactions_do_not_when_they_are_named() -> None:
    def of(producer: int, base: int) -> bytes:
        return batch(base, SALES, producer=producer, transactional=True)

    given = [
        of(7, 0), of(8, 5), control(10, 7, made.ABORT), of(7, 11), batch(16, SALES, producer=7),
        control(21, 8, made.COMMIT), of(7, 22), control(27, 7, made.ABORT), of(8, 28), control(33, 8, made.ABORT),
    ]  # fmt: skip
    assert read(*given) == [message for base in (0, 5, 11, 16, 22, 28) for message in at(base)]
    # Producer 7 aborts its first transaction and its last one, which begins at 22; 8 its second.
    aborted = [(7, 22), (8, 28), (7, 0)]
    assert read(*given, aborted=aborted) == at(5) + at(11) + at(16)
    # Asked from the middle of an aborted transaction: the broker names where it began.
    assert read(*given[1:], first=5, aborted=[(7, 22), (8, 28), (7, 0)]) == at(5) + at(11) + at(16)


def test_an_aborted_transaction_of_one_message_does_not_come() -> None:
    alone = batch(0, SALES[:1], producer=7, transactional=True)
    assert read(alone, control(1, 7, made.ABORT), batch(2, SALES), aborted=[(7, 0)]) == at(2)


def _changed(data: bytes, place: int, form: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, place, value)
    return bytes(changed)


def _sealed(data: bytes, place: int, form: str, value: int) -> bytes:
    return made.sealed(bytearray(_changed(data, place, form, value)))


GOOD = batch(10, SALES)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (_changed(GOOD, 80, ">b", 7), r"from offset 10 on .* checksum \(CRC32C\)"),
        (_changed(GOOD, 16, ">b", 1), r"old message format .* only Spark's source"),
        (_changed(GOOD, 8, ">i", 48), "shorter than its own header"),
        (_changed(GOOD, 8, ">i", -1), "shorter than its own header"),
        (_sealed(GOOD, 57, ">i", 6), "more records than it can have"),
        (_sealed(_sealed(GOOD, 57, ">i", 1 << 30), 23, ">i", (1 << 31) - 1), "more records than it can have"),
        (_sealed(GOOD, 57, ">i", 4), "goes on behind its last record"),
        (_sealed(_sealed(GOOD, 23, ">i", 9), 57, ">i", 6), "reaches over the end"),
        (_sealed(GOOD, 61, ">B", 0xFF), "reaches over the end"),
        (_sealed(GOOD, 23, ">i", 3), "more records than it can have"),
        (_sealed(GOOD, 64, ">B", 0x0C), "offsets do not grow"),
        (_sealed(GOOD, 62 + (GOOD[61] >> 1) + 3, ">B", 0), "offsets do not grow"),  # the second record's
        (_sealed(GOOD, 0, ">q", 4), "offsets do not grow"),
        (_sealed(GOOD, 21, ">h", 5), r"compression 5 is not known"),
        (_sealed(GOOD, 21, ">h", made.ZSTD), r"reaches over the end of its batch \(.+\)"),
    ],
)
def test_a_damaged_batch_is_refused_with_topic_partition_and_offset(bad: bytes, says: str) -> None:
    before = batch(5, SALES)
    with pytest.raises(CorruptMessages, match=r"^sales/3: the messages from offset \d+ on") as refused:
        read(before, bad, first=5)
    assert re.search(says, str(refused.value)), refused.value
    assert "offset 10 on" in str(refused.value) or "offset 4 on" in str(refused.value)


def test_an_answer_without_one_whole_batch_is_refused() -> None:
    with pytest.raises(CorruptMessages, match="from offset 10 on"):
        RecordSet("sales", 3, as_array(GOOD[:50]), 10)


def test_damage_of_any_kind_is_refused_or_changes_nothing_and_never_reads_elsewhere() -> None:
    """Bytes at random places, with the checksum made to fit, so that all that stands behind it is tried."""
    dice = random.Random(4)
    codecs = (made.NONE, made.NONE, made.NONE, made.LZ4, made.SNAPPY, made.GZIP, made.ZSTD)
    refused = 0
    for attempt in range(4_000):
        data = bytearray(batch(0, SALES, codecs[attempt % len(codecs)]))
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(len(data))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        if dice.random() < 0.3:
            del data[dice.randrange(len(data)) :]
        if len(data) > 61:
            data = bytearray(made.sealed(data))
        try:
            found = read(bytes(data))
        except CorruptMessages:
            refused += 1
            continue
        assert len(found) <= 5
        assert sum(len(value or b"") for _, _, value in found) <= 1_000
    assert refused > 1_000


def test_what_a_batch_may_come_to_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "MOST", 1 << 20)
    zeros = [(0, NOON, bytes(3 << 20))]
    for codec in (made.GZIP, made.SNAPPY, made.LZ4, made.ZSTD):
        with pytest.raises(CorruptMessages, match="comes to more than 1 MiB"):
            read(batch(0, zeros, codec))


def test_the_checksum_is_castagnolis_for_every_length() -> None:
    data = np.frombuffer(random.Random(1).randbytes(200), np.uint8)
    for begin, end in [(0, 0), (0, 1), (3, 18), (0, 16), (1, 17), (5, 40), (0, 200)]:
        assert loops.crc32c(data, begin, end) == calc_crc32c(data[begin:end].tobytes())
