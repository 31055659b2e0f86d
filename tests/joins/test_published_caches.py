"""X-HYBRIDJOIN's and CMESHJOIN's equations, fed their papers' constants, against the numbers that the papers print.

What is expected is printed in the paper, at the place that is named, or worked out by hand in a comment.
"""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.generate.zipf import ZipfDraw
from pipeline.joins.published import cmeshjoin, xhybridjoin
from pipeline.joins.published.calculus import harmonic
from pipeline.joins.published.unit_costs import Disk, UnitCosts

MB = 1_000_000
DISK_OF_ITS_TIME = UnitCosts(c_IO=Disk(seek=0.005, byte=11e-9), c_H=1e-6, c_A=5e-6)


# X-HYBRIDJOIN: x-hybridjoin-kais2013

X = xhybridjoin.KAIS2013


def test_the_partitions_share_the_old_part_of_the_queue_and_the_first_wants_most():
    shares = [xhybridjoin.p_m(m, replace(X, R_t=1_250)) for m in range(1, 10)]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)
    # the sum of 1 / x from 126 to 250 over that from 126 to 1 250: ln 2 / ln 10 = 0.301, less half a row's share
    assert shares[0] == pytest.approx(0.3005, rel=2e-3)
    assert xhybridjoin.p_old(replace(X, R_t=1_250)) == pytest.approx(sum(shares) / 9)


def test_equation_9_as_printed_and_with_the_mean_give_what_they_give_by_hand():
    # h_S = (50 MB - 30 kB) / 32 B = 1 561 562; n = (2 000 000 - 125) / 125 = 15 999; p_old = 1 / n, h_S p_old = 97.60
    # p_N = H(125) / H(2 M) = 5.4097 / 15.0859 = 0.35859; p_new = 0.35863, p_new (1 - p_new) = 0.23001
    assert (xhybridjoin.h_S(X), X.n) == (pytest.approx(1_561_562.5), 15_999)
    assert xhybridjoin.p_new(X) == pytest.approx(0.35863, abs=2e-5)
    assert xhybridjoin.w_as_printed(X) == pytest.approx(97.60 / (1 - 0.23001), rel=2e-4)
    assert xhybridjoin.w_by_the_mean(X) == pytest.approx(97.60 / (1 - 0.35863), rel=3e-4)


def test_the_mean_serves_as_many_as_come_which_the_variance_does_not():
    # w sales leave in an iteration and w come: (h_S - w) old ones match with p_old, w new ones with p_new
    for form, balanced in ((xhybridjoin.w_by_the_mean, True), (xhybridjoin.w_as_printed, False)):
        w = form(X)
        left = (xhybridjoin.h_S(X) - w) * xhybridjoin.p_old(X) + w * xhybridjoin.p_new(X)
        assert (left == pytest.approx(w, rel=1e-9)) is balanced


@pytest.mark.parametrize("resident", [1, 2, 8, 64, 512])
def test_by_equation_9_as_printed_no_resident_part_saves_a_third_of_the_reads(resident):
    # p (1 - p) <= 1 / 4, so w <= h_S p_old / (1 - 1 / 4): a quarter of the reads is saved at most. Section 5.2.1 has
    # "about 33 %", and figure 3b 1 / 0.7 to 1 / 0.5 times HYBRIDJOIN's rate. With the mean one page saves p_N = 36 %.
    setting = replace(X, l=resident)
    without = xhybridjoin.h_S(setting) * xhybridjoin.p_old(setting)
    assert without / xhybridjoin.w_as_printed(setting) > 0.749
    assert 1 - without / xhybridjoin.w_by_the_mean(setting) == pytest.approx(xhybridjoin.p_new(setting), rel=1e-3)


