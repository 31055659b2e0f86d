"""Zipf's law and the natural keys."""

import numpy as np
import pytest

from pipeline.errors import BadSetting
from pipeline.generate.keys import DIMENSIONS, customer_numbers, product_codes, store_codes, surrogate_keys
from pipeline.generate.zipf import ZipfDraw, exponent_of


def draw(ranks: int, exponent: float, draws: int = 200_000) -> np.ndarray:
    return ZipfDraw(ranks, exponent).draw(np.random.default_rng(7).random(draws))


@pytest.mark.parametrize("exponent", [0.0, 0.3, 0.999_999, 1.0, 1.000_001, 2.0])
def test_each_rank_is_drawn_as_often_as_the_area_under_its_part_of_the_curve(exponent: float) -> None:
    x = np.linspace(1, 21, 2_000_001)
    area = np.histogram(x, bins=np.arange(1, 22), weights=x**-exponent)[0]
    expected = area / area.sum()
    seen = np.bincount(draw(20, exponent), minlength=20) / 200_000
    # Six standard deviations of a binomial count.
    assert np.all(np.abs(seen - expected) < 6 * np.sqrt(expected / 200_000) + 1e-4)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.5, 64.0])
def test_no_draw_leaves_the_table(exponent: float) -> None:
    edges = ZipfDraw(1_000, exponent).draw(np.array([0.0, 0.5, np.nextafter(1.0, 0.0)]))
    assert edges[0] == 0
    assert edges.max() <= 999


def test_without_skew_the_last_row_is_as_likely_as_the_first() -> None:
    counts = np.bincount(draw(4, 0.0), minlength=4)
    assert np.all(np.abs(counts - 50_000) < 1_200)


@pytest.mark.parametrize("products", [5, 100, 12_345, 2_000_000])
def test_eighty_of_a_hundred_sales_are_of_a_fifth_of_the_products(products: int) -> None:
    ranks = draw(products, exponent_of("80/20", products))
    assert (ranks < round(products / 5)).mean() == pytest.approx(0.8, abs=0.005)


def test_the_exponent_of_the_paper_gives_a_fifth_more_than_eighty_percent() -> None:
    assert ZipfDraw(2_000_000, 1.0).share_of_first(400_000) == pytest.approx(np.log(400_001) / np.log(2_000_001))


@pytest.mark.parametrize(("skew", "ranks"), [("steep", 10), (-0.1, 10), (1.0, 0), ("80/20", 4), (65.0, 10)])
def test_a_skew_that_means_nothing_is_refused(skew: float | str, ranks: int) -> None:
    with pytest.raises(BadSetting, match="skew"):
        ZipfDraw(ranks, exponent_of(skew, ranks))


@pytest.mark.parametrize("dimension", range(3), ids=DIMENSIONS)
def test_surrogate_keys_are_distinct_positive_and_never_the_rows_number(dimension: int) -> None:
    rows = np.arange(300_000)
    keys = surrogate_keys(dimension, rows)
    assert len(np.unique(keys)) == len(rows)
    assert keys.min() > 2**32
    assert not np.any(np.abs(np.diff(keys)) < 1_000)


def test_no_two_dimensions_share_a_surrogate_key() -> None:
    rows = np.arange(100_000)
    assert len(np.unique([surrogate_keys(dimension, rows) for dimension in range(3)])) == 300_000


@pytest.mark.parametrize("codes", [product_codes, store_codes])
def test_codes_are_distinct_sorted_like_the_rows_and_fit_the_contract(codes) -> None:
    seen = codes(np.arange(20_000)).to_pylist()
    assert seen == sorted(set(seen))
    assert max(map(len, codes(np.array([2**40])).to_pylist())) <= 32


def test_customer_numbers_are_distinct_and_have_gaps() -> None:
    numbers = customer_numbers(np.arange(1_000))
    assert numbers.min() > 0
    assert np.all(np.diff(numbers) > 1)
