"""The page directory leads to the right page, learns when R grows, and stays within its memory."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.joins.parts.pages import PageDirectory
from pipeline.master.memory import MemoryMaster
from tests.joins.workloads import master_table


def of_numbers(numbers) -> MemoryMaster:
    return MemoryMaster(master_table(list(numbers), "integers"))


def of_texts(texts) -> MemoryMaster:
    return MemoryMaster(master_table(list(texts), "texts"))


def directory(master: MemoryMaster, rows_a_page: int, memory: float = 1 << 20) -> PageDirectory:
    return PageDirectory(master, rows_a_page, memory)


def found_on_their_pages(pages: PageDirectory, keys: pa.Array) -> int:
    """How many of these keys are on the page the directory names for them, without being asked for by name."""
    read = {page: set(pages.read(page)["key"].to_pylist()) for page in np.unique(pages.page_of(keys)).tolist()}
    pages.check()
    return sum(key in read[page] for key, page in zip(keys.to_pylist(), pages.page_of(keys).tolist(), strict=True))


def test_nothing_is_read_before_the_first_question():
    master = of_numbers(range(100))
    pages = directory(master, 10)
    assert not master.reads.by_kind
    assert pages.nbytes == 0
    assert pages.pages == 10
    assert master.reads.by_kind["describe"].queries == 1


@pytest.mark.parametrize("rows", [1, 9, 10, 11, 99])
def test_every_key_is_on_the_page_that_the_directory_names(rows):
    master = of_numbers(range(rows))
    assert found_on_their_pages(directory(master, 10), master.table["key"].combine_chunks()) == rows


def test_texts_in_the_order_of_a_collation_are_found_on_their_pages():
    master = of_texts(f"{letter}{number}" for number in range(50) for letter in "aBcDeF")
    assert found_on_their_pages(directory(master, 10), master.table["key"].combine_chunks()) == 300


def test_all_pages_together_are_the_whole_table_without_repetition():
    master = of_numbers(range(0, 200, 2))
    pages = directory(master, 7)
    rows = [key for page in range(pages.pages) for key in pages.read(page)["key"].to_pylist()]
    assert rows == list(range(0, 200, 2))


def test_an_empty_table_has_one_page_and_a_key_asked_for_by_name_is_absent():
    pages = directory(of_numbers([]), 10)
    assert pages.page_of(pa.array([5])).tolist() == [0]
    assert len(pages.read(0, also=pa.array([5]))) == 0
    pages.check()


def test_a_key_that_sorts_elsewhere_comes_with_any_page():
    pages = directory(of_numbers(range(100)), 10)
    assert pages.read(0, also=pa.array([95]))["key"].to_pylist() == [*range(10), 95]


def test_a_page_that_has_grown_is_read_up_to_the_limit_and_split():
    master = of_numbers(range(0, 100, 10))
    pages = directory(master, 5)
    assert pages.pages == 2
    master.replace(master_table([*range(0, 50), *range(50, 100, 10)], "integers"))
    assert pages.read(0)["key"].to_pylist() == [*range(10)]
    assert pages.pages == 3
    # Those behind the new border are on the new page, which has no fixed end yet but that of the old one.
    assert pages.page_of(pa.array([4, 5, 49, 50])).tolist() == [0, 2, 2, 1]
    assert pages.read(0)["key"].to_pylist() == [*range(5)]
    assert pages.read(2)["key"].to_pylist() == [*range(5, 15)]
    pages.check()


def test_pages_keep_their_numbers_when_another_is_split():
    master = of_numbers(range(0, 100, 10))
    pages = directory(master, 2)
    before, generation = pages.page_of(pa.array([90])), pages.generation
    master.replace(master_table([*range(0, 20), *range(20, 100, 10)], "integers"))
    pages.read(0)
    assert pages.page_of(pa.array([90])) == before
    assert pages.generation == generation


def test_a_table_grown_to_many_times_its_size_makes_the_directory_outdated_and_refreshing_finds_all_again():
    master = of_numbers(range(10))
    pages = directory(master, 10)
    assert pages.pages == 1
    assert not pages.outdated
    master.replace(master_table(list(range(1_000)), "integers"))
    reads = 0
    while not pages.outdated:
        pages.read(pages.page_of(pa.array([999]))[0])
        reads += 1
    assert reads == 2
    generation = pages.generation
    pages.refresh()
    assert pages.pages == 100
    assert pages.generation > generation
    assert not pages.outdated
    assert found_on_their_pages(pages, master.table["key"].combine_chunks()) == 1_000


def test_deleted_rows_leave_their_page_empty_and_nothing_else_changes():
    master = of_numbers(range(100))
    pages = directory(master, 10)
    assert pages.pages == 10
    master.replace(master_table([*range(10), *range(20, 100)], "integers"))
    assert len(pages.read(pages.page_of(pa.array([15]))[0], also=pa.array([15]))) == 0
    assert found_on_their_pages(pages, master.table["key"].combine_chunks()) == 90


@pytest.mark.parametrize("make", [of_numbers, lambda numbers: of_texts(f"key {number:06}" for number in numbers)])
def test_the_directory_keeps_within_its_memory_whatever_becomes_of_the_table(make):
    master = make(range(1_000))
    words = 1 if make is of_numbers else 3
    pages = directory(master, 10, memory=PageDirectory.bytes_for(100, words))
    assert pages.pages == 100
    master.replace(make(range(20_000)).table)
    for _ in range(300):
        pages.read(int(pages.page_of(master.table["key"].combine_chunks()).max()))
        pages.check()
    pages.refresh()
    pages.check()
    assert pages.pages > 50


def test_what_is_reserved_for_a_directory_is_enough_for_it():
    for master, words in ((of_numbers(range(5_000)), 1), (of_texts(f"key {n:06}" for n in range(5_000)), 3)):
        pages = directory(master, 10, memory=PageDirectory.bytes_for(500, words))
        assert pages.pages == 500


class Unpredictable(MemoryMaster):
    """Its index sorts by rules that `order` does not know: backwards by the last byte."""

    def order(self, keys):
        return np.array([key[::-1].ljust(32, b"\0") for key in keys.to_pylist()], "S32")


def test_an_order_that_cannot_be_guessed_costs_reads_and_never_an_answer():
    master = Unpredictable(master_table([f"{number:03}" for number in range(200)], "texts"))
    pages = directory(master, 10)
    for key in master.table["key"].combine_chunks().to_pylist():
        asked = pa.array([key], pa.binary())
        assert key in pages.read(pages.page_of(asked)[0], also=asked)["key"].to_pylist()
        pages.check()
    whole = [key for page in range(pages.pages) for key in pages.read(page)["key"].to_pylist()]
    assert sorted(whole) == sorted(master.table["key"].to_pylist())