@pytest.mark.parametrize(("budget", "printed"), [(50, 0.4 * MB), (250, 2 * MB)])
def test_the_resident_part_serves_what_figure_3d_says_if_a_page_has_250_rows(budget, printed):
    # No page size is printed; with 125 rows it is 0.18 M and 0.91 M. 250 rows, and 2 M "or more": by hand at 50 MB
    # h_S = 1 560 625, n = 7 999, p_new = H(250) / H(2 M) = 6.1007 / 15.0859 = 0.4044, p (1 - p) = 0.2409:
    # w = 195.10 / 0.7591 = 257.0, times 0.4044 times 4 000 iterations = 415 700
    setting = replace(X, M=budget * MB, v_P=250 * 120)
    served = xhybridjoin.by_the_resident_part(xhybridjoin.ITERATIONS, setting, xhybridjoin.w_as_printed)
    assert printed <= served == pytest.approx(printed, rel=0.05)
    if budget == 50:
        assert served == pytest.approx(415_700, rel=1e-3)


def test_fifty_megabytes_are_split_as_equation_4_says_and_an_iteration_costs_equation_5():
    setting = replace(X, k=3, l=2)
    assert xhybridjoin.memory(setting) == pytest.approx(50 * MB)
    assert xhybridjoin.h_S(setting) == pytest.approx((50 * MB - 5 * 15_000) / 32)
    # 45 000 B for 5.495 ms, 625 rows for 1 us, 100 sales for 5 us
    assert xhybridjoin.c_loop(100, setting, DISK_OF_ITS_TIME) == pytest.approx(0.005495 + 0.000625 + 0.0005)


@pytest.mark.parametrize("form", [xhybridjoin.w_by_the_mean, xhybridjoin.w_as_printed])
def test_tuned_parts_beat_equal_ones_and_their_neighbours(form):
    tuned = xhybridjoin.tuned(X, DISK_OF_ITS_TIME, form)
    rate = xhybridjoin.mu(tuned, DISK_OF_ITS_TIME, form)
    assert rate > 1.5 * xhybridjoin.mu(X, DISK_OF_ITS_TIME, form)  # figure 7: "significantly better"
    for larger, longer in ((0.8, 1), (1.25, 1), (1, 0.8), (1, 1.25)):
        other = replace(tuned, k=round(tuned.k * larger), l=round(tuned.l * longer))
        assert xhybridjoin.mu(other, DISK_OF_ITS_TIME, form) < rate


# CMESHJOIN: cmeshjoin-cikm2013


@pytest.mark.parametrize(("h_R", "R_t"), [(1, 2), (19, 20), (20, 1_000), (119_356, 1_000_000)])
def test_the_share_of_hits_is_equation_1s_sum(h_R, R_t):
    inverse = 1 / np.arange(1, R_t + 1)
    assert cmeshjoin.p_N(h_R, R_t) == pytest.approx(inverse[:h_R].sum() / inverse.sum(), rel=1e-12)
    step = inverse[h_R] / inverse.sum()
    assert cmeshjoin.dp_N(h_R, R_t) == pytest.approx(step, rel=1e-12)


def test_the_generator_draws_a_little_less_of_the_wanted_rows_than_equation_1_says():
    # An integral for the sum: ln(h + 1) / ln(R + 1) = ln 119 357 / ln 100 000 001 = 11.690 / 18.421 = 0.6346, where
    # the sums are (11.690 + 0.577) / (18.421 + 0.577) = 0.6457
    drawn = ZipfDraw(100_000_000, 1.0).share_of_first(119_356)
    assert drawn == pytest.approx(0.6346, abs=5e-5)
    assert cmeshjoin.p_N(119_356, 100_000_000) == pytest.approx(0.6457, abs=5e-5)


