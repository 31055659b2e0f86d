"""The data of the experiments, held to histograms and to arithmetic that knows none of their code."""

import numpy as np
import pytest

from pipeline.bench.charged.machines import MACHINES
from pipeline.bench.charged.trial import Trial
from pipeline.bench.workload import sources
from pipeline.bench.workload.laws import LONGITUDES, Histogram, Orders
from pipeline.errors import BadSetting

MIDDLES = (np.arange(1_000_000) + 0.5) / 1_000_000  # uniform numbers, each stretch of [0, 1) as often as it is wide


def custkeys(orders: Orders, random: np.ndarray = MIDDLES) -> np.ndarray:
    """C_CUSTKEY of orders; it counts from 1."""
    return orders.draw(random) + 1


@pytest.mark.parametrize("customers", [3, 10, 11, 12, 150_000])
def test_orders_fall_on_customers_as_dbgen_draws_them(customers):
    # dbgen's loop: custkey from 1 to the number of customers; while it can be divided by 3, to the next one, or back.
    expected = np.zeros(customers + 1, int)
    for drawn in range(1, customers + 1):
        custkey, delta = drawn, 1
        while custkey % 3 == 0:
            custkey = min(custkey + delta, customers)
            delta = -delta
        expected[custkey] += 1
    each = (np.arange(customers) + 0.5) / customers
    assert np.bincount(custkeys(Orders(customers), each), minlength=customers + 1).tolist() == expected.tolist()


def test_of_three_customers_one_has_twice_as_many_orders_as_another_and_one_none():
    orders = custkeys(sources.of("tpch", scale=1).law, np.random.default_rng(0).random(1_000_000))
    assert np.bincount(orders % 3, minlength=3) / 1_000_000 == pytest.approx([0, 2 / 3, 1 / 3], abs=0.002)


def test_skewed_orders_follow_zipfs_law_over_the_customers_that_have_any():
    wanted = sources.of("tpch", scale=0.02, skew=1.0)
    orders = np.bincount(custkeys(wanted.law), minlength=wanted.rows.rows + 1)
    assert wanted.rows.rows == 3_000
    assert orders[::3].sum() == 0
    shares = np.sort(orders)[::-1] / len(MIDDLES)
    # The integral of 1/x from r to r + 1, of that from 1 to 2 001.
    expected = np.log((np.arange(1, 2_001) + 1) / np.arange(1, 2_001)) / np.log(2_001)
    assert shares[:2_000] == pytest.approx(expected, abs=2e-6)
    # The wanted ones lie anywhere.
    hundred = np.argsort(orders)[::-1][:100]
    assert 0.4 < np.mean(hundred < 1_500) < 0.6


def test_every_order_has_its_customer():
    trial = Trial(
        "inlj", sources.of("tpch", scale=0.01).rows, 100_000, MACHINES["cmeshjoin-cikm2013"], law=Orders(1_500)
    )
    trial.warm_up()
    seen = trial.measure(sales=5_000)
    assert (seen.matched, seen.unmatched) == (seen.sales, 0)


