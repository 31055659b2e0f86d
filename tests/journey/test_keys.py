"""Keys of one or several columns become one array, and come back."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.keys import pack, unpack

# The first text drawn builds a table of all of Unicode: slow on a busy machine, and no fault of the test.
patiently = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

VALUES = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "string": st.text(max_size=6),
    "binary": st.binary(max_size=6),
}
ARROW = {"int64": pa.int64(), "string": pa.string(), "binary": pa.binary()}


@st.composite
def key_columns(draw, nulls: bool = False):
    """The types of a natural key and some rows of it."""
    types = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    component = [st.none() | VALUES[kind] if nulls else VALUES[kind] for kind in types]
    return types, draw(st.lists(st.tuples(*component), max_size=12))


def as_columns(types, rows):
    return [pa.array([row[i] for row in rows], ARROW[kind]) for i, kind in enumerate(types)]


@patiently
@given(key_columns())
def test_what_is_packed_comes_back(drawn):
    types, rows = drawn
    unpacked = unpack(pack(as_columns(types, rows)), types)
    assert [column.type for column in unpacked] == [ARROW[kind] for kind in types]
    assert list(zip(*[column.to_pylist() for column in unpacked], strict=True)) == rows


@patiently
@given(key_columns())
def test_packed_keys_are_equal_exactly_when_all_their_columns_are(drawn):
    types, rows = drawn
    packed = pack(as_columns(types, rows)).to_pylist()
    for left, left_key in zip(rows, packed, strict=True):
        for right, right_key in zip(rows, packed, strict=True):
            assert (left == right) == (left_key == right_key)


@patiently
@given(key_columns(nulls=True))
def test_a_null_in_any_column_makes_the_key_null(drawn):
    types, rows = drawn
    packed = pack(as_columns(types, rows))
    assert packed.is_null().to_pylist() == [None in row for row in rows]
    whole = [row for row in rows if None not in row]
    unpacked = unpack(packed.drop_null(), types)
    assert list(zip(*[column.to_pylist() for column in unpacked], strict=True)) == whole


@patiently
@given(key_columns(), st.integers(0, 5), st.integers(0, 5))
def test_a_slice_is_packed_and_unpacked_like_its_rows(drawn, first, length):
    types, rows = drawn
    packed = pack([column.slice(first, length) for column in as_columns(types, rows)])
    wanted = rows[first : first + length]
    assert packed.equals(pack(as_columns(types, wanted)))
    unpacked = unpack(pack(as_columns(types, rows)).slice(first, length), types)
    assert list(zip(*[column.to_pylist() for column in unpacked], strict=True)) == wanted


@pytest.mark.parametrize(
    ("column", "packed"),
    [
        (pa.array([1, None], pa.int32()), pa.array([1, None], pa.int64())),
        (pa.array(["a", None], pa.large_string()), pa.array([b"a", None], pa.binary())),
        (pa.chunked_array([["a"], ["b"]]), pa.array([b"a", b"b"], pa.binary())),
        (pa.array([], pa.string()), pa.array([], pa.binary())),
    ],
)
def test_one_column_becomes_int64_or_binary(column, packed):
    assert pack([column]).equals(packed)


def test_a_single_text_is_not_copied():
    texts = pa.array(["ale", "bun"])
    assert pack([texts]).buffers()[2].address == texts.buffers()[2].address
