"""What went wrong, in one sentence: from the worker that met it to the person who reads the log.

An error of ours that ends a task reaches the driver inside Spark's words and two tracebacks. So the worker sends it as
one marked line, and the driver reads that line again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.config.settings import Settings
from pipeline.errors import KafkaReadFailed, MillraceError, StorageFailed, TopicChanged
from pipeline.warehouse import places

_MARK = "millrace-failure: "


class WorkerFailed(MillraceError):
    """A worker's own error, raised again on the driver; `kind` is its class there."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


class JobFailed(MillraceError):
    """The streaming query ended with an error; nothing is lost, the next start continues."""


class _Marked(Exception):
    """Carries the marked line out of a task."""


@contextmanager
def marked() -> Iterator[None]:
    """In a worker: errors of ours leave as one line that `of_worker` finds again."""
    try:
        yield
    except MillraceError as error:
        raise _Marked(_MARK + json.dumps([type(error).__name__, str(error)])) from error


def of_worker(failure: BaseException) -> MillraceError | None:
    """On the driver: the worker's error out of what Spark made of it; None if it was none of ours."""
    lines = re.findall(rf"{_MARK}(\[.*\])", str(failure))
    if not lines:
        return None
    kind, sentence = json.loads(lines[-1])
    return WorkerFailed(kind, sentence)


def kind(failure: BaseException) -> str:
    """The class of what failed, for a metric."""
    return failure.kind if isinstance(failure, WorkerFailed) else type(failure).__name__


def about_topics(failure: BaseException) -> bool:
    """Whether Kafka itself, asked by the driver, may tell more of it."""
    return kind(failure) in (TopicChanged.__name__, KafkaReadFailed.__name__)


def of_query(ended: Exception, in_batch: Exception | None, settings: Settings) -> MillraceError:
    """What ended a streaming query, if it was none of our own errors."""
    text = str(in_batch or ended)
    if told_so := places.sentence_of(in_batch or ended, settings):
        return StorageFailed(told_so)
    if re.search(r"CONCURRENT_STREAM_LOG_UPDATE|[Mm]ultiple streaming queries|ConcurrentModification", text):
        return JobFailed(
            f"another job writes to the checkpoint {settings.job.checkpoint}: it has put down the batch that this one "
            f"was about to. Stop one of them, or give it a job.name and a job.checkpoint of its own. Nothing is lost."
        )
    return JobFailed(
        f"the query ended with {_innermost(text)}. Nothing is lost: the next start goes on behind the last commit. "
        f"All that Spark says of it is shown with --debug."
    )


def _innermost(text: str) -> str:
    """The last cause that a Java or Python traceback names: the class and what it says.

    >>> _innermost("Job aborted\\n\\tat a.b(C.java:1)\\nCaused by: java.io.IOException: no luck\\n\\tat d.e(F.java:2)")
    'java.io.IOException: no luck'
    """
    causes = re.findall(r"^\s*(?:Caused by: )?((?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception)\w*: .+)$", text, re.MULTILINE)
    return str(causes[-1]) if causes else text.strip().split("\n")[0]
