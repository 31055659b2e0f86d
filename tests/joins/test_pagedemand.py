"""The page that is worth most is found whatever comes, leaves and is read, among many pages as fast as among few."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.joins.parts.pagedemand import PageDemand

events = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.lists(st.integers(0, 12), max_size=8)),
        st.tuples(st.just("leave"), st.integers(0, 12)),
        st.tuples(st.just("read"), st.integers(0, 12)),
        st.tuples(st.just("move"), st.integers(0, 12)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(pages=st.integers(1, 9), events=events)
def test_the_page_of_the_greatest_product_is_found(pages, events):
    demand = PageDemand(pages)
    waiting: dict[int, list[int]] = {}  # of each page, when its sales came; the first of them counts until it is read
    came = 0
    for what, of in events:
        if what == "come":
            demand.come(np.array(of, np.int32))
            for page in of:
                waiting.setdefault(page, []).append(came)
                came += 1
        elif of in waiting and what == "read":
            demand.read(of)
            del waiting[of]
        elif of in waiting:
            since = waiting[of][0]
            demand.leave(np.array([of], np.int32))
            waiting[of].pop()  # not the first: since when somebody waits stays as it was
            if not waiting[of]:
                del waiting[of]
            if what == "move":
                demand.move(np.array([0], np.int32), since)
                waiting[0] = sorted([since, *waiting.get(0, [])])
        worth = {page: len(sales) * (came - sales[0]) for page, sales in waiting.items()}
        for but in (-1, demand.best()):
            others = {page: value for page, value in worth.items() if page != but}
            best = demand.best(but)
            assert (others.get(best, 0)) == max(others.values(), default=0)
    demand.check()


@pytest.mark.parametrize("pages", [100, 10_000])
def test_few_matches_are_played_for_a_read(pages):
    """Not one a page: as many as its logarithm, for each sale that came at most."""
    random = np.random.default_rng(0)
    weights = 1.0 / np.arange(1, pages + 1)
    demand = PageDemand(pages)
    demand.come(random.choice(pages, 10 * pages, p=weights / weights.sum()).astype(np.int32))
    demand.best()
    for _ in range(200):
        demand.read(demand.best())
        demand.come(random.choice(pages, 3, p=weights / weights.sum()).astype(np.int32))
        unknown = int((demand._until[1:] <= demand.came).sum())
        assert unknown <= 6 * np.log2(pages) + 10
        demand.best()
