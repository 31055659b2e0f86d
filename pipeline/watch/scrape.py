"""What a running job's /metrics endpoint says, and what happened between two looks at it."""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from pipeline.answers.histogram import Histogram
from pipeline.config.settings import MetricsSettings
from pipeline.errors import MillraceError
from pipeline.watch import families
from pipeline.watch.access import OPEN, Access
from pipeline.watch.family import Family
from pipeline.watch.server import SECONDS_AGO

_TIMEOUT = 5.0  # seconds
_LEAST_TIME = 1.0  # seconds between two looks that a rate can be told from
Labels = frozenset[tuple[str, str]]


class NoAnswer(MillraceError):
    """No job answers there; it may still be starting."""


@dataclass(frozen=True)
class Scrape:
    """One look at the endpoint: every sample, by name and labels."""

    at: float  # Unix time
    samples: dict[str, dict[Labels, float]]
    ago: float = 0.0  # seconds: it tells of a time so long before it was asked

    @classmethod
    def parse(cls, text: str, at: float, ago: float = 0.0) -> Scrape:
        samples: dict[str, dict[Labels, float]] = defaultdict(dict)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                samples[sample.name][frozenset(sample.labels.items())] = sample.value
        return cls(at, dict(samples), ago)

    def of(self, family: Family[float], **labels: str) -> dict[Labels, float]:
        """The samples of a metric that have these labels, others being free."""
        return self._of(family.name, labels)

    def total(self, family: Family[float], **labels: str) -> float:
        return sum(self.of(family, **labels).values())

    def since(self, earlier: Scrape | None) -> Scrape:
        """The growth of everything. A counter that fell was started anew: it has grown by what it shows."""
        if earlier is None:
            return self
        grown: dict[str, dict[Labels, float]] = {}
        for name, series in self.samples.items():
            before = earlier.samples.get(name, {})
            grown[name] = {
                key: value - before.get(key, 0) if value >= before.get(key, 0) else value
                for key, value in series.items()
            }
        return Scrape(self.at - earlier.at, grown)

    def quantile(self, q: float, histogram: Family[Histogram], **labels: str) -> float | None:
        """The q-quantile in seconds, interpolated within its bucket; None when nothing was observed."""
        counts: dict[float, float] = defaultdict(float)
        for key, count in self._of(f"{histogram.name}_bucket", labels).items():
            counts[float(dict(key)["le"])] += count
        bounds = sorted(counts)
        if not bounds or counts[bounds[-1]] <= 0:
            return None
        rank = q * counts[bounds[-1]]
        lower, below = 0.0, 0.0
        for bound in bounds[:-1]:
            if counts[bound] >= rank and counts[bound] > below:
                return lower + (bound - lower) * max(0.0, rank - below) / (counts[bound] - below)
            lower, below = bound, counts[bound]
        return lower

    def _of(self, name: str, labels: Mapping[str, str]) -> dict[Labels, float]:
        return {key: value for key, value in self.samples.get(name, {}).items() if labels.items() <= set(key)}


@dataclass(frozen=True)
class JoinSnapshot:
    """One dimension. None: nothing happened between the two looks."""

    dimension: str
    algorithm: str
    service_rate: float | None
    predicted_rate: float | None  # what the cost model says it should be
    queue_wait: tuple[float | None, float | None]  # p50, p99
    hits: float | None  # share
    unmatched: float | None  # share
    used_bytes: float
    limit_bytes: float  # of all workers together


@dataclass(frozen=True)
class Snapshot:
    """What an operator wants to know of a job, between two looks at it."""

    problem: str = ""  # why there is nothing else
    ready: bool = False
    rate: float | None = None  # sales committed a second
    freshness: tuple[float | None, float | None] = (None, None)  # p50, p99
    joins: tuple[JoinSnapshot, ...] = ()
    backlog: dict[str, float] = field(default_factory=dict)
    sales: float = 0
    rejects: float = 0
    rejects_share: float | None = None
    committed_ago: float | None = None
    batches: float = 0  # committed
    failed_batches: float = 0
    workers: int = 0  # of the last batch; 0: not told
    rates: tuple[float, ...] = ()  # of earlier snapshots, oldest first


def metrics_url(endpoint: str, tls: bool = False) -> str:
    """Where an endpoint's metrics are.

    >>> metrics_url("127.0.0.1:9464"), metrics_url("127.0.0.1:9464", tls=True), metrics_url("https://job/metrics")
    ('http://127.0.0.1:9464/metrics', 'https://127.0.0.1:9464/metrics', 'https://job/metrics')
    """
    url = endpoint if "://" in endpoint else f"{'https' if tls else 'http'}://{endpoint}"
    path = url.partition("://")[2].partition("/")[2]
    return url if path else f"{url.rstrip('/')}/metrics"


