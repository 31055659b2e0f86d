"""The parts the joins are made of, against plain Python doing the same."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.joins.parts.budget import most_that_fit
from pipeline.joins.parts.cycle import CyclicScan
from pipeline.joins.parts.keycodes import KeyCoder
from pipeline.joins.parts.keyindex import KeyIndex
from pipeline.joins.parts.sketch import Sketch
from pipeline.joins.parts.waiting import WaitingSales
from pipeline.master.memory import MemoryMaster


def words(numbers) -> np.ndarray:
    return np.asarray(numbers, np.uint64).reshape(-1, 1)


@pytest.mark.parametrize("seed", range(40))
def test_a_key_index_is_a_dictionary(seed):
    random = np.random.default_rng(seed)
    capacity = int(random.integers(1, 60))
    index, known = KeyIndex(capacity, words=1), {}
    for _ in range(30):
        keys = random.integers(0, 80, random.integers(0, 25))
        if len(known.keys() | set(keys.tolist())) <= capacity:
            for key, slot in zip(keys.tolist(), index.add(words(keys)).tolist(), strict=True):
                assert known.setdefault(key, slot) == slot
        assert index.find(words(range(80))).tolist() == [known.get(key, -1) for key in range(80)]
        leaving = random.choice(sorted(known), random.integers(0, len(known) + 1), replace=False) if known else []
        index.remove(np.array([known.pop(int(key)) for key in leaving], np.int32))
        index.check()


def test_a_full_key_index_refuses_another_key():
    index = KeyIndex(2, words=1)
    index.add(words([1, 2]))
    with pytest.raises(OverflowError, match="room for 0 of 2"):
        index.add(words([3]))


@pytest.mark.parametrize("seed", range(20))
def test_a_sketch_never_counts_too_little_but_for_what_it_takes_off_for_all(seed):
    random = np.random.default_rng(seed)
    sketch, uses = Sketch(rows=50), np.zeros(60)
    for _ in range(10):
        keys = random.integers(0, 60, 30)
        sketch.missed(words(keys))
        uses += np.bincount(keys, minlength=60)
    for_all = sketch.counted / (16 * 50)
    assert (sketch.wanted(words(range(60))) + for_all >= np.minimum(uses, 15) - 1e-5).all()


def test_an_empty_sketch_remembers_nothing():
    sketch = Sketch(rows=0)
    sketch.missed(words([1, 2]))
    sketch.age(0.1)
    assert sketch.wanted(words([1, 2])).tolist() == [0, 0]


@pytest.mark.parametrize("seed", range(40))
def test_waiting_sales_are_a_queue_with_a_multimap(seed):
    random = np.random.default_rng(seed)
    waiting, model, position = WaitingSales(int(random.integers(1, 80)), words=1), [], 0
    for _ in range(30):
        keys = random.integers(0, 30, random.integers(0, waiting.room + 1))
        waiting.admit(np.arange(position, position + len(keys)), words(keys))
        model += zip(range(position, position + len(keys)), keys.tolist(), strict=True)
        position += len(keys)
        few = int(random.integers(1, 9))
        assert waiting.positions[waiting.oldest(few)].tolist() == [sale for sale, _ in model[:few]]
        rows = random.integers(0, 30, random.integers(0, 12))
        places, numbers = waiting.match(words(rows))
        met = sorted(zip(waiting.positions[places].tolist(), numbers.tolist(), strict=True))
        assert met == sorted((sale, n) for sale, key in model for n, row in enumerate(rows.tolist()) if row == key)
        if random.random() < 0.7:
            gone = set(waiting.release(np.unique(places)).tolist())
            model = [(sale, key) for sale, key in model if sale not in gone]
        waiting.check()
        assert len(waiting) == len(model)


XS = [b"x" * length for length in (22, 23, 24)]
KEYS = [b"", b"\0", b"\0\0", b"a", b"a\0", b"A", b"a ", *XS, b"x" * 24 + b"\0", b"y" * 5_000]


def test_codes_are_the_same_exactly_when_the_keys_are():
    coder = KeyCoder(pa.binary(), longest=10)
    codes = coder.encode(pa.array(KEYS, pa.binary()))
    for row in range(len(KEYS)):
        assert np.flatnonzero((codes == codes[row]).all(axis=1)).tolist() == [row]
    assert coder.decode(codes).to_pylist() == KEYS


def test_a_slice_and_a_buffer_without_padding_have_the_codes_of_a_copy():
    coder = KeyCoder(pa.binary(), longest=10)
    whole = pa.array(KEYS, pa.binary())
    offsets, data = np.array([0, 1, 3], np.int32), b"abc"
    bare = pa.Array.from_buffers(pa.binary(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    assert coder.decode(coder.encode(whole.slice(3, 4))).to_pylist() == KEYS[3:7]
    assert coder.decode(coder.encode(bare)).to_pylist() == [b"a", b"bc"]
    assert len(coder.encode(whole.slice(2, 0))) == 0


def test_integers_are_their_own_codes():
    numbers = [0, -1, 2**63 - 1, -(2**63)]
    coder = KeyCoder(pa.int64(), longest=8)
    assert coder.decode(coder.encode(pa.array(numbers))).to_pylist() == numbers
    assert coder.words == 1


def test_a_scan_that_reads_ahead_shows_whoever_comes_in_all_that_is_there_by_then():
    rows = {b"%03d" % number: number for number in range(0, 100, 2)}
    master = MemoryMaster.of(rows)
    scan = CyclicScan(master, rows=10, slots=4, ahead=True)
    scan.enqueue(1)
    scan.read()
    # The next read is on its way without this row, which is there when the second segment comes in.
    master.replace(MemoryMaster.of({**rows, b"021": 21}).table)
    scan.enqueue(2)
    seen, complete = [], []
    while 2 not in complete:
        seen += scan.read()["key"].to_pylist()
        complete += scan.complete()
        scan.check()
    assert complete == [1, 2]
    assert b"021" in seen
    assert len(seen) <= 51 + 10


@pytest.mark.parametrize("ahead", [False, True])
def test_each_segment_of_a_cyclic_scan_meets_every_row_exactly_once(ahead):
    master = MemoryMaster.of({b"%03d" % number: number for number in range(95)})
    scan = CyclicScan(master, rows=10, slots=3, ahead=ahead)
    met, left = {}, set()
    for segment in range(12):
        while not scan.takes_segment:
            advance(scan, met, left)
        late = scan._under_way is not None
        scan.enqueue(segment)
        met |= {} if late else {segment: []}
        advance(scan, met, left)
        met |= {segment: []} if late else {}
    while len(left) < 12:
        advance(scan, met, left)
    assert all(sorted(rows) == list(range(95)) for rows in met.values())


def advance(scan: CyclicScan, met: dict[int, list[int]], left: set[int]) -> None:
    """Who has come in meets what is read, until he leaves."""
    rows = scan.read()["surrogate_key"].to_pylist()
    for segment in met.keys() - left:
        met[segment] += rows
    left.update(scan.complete())


@pytest.mark.parametrize("bend", [0.0, 0.01, 3.0])
@pytest.mark.parametrize(("beside", "each"), [(0, 1.0), (0, 0.3), (300, 7.0)])
def test_as_many_fit_as_counting_says_whatever_shape_their_bytes_have(beside, each, bend):
    def bytes_for(number: int) -> float:
        return beside + each * number + bend * number**2 + 4 * (number // 7)

    sizes = [bytes_for(number) for number in range(402)]
    for memory in (-5, *np.random.default_rng(0).uniform(0, 4_000, 50), *sizes[:60:7]):
        for most in (-1, 0, 1, 13, 400):
            counted = sum(size <= memory for size in sizes[1 : max(0, most) + 1])
            assert most_that_fit(memory, bytes_for, most) == counted
