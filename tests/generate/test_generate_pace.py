"""Rates, bursts and clocks, all in simulated time."""

from datetime import datetime, timezone
from itertools import islice, takewhile
from threading import Event

import numpy as np
import pytest

from pipeline.errors import BadSetting
from pipeline.generate.bursts import Bursts
from pipeline.generate.pace import ConstantRate, SimulatedClock, steps


def counts(bursts: Bursts, number: int) -> np.ndarray:
    return np.array([count for _, count in islice(bursts, number)])


@pytest.mark.parametrize("seconds", [1.0, 10.0])
@pytest.mark.parametrize("rate", [0.3, 7.0, 333.0, 1_000_000.0])
def test_a_constant_rate_is_kept_from_the_first_second_on(rate: float, seconds: float) -> None:
    within = takewhile(lambda step: step[0] <= seconds + 1e-9, ConstantRate(rate))
    assert sum(count for _, count in within) == int(rate * seconds + 1e-6)


@pytest.mark.parametrize("rate", [20.0, 2_000.0])
def test_the_mean_of_the_bursts_is_the_rate_asked_for(rate: float) -> None:
    means = [counts(Bursts(rate, 6, seed), 20_000).mean() / 0.01 for seed in range(5)]
    assert np.mean(means) == pytest.approx(rate, rel=0.03)


def test_every_stream_switches_on_and_off_by_itself() -> None:
    # Three streams carry 2, 4 and 8 tuples a step; at this rate a tuple is a message, so every sum must appear.
    seen = counts(Bursts(rate=700.0, streams=3, seed=3), 5_000)
    assert set(seen.tolist()) == {0, 2, 4, 6, 8, 10, 12, 14}


def test_a_stream_stays_as_it_is_for_half_its_bandwidth_in_steps() -> None:
    seen = counts(Bursts(rate=6_300.0, streams=6, seed=3), 60_000)
    eight, sixteen, thirty_two = (np.count_nonzero(np.diff(seen // bandwidth % 2)) for bandwidth in (8, 16, 32))
    # A period shorter than a step is not seen, hence the tolerance.
    assert eight == pytest.approx(60_000 / 4, rel=0.15)
    assert sixteen == pytest.approx(60_000 / 8, rel=0.1)
    assert thirty_two == pytest.approx(60_000 / 16, rel=0.1)


def test_the_same_seed_gives_the_same_bursts_and_another_seed_others() -> None:
    first, again, other = (counts(Bursts(5_000.0, 8, seed), 500) for seed in (1, 1, 2))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def test_at_the_start_as_many_streams_are_on_as_later() -> None:
    starts = [counts(Bursts(1_000.0, 5, seed), 3).mean() for seed in range(400)]
    assert np.mean(starts) == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rate": 0.0}, "above 0"),
        ({"rate": -1.0}, "above 0"),
        ({"rate": 1e9}, "at most 1,000,000"),
        ({"bursty": True}, "a mean rate is needed"),
        ({"rate": 1.0, "bursty": True, "streams": 0}, "1 to 30 virtual streams"),
        ({"rate": 1.0, "bursty": True, "streams": 31}, "1 to 30 virtual streams"),
        ({"rate": 1.0, "streams": 12}, "Only bursts are made of streams"),
    ],
)
def test_a_pace_that_cannot_be_kept_is_refused(wrong: dict, said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        steps(**{"rate": None, "bursty": False, "streams": None, "seed": 0, **wrong})


def test_bursts_are_of_as_many_streams_as_asked_for() -> None:
    for streams in (None, 10, 16):
        asked = islice(steps(5_000.0, True, streams, seed=2), 500)
        assert list(asked) == list(islice(Bursts(5_000.0, streams or 10, seed=2), 500))


def test_a_simulated_clock_moves_only_when_it_is_waited_for() -> None:
    clock = SimulatedClock(datetime(2026, 3, 1, 12, tzinfo=timezone.utc))
    start = clock.now()
    assert datetime.fromtimestamp(start / 1e6, timezone.utc) == datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
    clock.wait_until(start + 500, Event())
    clock.wait_until(start + 100, Event())
    assert clock.now() == start + 500


def test_a_simulated_start_without_an_offset_is_refused() -> None:
    with pytest.raises(BadSetting, match="offset"):
        SimulatedClock(datetime(2026, 3, 1, 12))