def of_settings(settings: MetricsSettings, endpoint: str = "") -> tuple[str, Access]:
    """Where the job with these settings is looked at, unless another endpoint is named, and what is shown there."""
    url = metrics_url(endpoint or f"{settings.host}:{settings.port}", bool(settings.tls_certificate))
    return url, Access.of(settings)


def minute_ago(url: str, access: Access = OPEN) -> Scrape | None:
    """What the job's metrics said a minute ago, or when it began; None where the endpoint does not know."""
    try:
        then = scrape(f"{url}/minute-ago", access)
    except NoAnswer:
        return None
    return then if then.ago >= _LEAST_TIME else None


def scrape(url: str, access: Access = OPEN) -> Scrape:
    # A job is near: a proxy set for the internet would only be in the way.
    secured = urllib.request.HTTPSHandler(context=access.of_client())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), secured)
    question = urllib.request.Request(url)
    if access.token:
        question.add_unredirected_header("Authorization", f"Bearer {access.token}")  # to nobody else
    try:
        with opener.open(question, timeout=_TIMEOUT) as answer:
            ago = float(answer.headers.get(SECONDS_AGO, 0))
            seen = Scrape.parse(answer.read().decode("utf-8"), time.time() - ago, ago)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.UNAUTHORIZED:
            wrong = "another token" if access.token else "a token"
            raise NoAnswer(f"{url} wants {wrong}: metrics.token_file names the file that has the job's.") from error
        raise NoAnswer(f"{url} answers with {error.code} {error.reason}: no job's metrics are there.") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise NoAnswer(
                f"{url} shows another certificate than is trusted: metrics.tls_certificate names the job's own."
            ) from error
        raise NoAnswer(
            f"no job answers at {url} ({getattr(reason, 'strerror', None) or reason}). Start one with `millrace run`, "
            "or name the address that its log gives after `metrics on`: --endpoint or metrics.host and metrics.port."
        ) from error
    except ValueError as error:
        raise NoAnswer(f"{url} answers, but not with metrics ({error}).") from error
    if not seen.of(families.BUILD_INFO):
        raise NoAnswer(f"{url} answers, but it is no Millrace job.")
    return seen


def compare(earlier: Scrape | None, now: Scrape) -> Snapshot:
    """What happened between two looks. Without an earlier one rates are unknown, the rest is since the job began."""
    grown = now.since(earlier)
    messages, rejects = grown.total(families.MESSAGES), grown.total(families.REJECTS)
    committed_at = now.total(families.LAST_COMMIT)
    return Snapshot(
        ready=now.total(families.READY) > 0,
        rate=grown.total(families.SALES) / grown.at if earlier and grown.at > 0 else None,
        freshness=_median_and_tail(grown, families.FRESHNESS),
        joins=tuple(_join(now, grown, dimension, algorithm) for dimension, algorithm in _joins(now)),
        backlog={dict(key)["topic"]: value for key, value in now.of(families.BACKLOG).items()},
        sales=now.total(families.SALES),
        rejects=now.total(families.REJECTS),
        rejects_share=_share(rejects, messages),
        committed_ago=max(0.0, now.at - committed_at) if committed_at else None,
        batches=now.total(families.BATCHES, outcome=families.COMMITTED),
        failed_batches=now.total(families.BATCHES, outcome=families.FAILED),
        workers=round(now.total(families.WORKERS)),
    )


def _joins(now: Scrape) -> list[tuple[str, str]]:
    """Dimensions and the algorithm each has used, in alphabetical order."""
    series = map(dict, now.of(families.JOIN_SECONDS))
    return sorted((labels["dimension"], labels["algorithm"]) for labels in series)


def _join(now: Scrape, grown: Scrape, dimension: str, algorithm: str) -> JoinSnapshot:
    join = {"dimension": dimension, "algorithm": algorithm}
    served = grown.total(families.SERVED, **join)
    hits = grown.total(families.CACHE_HITS, dimension=dimension)
    misses = grown.total(families.CACHE_MISSES, dimension=dimension)
    return JoinSnapshot(
        dimension=dimension,
        algorithm=algorithm,
        service_rate=_share(served, grown.total(families.JOIN_SECONDS, **join)),
        predicted_rate=now.total(families.PREDICTED_RATE, **join) or None,
        queue_wait=_median_and_tail(grown, families.QUEUE_WAIT, **join),
        hits=_share(hits, hits + misses),
        unmatched=_share(grown.total(families.SERVED, **join, outcome="unmatched"), served),
        used_bytes=now.total(families.BUDGET_USED, dimension=dimension),
        limit_bytes=now.total(families.BUDGET_LIMIT, dimension=dimension),
    )


def _median_and_tail(grown: Scrape, histogram: Family[Histogram], **labels: str) -> tuple[float | None, float | None]:
    return grown.quantile(0.5, histogram, **labels), grown.quantile(0.99, histogram, **labels)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
