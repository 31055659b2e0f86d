"""An answer is decoded exactly, however its bytes arrive."""

import struct

import pymysql.err
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import BadContract
from pipeline.master.mysql.drivers import as_rows
from pipeline.master.mysql.faults import is_passing
from pipeline.master.mysql.wire import Wire
from tests.kit.recorded import END, Recorded, packets, result


def received(answer: bytes, pieces=(1 << 20,)):
    wire = Wire(Recorded(answer, list(pieces)), timeout=60)
    wire.send("SELECT")
    return as_rows(wire.receive())


@st.composite
def results(draw):
    """Rows alike enough to be guessed, and some with whatever could mislead a guess."""
    odd = st.sampled_from(
        [None, b"", b"\0\0", b"\0" * 9, b"\x05\0\0\x01\xfe\0\0\0\0", b"x" * 250, b"y" * 251, b"z" * 300]
    )
    columns = draw(st.integers(1, 4))
    number = draw(st.one_of(st.integers(0, 40), st.integers(250, 1_500)))
    usual = [tuple(f"{row}.{column}".encode() for column in range(columns)) for row in range(number)]
    for place in draw(st.lists(st.integers(0, max(0, number - 1)), max_size=5)) if number else []:
        usual[place] = tuple(draw(st.one_of(odd, st.binary(max_size=30))) for _ in range(columns))
    return usual, columns


@settings(deadline=None, max_examples=60)
@given(results(), st.lists(st.integers(3, 9_000), min_size=1, max_size=5))
def test_rows_are_read_as_they_were_sent_however_they_are_cut(result_, pieces):
    rows, columns = result_
    assert received(result(rows, columns), pieces) == rows


def test_answers_of_many_buffers_and_cells_larger_than_one_are_read():
    rows = [(b"%d" % number, b"a" * (number % 400), None) for number in range(20_000)]
    rows[7_000] = (b"wide", b"w" * 3_000_000, b"\0" * 70_000)
    assert received(result(rows, 3), [65_536, 1, 300_000]) == rows


def test_a_statement_without_rows_has_no_columns():
    assert received(packets(b"\0\0\0\x02\0\0\0")) == []


@pytest.mark.parametrize("rows", [None, 0, 3, 5_000])
def test_an_error_is_told_wherever_it_comes(rows):
    error = b"\xff" + struct.pack("<H", 1317) + b"#70100Query execution was interrupted"
    answer = packets(error) if rows is None else result([(b"1", b"2")] * rows, 2, last=error)
    with pytest.raises(pymysql.err.OperationalError, match="interrupted") as failed:
        received(answer)
    assert failed.value.args[0] == 1317


@pytest.mark.parametrize("kept", [0, 3, 60, 200])
def test_a_connection_that_ends_in_the_middle_of_an_answer_is_no_answer(kept):
    with pytest.raises(ConnectionResetError):
        received(result([(b"1", b"2")] * 50, 2)[:kept])


def test_a_row_that_does_not_fit_into_a_packet_is_refused():
    with pytest.raises(BadContract, match="16 MiB"):
        received(result([], 1)[:-9] + b"\xff\xff\xff\x09" + b"x" * 100)


@pytest.mark.parametrize("rows", [3, 40])
@pytest.mark.parametrize(
    "lie",
    [
        b"\xfd\xff\xff\xffx", b"\xfc\xff\xffx", b"\xfa", b"\x01ax", b"\xfd\x01", b"\xfe" + b"\xff" * 8, b"\xff\0\0",
        b"",
    ],
    ids=["16 MiB", "64 KiB", "250 bytes", "behind its last", "cut off", "of eight bytes", "no length", "none"],
)  # fmt: skip
def test_a_cell_is_believed_only_within_its_row(rows, lie):
    """The first of these lies killed the process: Arrow was sent 16 MiB beyond the buffer."""
    head = [b"\x02", *[b"\x03def" + bytes(20)] * 2, END]
    good, bad = b"\x05hello\xfb", b"\x01a" + lie
    for answer in ([good] * (rows - 1) + [bad], [bad] + [good] * (rows - 1), [good] * (rows - 1) + [b""]):
        with pytest.raises(ConnectionError, match="garbled"):
            received(packets(*head, *answer, END))


@pytest.mark.parametrize("begins", [b"", b"\xfb/etc/passwd", b"\xfc\x01", b"\xfe" + bytes(9)])
def test_what_begins_no_answer_is_none_and_another_connection_is_tried(begins):
    with pytest.raises(ConnectionError, match="garbled") as garbled:
        received(packets(begins, b"\x03def" + bytes(20), END, b"\x01a", END))
    assert is_passing(garbled.value)


def test_a_long_statement_is_cut_into_packets():
    connected = Recorded(b"", [1])
    Wire(connected, timeout=60).send("x" * (0xFFFFFF - 1))
    assert connected.sent[:5] == b"\xff\xff\xff\x00\x03"
    assert connected.sent[-4:] == b"\0\0\0\x01"
    assert len(connected.sent) == 0xFFFFFF + 8
