"""The metrics as they are now, and as they were a minute ago: from both follow the rates of `millrace status`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from pipeline.answers.histogram import Histogram
from pipeline.watch.families import BUCKETS, OF_JOB
from pipeline.watch.family import Labels, Table

LOOK_BACK = 60.0  # seconds
_APART = 2.0  # seconds between moments that are kept: thirty of them take two megabytes


@dataclass(frozen=True, eq=False)  # a collector is known by what it is, not by what it holds
class Moment(Collector):
    """Every series at one time."""

    values: Mapping[str, Mapping[Labels, float]]
    histograms: Mapping[str, Mapping[Labels, Histogram]]
    table: Table = OF_JOB

    def collect(self) -> Iterator[Metric]:
        for kind, families in (
            (CounterMetricFamily, self.table.counters),
            (GaugeMetricFamily, self.table.gauges),
        ):
            for name, family in families.items():
                metric = kind(name, family.meaning, labels=family.labels)
                for labels, value in sorted(self.values[name].items()):
                    metric.add_metric(labels, value)
                yield metric
        for name, durations in self.table.histograms.items():
            exposed = HistogramMetricFamily(name, durations.meaning, labels=durations.labels)
            for labels, histogram in sorted(self.histograms[name].items()):
                exposed.add_metric(labels, _buckets(histogram), histogram.total)
            yield exposed


class Past:
    """The moments of the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._moments: deque[tuple[float, Moment]] = deque()

    def note(self, moment: Moment) -> None:
        """From now on things are so."""
        now = self._clock()
        if self._moments and now - self._moments[-1][0] < _APART:
            return
        self._moments.append((now, moment))
        while len(self._moments) > 1 and now - self._moments[1][0] >= LOOK_BACK:
            self._moments.popleft()

    def begin_anew(self, moment: Moment) -> None:
        """What was before does not count: the job was only starting."""
        self._moments.clear()
        self.note(moment)

    def minute_ago(self) -> tuple[Moment, float]:
        """How things were, and how many seconds ago: less than a minute if the job is younger."""
        now = self._clock()
        old = [(at, moment) for at, moment in self._moments if now - at >= LOOK_BACK]
        at, moment = old[-1] if old else self._moments[0]
        # Where nothing has happened since, it was so a minute ago as well.
        return moment, min(now - at, LOOK_BACK + _APART)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    within = zip(BUCKETS.tolist(), histogram.cumulative(BUCKETS).tolist(), strict=True)
    return [*((str(bound), count) for bound, count in within), ("+Inf", histogram.count)]
