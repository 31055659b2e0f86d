"""When sales are made: virtual streams that switch on and off, as in the benchmark of HYBRIDJOIN."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pipeline.errors import BadSetting

USUAL_STREAMS, MOST_STREAMS = 10, 30


@dataclass(order=True)
class VirtualStream:
    """One on/off source. `time_in_chosen_unit` is when it switches next; the queue is ordered by it."""

    time_in_chosen_unit: float
    bandwidth: int
    on: bool = field(compare=False)


class Bursts:
    """
    Idea
        N virtual streams, stream i with a bandwidth of 2^i tuples a step. Each stays on, then off, for a random time
        of up to `bandwidth` steps: the wider a stream, the longer it stays as it is. Their sum looks as bursty from
        further away, which is what self-similar means, up to 2^N steps: no stream stays as it is for longer. Seen
        in wider stretches it evens out like independent arrivals. By aggregated variance the Hurst exponent is 0.9
        below 2^N steps and 0.5 beyond (tests/generate/test_bursts.py), so N says how far back one may stand: at a
        hundredth of a second a step 10 s for N = 10, 11 min for 16, 3 h for 20. The widest stream has half of the
        bandwidth and three quarters of the variance, and the peak is twice the mean, whatever N.

    Departures from the paper
        1. `on` is one global flag there, which would add one stream's bandwidth and take off another's; here each
           stream has its own.
        2. The paper dequeues one stream before the loop, compares that one's time and then dequeues the next, so the
           first is lost. Here the head of the queue is compared, and it is the one dequeued.
        3. `If` became `While`: all streams that are due switch in the same step, not one a step.
        4. At the start all streams are off and due at once there. Here each is on or off, and some way through
           its period, as if the stream had run for ever, so that a short run has the mean of a long one.
        5. `Wait` is the caller's: time is a number here, so that it can be simulated, and a step gives the count of
           its tuples instead of drawing them one by one.
        6. The number of a step's tuples is scaled so that their mean is the rate asked for; fractions carry over.

    Example
        >>> counts = [count for _, count in zip(range(1000), Bursts(rate=5_000.0, streams=4, seed=1))]
        >>> len({at for at, _ in counts}), min(n for _, n in counts), max(n for _, n in counts)
        (1000, 0, 100)

    Reference
        Naeem, Dobbie, Weber: HYBRIDJOIN for Near-Real-Time Data Warehousing, 2011, figure 7, lines 1 to 27.
    """

    def __init__(self, rate: float, streams: int = USUAL_STREAMS, seed: int = 0, one_step: float = 0.01) -> None:
        if not 1 <= streams <= MOST_STREAMS:
            raise BadSetting(
                f"streams: {streams}. Bursts need 1 to {MOST_STREAMS} virtual streams; "
                "stream i carries 2^i tuples a step."
            )
        self._random = np.random.default_rng(seed).random
        self._one_step = one_step
        self._queue: list[VirtualStream] = []
        self._total_current_bandwidth = 0
        self._scale = rate * one_step / (sum(2**i for i in range(1, streams + 1)) / 2)
        self._enqueue_all(streams)

    # Procedure STREAMGENERATOR
    #    1  totalCurrentBandwidth <- 0
    #    5  For i = 1 to N
    #    6    PriorityQueue.enqueue(d, bandwidth = Math.power(2, i), timeInChosenUnit = currentTime())
    #    7  EndFor
    def _enqueue_all(self, streams: int) -> None:
        for i in range(1, streams + 1):
            bandwidth = 2**i
            on = bool(self._random() < 0.5)
            self._total_current_bandwidth += bandwidth if on else 0
            # What is left, at a random moment, of a period drawn evenly from [0, longest).
            remaining = (1 - np.sqrt(self._random())) * self._one_step * bandwidth
            heapq.heappush(self._queue, VirtualStream(float(remaining), bandwidth, on))

    #    9  While (true)
    #   10    Wait(oneStep)
    #   11    If (currentTime() > current.timeInChosenUnit)
    #   12      current <- PriorityQueue.dequeue()
    #   13      SwapStatus(current)
    #   14    EndIf
    #   15    For j = 1 to totalCurrentBandwidth
    #   16      Output GetDistributionValue()
    #   17    EndFor
    #   18  EndWhile
    def __iter__(self) -> Iterator[tuple[float, int]]:
        """Endless steps: seconds since the start, and how many tuples are due then."""
        step, carried = 0, 0.0
        while True:
            step += 1
            current_time = step * self._one_step
            while current_time > self._queue[0].time_in_chosen_unit:
                current = heapq.heappop(self._queue)
                self._swap_status(current)
            carried += self._total_current_bandwidth * self._scale
            count = int(carried)
            carried -= count
            yield current_time, count

    # Procedure SwapStatus(current)
    #   19  timeInChosenUnit <- current.timeInChosenUnit + getNextRandom() * oneStep * current.bandwidth
    #   20  If (on)
    #   21    totalCurrentBandwidth <- totalCurrentBandwidth - current.bandwidth
    #   22    on <- false
    #   23  Else
    #   24    totalCurrentBandwidth <- totalCurrentBandwidth + current.bandwidth
    #   25    on <- true
    #   26  EndIf
    #   27  PriorityQueue.enqueue(current)
    def _swap_status(self, current: VirtualStream) -> None:
        current.time_in_chosen_unit += self._random() * self._one_step * current.bandwidth
        if current.on:
            self._total_current_bandwidth -= current.bandwidth
            current.on = False
        else:
            self._total_current_bandwidth += current.bandwidth
            current.on = True
        heapq.heappush(self._queue, current)
