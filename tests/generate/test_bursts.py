"""How far the bursts are self-similar, by the variance of what comes in longer and longer stretches of time."""

from itertools import islice

import numpy as np
import pytest

from pipeline.generate.bursts import Bursts

SEEDS = range(4)
STEPS = 1 << 16


@pytest.fixture(scope="module", params=[8, 9, 10], ids=lambda streams: f"{streams} streams")
def variances(request) -> tuple[int, dict[int, float]]:
    """So many streams, and by the width of a stretch, in steps, the variance of the stretches' means over their mean
    squared."""
    streams = request.param
    runs = [np.fromiter((due for _, due in islice(Bursts(9_000.0, streams, seed), STEPS)), float) for seed in SEEDS]
    widths = [1 << i for i in range(streams + 5) if STEPS >> i >= 16]
    return streams, {w: np.mean([run.reshape(-1, w).mean(axis=1).var() for run in runs]) / 90.0**2 for w in widths}


def hurst(variance: dict[int, float], narrow: int, wide: int) -> float:
    """The exponent H of the law variance ~ width^(2 H - 2), fitted to the widths between: 1/2 for independent arrivals,
    1 for what never evens out."""
    widths = [width for width in variance if narrow <= width <= wide]
    slope = np.polyfit(np.log(widths), np.log([variance[width] for width in widths]), 1)[0]
    return 1 + float(slope) / 2


def test_bursts_look_alike_at_three_scales_of_time(variances):
    streams, variance = variances
    longest = 1 << streams
    assert hurst(variance, 1, longest >> 4) == pytest.approx(0.98, abs=0.02)
    assert hurst(variance, 1, longest >> 2) == pytest.approx(0.96, abs=0.03)
    assert hurst(variance, 1, longest) == pytest.approx(0.9, abs=0.05)
    # Seen from as far away as its longest period is long, any number of streams looks like any other.
    spread = [np.sqrt(variance[width]) for width in (1, longest >> 4, longest >> 2, longest)]
    assert spread == pytest.approx([0.58, 0.54, 0.46, 0.25], abs=0.05)


def test_beyond_the_longest_period_they_even_out_like_independent_arrivals(variances):
    streams, variance = variances
    assert hurst(variance, 1 << streams, max(variance)) == pytest.approx(0.5, abs=0.1)


def test_more_streams_are_self_similar_for_longer(variances):
    streams, variance = variances
    in_the_same_stretches = hurst(variance, 8, 512)
    assert in_the_same_stretches == pytest.approx({8: 0.7, 9: 0.79, 10: 0.88}[streams], abs=0.06)