def rows_by_longitude(rows: int, row_bytes: int = 32) -> np.ndarray:
    table = sources.of("weather-like", rows=rows, row_bytes=row_bytes).rows
    keys = table.keys_at(np.arange(rows))
    assert not (keys % 2).any()
    return np.bincount(keys // 2, minlength=LONGITUDES)


def test_reports_lie_between_0_and_36_000_and_cluster():
    reports = rows_by_longitude(1_000_000)
    assert len(reports) == LONGITUDES == 36_001
    most_first = np.sort(reports)[::-1]
    # Were they anywhere, a hundredth of the longitudes would have a hundredth of them.
    assert most_first[:360].sum() / 1_000_000 == pytest.approx(0.10, abs=0.01)
    # Ships are everywhere: a tenth of a million on 36 001 longitudes.
    assert most_first[-1] >= 2
    assert np.median(reports) == pytest.approx(100_000 / 36_001, abs=1)


def test_the_sales_of_the_other_month_come_from_the_same_stations():
    weather = sources.of("weather-like", rows=1_000_000)
    sales = np.bincount(weather.law.draw(np.random.default_rng(3).random(1_000_000)), minlength=LONGITUDES)
    assert np.corrcoef(rows_by_longitude(1_000_000), sales)[0, 1] > 0.95


def test_a_sale_meets_every_report_of_its_longitude():
    weather = sources.of("weather-like", rows=20_000)
    trial = Trial("meshjoin", weather.rows, 300_000, MACHINES["cmeshjoin-cikm2013"], law=weather.law)
    trial.warm_up(cycles=2)
    seen = trial.measure(sales=20_000)
    reports = rows_by_longitude(20_000)
    shares = rows_by_longitude(3_000_000) / 3_000_000
    assert seen.matched / seen.sales == pytest.approx((shares * reports).sum(), rel=0.05)


def test_the_same_seed_gives_the_same_stations_and_another_one_others():
    first, again, other = (
        sources.of("weather-like", rows=10, seed=seed).law.draw(MIDDLES[::1_000]) for seed in (1, 1, 2)
    )
    assert first.tolist() == again.tolist() != other.tolist()


@pytest.mark.parametrize("skew_of_R", [0.1, 0.5, 1.0])
def test_keys_repeat_in_the_table_as_zipfs_law_says(skew_of_R):
    R = sources.of("repeating", rows=350_000, domain=350_000, skew_of_R=skew_of_R).rows
    ranks = R.keys_at(np.arange(350_000)) // 2
    assert (np.diff(ranks) >= 0).all()
    reports = np.bincount(ranks, minlength=350_000)
    # As many rows as the integral of x^-z over [r, r + 1) has of that over [1, 350 001), to the nearest row.
    x = np.arange(1.0, 350_002)
    area = np.log(x) if skew_of_R == 1 else x ** (1 - skew_of_R) - 1
    assert np.abs(reports.cumsum() - 350_000 * area[1:] / area[-1]).max() <= 0.5 + 1e-6


def test_where_hot_keys_coincide_a_sale_has_many_rows():
    """MESHJOIN's 6c: z_S = 0.5 and z_R = 1 over 3.5 million keys."""
    both = sources.of("repeating", rows=3_500_000, domain=3_500_000, skew_of_R=1.0)
    x = np.arange(1.0, 3_500_002)
    of_sales, of_R = (np.diff(area / area[-1]) for area in (np.sqrt(x) - 1, np.log(x)))
    ranks = both.law.draw(MIDDLES)
    rows = both.rows.behind(2 * ranks) - both.rows.first_at(2 * ranks)
    assert rows.mean() == pytest.approx(3_500_000 * (of_sales * of_R).sum(), rel=0.01)
    assert rows.mean() > 100


def test_a_histogram_draws_as_often_as_it_says():
    weights = np.array([0.0, 5.0, 0.0, 1.0, 4.0, 0.0])
    drawn = np.bincount(Histogram(weights).draw(MIDDLES), minlength=6) / len(MIDDLES)
    assert drawn == pytest.approx(weights / 10, abs=2e-6)


def test_data_that_is_not_there_is_refused_in_words():
    with pytest.raises(BadSetting, match='data = "tpcds": there are synthetic, repeating, tpch, weather-like'):
        sources.of("tpcds", scale=1)
    with pytest.raises(BadSetting, match="takes scale, skew, row_bytes, seed, not scales"):
        sources.of("tpch", scales=1)
    with pytest.raises(BadSetting, match="weather-like needs rows besides"):
        sources.of("weather-like")
    with pytest.raises(BadSetting, match="at least three"):
        Orders(2)
    with pytest.raises(BadSetting, match="none below 0"):
        Histogram(np.array([1.0, -1.0]))