@pytest.mark.parametrize(
    ("setting", "h_R", "p_N", "gain", "bound"),
    # By hand at 1 %: 120 MB / 128 B = 937 500 = h (1 + ln(10^8 / h)) for h = 121 550; p_N = (11.708 + 0.577) / 18.998
    # = 0.6467; gain = (1 - 121 550 / 937 500) / 0.3533; bound with (ln 937 500 + 0.577) / 18.998 = 0.7542: 1 / 0.2458
    [
        (cmeshjoin.ONE_PERCENT, 121_550, 0.6467, 2.46, 4.07),
        (cmeshjoin.FIGURE_2, 119_356, 0.6457, 2.46, 4.05),
        (cmeshjoin.TEN_PERCENT, 1_886_000, 0.7910, 3.82, 8.03),
        (cmeshjoin.FIGURE_3C, 3_372_000, 0.8976, 6.25, 22.95),
    ],
    ids=["1 %", "figure 2", "10 %", "figure 3c, 20 M rows"],
)
def test_the_best_cache_and_its_gain_are_those_worked_out_by_hand(setting, h_R, p_N, gain, bound):
    best = cmeshjoin.best_h_R(setting)
    assert best == pytest.approx(h_R, rel=1e-3)
    assert cmeshjoin.p_N(best, setting.R_t) == pytest.approx(p_N, abs=1e-4)
    assert cmeshjoin.gain(best, setting) == pytest.approx(gain, abs=0.005)
    assert cmeshjoin.bound(setting) == pytest.approx(bound, abs=0.005)
    assert all(cmeshjoin.gain(best * factor, setting) < cmeshjoin.gain(best, setting) for factor in (0.5, 0.9, 1.1, 2))


def test_the_papers_claims_are_beyond_its_equations():
    assert cmeshjoin.bound(cmeshjoin.ONE_PERCENT) < 5  # section 4: "up to 5 times" at 1 % of R
    # and "7 times" at 10 %: no cache size gives it, though the bound, a cache and a MESHJOIN in the same memory, would
    sizes = np.geomspace(1, cmeshjoin.TEN_PERCENT.most, 1_000)
    assert max(cmeshjoin.gain(h_R, cmeshjoin.TEN_PERCENT) for h_R in sizes) < 3.83
    # "4.5 times" with 20 M rows "increased to 6.5" with 100 M: by the equations it is the other way round
    small, large = cmeshjoin.FIGURE_3C, cmeshjoin.TEN_PERCENT
    gains = [cmeshjoin.gain(cmeshjoin.best_h_R(setting), setting) for setting in (small, large)]
    assert gains[0] > 1.5 * gains[1]


def test_equation_6_as_printed_has_no_root_and_with_the_term_that_it_lacks_it_has_one():
    setting = cmeshjoin.FIGURE_2
    sizes = np.geomspace(1, setting.most * 0.999, 2_000)
    assert all(cmeshjoin.dmu_as_printed(h_R, setting) > 0 for h_R in sizes)
    assert all(cmeshjoin.d2mu_as_printed(h_R, setting) > 0 for h_R in sizes)  # equation 7: no proof of a maximum
    signs = np.sign([cmeshjoin.dmu(h_R, setting) for h_R in sizes])
    assert (signs[0], signs[-1], np.count_nonzero(np.diff(signs))) == (1, -1, 1)


@pytest.mark.parametrize("h_R", [1_000, 119_356, 500_000])
def test_the_derivative_with_its_missing_term_is_the_slope_of_equation_4(h_R):
    # Equation 2's step stands for dp_N / dh_R: so the slope is that between h_R and h_R + 1, to a thousandth of the
    # larger of the two terms that nearly cancel
    setting = cmeshjoin.FIGURE_2
    slope = cmeshjoin.mu_cm(h_R + 1, setting) - cmeshjoin.mu_cm(h_R, setting)
    assert cmeshjoin.dmu(h_R, setting) == pytest.approx(slope, abs=1e-3 * cmeshjoin.dmu_as_printed(h_R, setting))


def test_sums_of_inverses_are_exact_for_few_and_for_many():
    assert harmonic(10) == pytest.approx(7_381 / 2_520, rel=1e-14)
    assert harmonic(1_000) == pytest.approx((1 / np.arange(1, 1_001)).sum(), rel=1e-14)
    assert harmonic(19.999) == pytest.approx(harmonic(20), rel=1e-4)
