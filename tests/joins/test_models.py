"""What all cost models answer alike, against what the joins do: counted in sales, reads and steps, not in seconds."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from pipeline.joins import Join, Options, make, predict, recipe
from pipeline.joins.cost import hybridjoin as page_cost
from pipeline.joins.cost import xhybridjoin as resident_cost
from pipeline.joins.cost.frontstage import behind
from pipeline.joins.cost.question import Relation, Stream
from pipeline.master.memory import MemoryMaster
from tests.joins.workloads import master_table

ROWS = 20_000
WINDOW = 20_000
SKEW = 1.0


@pytest.fixture
def master() -> MemoryMaster:
    return MemoryMaster(master_table([2 * row for row in range(ROWS)], "integers"))


def sales(number: int, served_before: int = 0, absent: float = 0.0) -> pa.Array:
    """By Zipf's law, the wanted rows scattered; those for the most wanted rows are gone. Odd keys are absent."""
    random = np.random.default_rng(3)
    weights = 1.0 / np.arange(1, ROWS + 1) ** SKEW
    weights[:served_before] = 0
    ranks = random.choice(ROWS, number, p=weights / weights.sum())
    return pa.array(2 * random.permutation(ROWS)[ranks] + (random.random(number) < absent))


def steps_waited(join: Join, keys: pa.Array) -> float:
    """Serve one window with a full queue: steps from admission until served, in the mean over all its sales."""
    admitted = np.zeros(len(keys))
    waited = steps = offered = 0
    while offered < len(keys) or join.pending:
        while offered < len(keys) and (taken := join.offer(np.arange(offered, len(keys)), keys.slice(offered))):
            admitted[offered : offered + taken] = steps
            offered += taken
        for piece in join.step(drain=offered == len(keys)):
            waited += (steps + 1 - admitted[piece.sales]).sum()
        steps += 1
    return waited / len(keys)


@pytest.mark.parametrize("name", ["hybridjoin", "x-hybridjoin"])
@pytest.mark.parametrize("served_before", [0, 200, 2_000])
def test_rows_that_a_front_stage_serves_are_not_expected_to_be_wanted_again(master, name, served_before):
    join = make(name, master, 150_000, Options(stream=Stream(e=SKEW, batch=WINDOW, beyond=served_before)))
    keys = sales(WINDOW, served_before)
    steps_waited(join, keys)  # now it is warm
    before = master.reads.by_kind["page"].queries
    steps_waited(join, keys)
    foreseen = page_cost.load(join.algorithm.split, join.relation, join.algorithm.question.stream)
    assert foreseen.reads == pytest.approx(master.reads.by_kind["page"].queries - before, rel=0.1)


@pytest.mark.parametrize(
    "name",
    ["hybridjoin", "x-hybridjoin", "partitioned", "ssij", "front stage + hybridjoin", "front stage + meshjoin"],
)
def test_the_mean_processing_time_counts_sales_that_never_wait(master, name):
    """In steps, for a step's own seconds are the machine's."""
    join = make(name, master, 400_000, Options(stream=Stream(e=SKEW, batch=WINDOW)))
    keys = sales(2 * WINDOW)
    steps_waited(join, keys.slice(0, WINDOW))
    waited = steps_waited(join, keys.slice(WINDOW))
    foreseen = recipe(name).model.predict(join.algorithm.question)
    assert foreseen.processing_time * foreseen.queries == pytest.approx(waited, rel=0.2)


@pytest.mark.parametrize("name", ["auto", "inlj", "fetch", "front stage + inlj"])
def test_where_no_sale_has_a_row_the_models_say_what_they_say_where_hardly_any_has(name):
    """It was a number divided by nothing, and looked for without end."""
    R = Relation(R_t=1_000_000, v_R=58.0, words=1, row_bytes=148.0)
    some, none = (
        predict(name, 580_000, R, Options(stream=Stream(0.5, 125_000, absent=absent))).mu for absent in (0.9999, 1.0)
    )
    assert none == pytest.approx(some, rel=0.01)


@pytest.mark.parametrize("absent", [0.05, 0.2, 0.5])
def test_a_larger_share_of_what_a_cache_passes_on_is_absent(master, absent):
    stream = Stream(e=SKEW, batch=WINDOW, absent=absent)
    join = make("front stage + hybridjoin", master, 1_000_000, Options(stream=stream, absent_staleness=0.0))
    keys = sales(3 * WINDOW, absent=absent)
    steps_waited(join, keys.slice(0, 2 * WINDOW))
    before = replace(join.statistics)
    steps_waited(join, keys.slice(2 * WINDOW))
    misses, unmatched = (getattr(join.statistics, n) - getattr(before, n) for n in ("misses", "unmatched"))
    question = join.algorithm.question
    assert behind(join.algorithm.split, question).stream.absent == pytest.approx(unmatched / misses, rel=0.1)


@pytest.mark.parametrize(
    ("rows", "memory", "skew"), [(300, 40_000, 1.0), (50_000, 400_000, 0.0), (50_000, 2_000_000, 1.0)]
)
def test_a_look_among_neighbours_finds_as_fast_a_split_as_a_look_at_all(rows, memory, skew):
    R = Relation(R_t=rows, v_R=60.0, words=1, row_bytes=152.0)
    question = recipe("x-hybridjoin").question(memory, R, Options(stream=Stream(skew)))
    every = [parts for d in page_cost.page_sizes(question) for parts in resident_cost._candidates(d, question)]
    fastest = max(page_cost.rate(parts, question) for parts in every)
    assert page_cost.rate(resident_cost.split(question), question) == pytest.approx(fastest, rel=1e-3)
