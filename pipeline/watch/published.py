"""What a process publishes, and its Prometheus exposition: one endpoint of its own."""

from __future__ import annotations

import logging
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from pipeline import __version__
from pipeline.answers.histogram import Histogram
from pipeline.config.settings import MetricsSettings
from pipeline.watch.access import EXPOSURE_REMEDY, OPEN, Access, exposure
from pipeline.watch.families import BUILD_INFO
from pipeline.watch.family import Family, Labels, Table
from pipeline.watch.moments import Moment, Past
from pipeline.watch.scrape import metrics_url
from pipeline.watch.server import MetricsServer

log = logging.getLogger("millrace.metrics")


class Published(Collector):
    """The series of a table of metrics. Safe to scrape while something is being published."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._lock = threading.Lock()
        self._values: dict[str, dict[Labels, float]] = {name: {} for name in (*table.counters, *table.gauges)}
        self._histograms: dict[str, dict[Labels, Histogram]] = {name: {} for name in table.histograms}
        self._server: MetricsServer | None = None
        self._is_ready = False
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        for family in table.counters.values():
            for labels in family.from_start:
                self._add(family, labels, 0)
        self._set(BUILD_INFO, (__version__, platform.python_version(), pa.__version__), 1)
        self._past = Past()
        self._past.note(self._moment())

    def serve(self, host: str, port: int, access: Access = OPEN, setting: str = "port") -> int:
        """Serve /metrics, /live and /ready from a thread; returns the port, which 0 leaves to the system."""
        looks = (lambda: self._is_ready), self._minute_ago
        self._server = MetricsServer(host, port, self.registry, *looks, access, setting)
        return self._server.port

    def _minute_ago(self) -> tuple[Moment, float]:
        with self._lock:
            return self._past.minute_ago()

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            now = self._moment()
        return now.collect()

    def _moment(self) -> Moment:
        # Published histograms are replaced, never changed, so that a shallow copy is a snapshot.
        return Moment(
            {name: dict(series) for name, series in self._values.items()},
            {name: dict(series) for name, series in self._histograms.items()},
            self._table,
        )

    def _add(self, family: Family[float], labels: Labels, value: float) -> None:
        series = self._values[family.name]
        series[labels] = series.get(labels, 0) + value

    def _set(self, family: Family[float], labels: Labels, value: float) -> None:
        self._values[family.name][labels] = value


@contextmanager
def served(published: Published, settings: MetricsSettings, setting: str = "port") -> Iterator[str]:
    """Until the block ends; gives the address. `setting` of [metrics] names the port."""
    port = published.serve(settings.host, getattr(settings, setting), Access.of(settings), setting)
    if said := exposure(settings):
        log.warning("%s. %s", said, EXPOSURE_REMEDY)
    address = metrics_url(f"{settings.host}:{port}", bool(settings.tls_certificate))
    log.info("metrics on %s", address)
    try:
        yield address
    finally:
        published.close()
