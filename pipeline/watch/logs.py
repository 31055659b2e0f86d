"""What a job says on stderr: lines for people, or with `MILLRACE_LOG=json` one JSON object a line. Never a secret."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from pipeline.errors import BadSetting

FORM = "MILLRACE_LOG"
SPARKS_LINES = Path(__file__).with_name("log4j2.properties")
_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_NAMES = r"password|passwd|pwd|secret|token|credentials?|access[._-]?key|jaas[._]config"
_VALUE = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s,;&)}\]]+"
# `password=…`, `"password": "…"`, `sasl.jaas.config = …`; but not `password_file`, which names a place.
_NAMED = re.compile(rf"((?i:{_NAMES})[\"']?\s*[=:]\s*)({_VALUE})")
_IN_URL = re.compile(r"(://[^\s/:@]*:)[^\s@]+(?=@)")


# `--debug`: frames and tracebacks too, ours, Spark's and those of the bridge between.
whole = False


def to_stderr(environment: Mapping[str, str] | None = None) -> None:
    """Send the log of this process to stderr, in the form the environment asks for."""
    form = (os.environ if environment is None else environment).get(FORM, "text")
    if form not in ("text", "json"):
        raise BadSetting(f"{FORM} = {form!r}; it may be text or json, or not be set.")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else Lines(_LINE))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("py4j").setLevel(logging.WARNING if whole else logging.CRITICAL)


class Lines(logging.Formatter):
    """Lines for people."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        said = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": redacted(record.getMessage()),
        }
        if record.exc_info:
            said["exception"] = redacted(self.formatException(record.exc_info))
        return json.dumps(said, ensure_ascii=False)


def redacted(text: str) -> str:
    """The text without what stands behind a name such as `password`, or between a user and a host.

    >>> redacted("connect(user='job', password='s3 cret') failed")
    "connect(user='job', password=***) failed"
    >>> redacted("mysql://job:s3cret@db:3306/master?x=1")
    'mysql://job:***@db:3306/master?x=1'
    >>> redacted("see master.password_file = /run/secrets/db")
    'see master.password_file = /run/secrets/db'
    """
    return _IN_URL.sub(r"\1***", _NAMED.sub(r"\1***", text))
