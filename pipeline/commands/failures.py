"""The way out of a failure: one sentence on stderr and an exit code; the traceback only if --debug asks for it.

    with failures.told():
        work()

Ours say themselves what is wrong. What others raise is told by what it is: a place of the file system, Kafka, the
database, the tables' log, Spark. Anything else is a defect of ours, and is called one.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pipeline.errors import MillraceError

MENDABLE, DEFECT, INTERRUPTED = 2, 70, 130  # exit codes; 70 is what sysexits.h calls an internal software error

_REMEDIES = {
    errno.ENOSPC: "Free some space there, or name another place.",
    errno.EDQUOT: "Free some of the quota, or name another place.",
    errno.EROFS: "Name a place that can be written.",
    errno.EACCES: "Allow this account to use it, or name another place.",
    errno.EPERM: "Allow this account to use it, or name another place.",
    errno.ENOENT: "Make it, or name another place.",
    errno.EMFILE: "Raise the limit of open files (ulimit -n).",
    errno.ECONNREFUSED: "Start what should answer there, or name another address.",
}
# Whose errors a package's are: the first package counts from which any class of the error comes.
_OTHERS = {
    "confluent_kafka": "Kafka",
    "cimpl": "Kafka",
    "kafka": "Kafka",
    "pymysql": "the database",
    "deltalake": "the tables' log",
    "_internal": "the tables' log",  # deltalake's own, in Rust
    "pyarrow": "files or columns",
    "pyspark": "Spark",
    "py4j": "Spark",
}


@contextmanager
def told(debug: bool = False, program: str = "millrace") -> Iterator[None]:
    """End the process with a sentence if the block fails."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001 told below, whatever it is
        sentence, code = explained(error)
        if debug:
            traceback.print_exception(error)
        with suppress(OSError):  # stderr may be what is full
            print(f"{program}: {sentence}", file=sys.stderr, flush=True)
        sys.exit(code)


def explained(error: BaseException) -> tuple[str, int]:
    """The sentence for a failure, and the exit code."""
    if isinstance(error, MillraceError):
        return str(error), MENDABLE
    if isinstance(error, OSError) and not _owner(error):
        return _of_the_system(error), MENDABLE
    if isinstance(error, MemoryError):
        return "this process has no memory left. Give the machine more, or lower worker.window_bytes.", MENDABLE
    if owner := _owner(error):
        nobody = owner == "the database" and error.args[:1] in ((2002,), (2003,))
        remedy = "Start it; the embedded one with `millrace up`." if nobody else "--debug shows where."
        return f"{owner} failed: {_words(error)}. {remedy}", MENDABLE
    return (
        f"{type(error).__name__}: {_words(error)}. This is a defect of Millrace and not of what you gave it. Run the "
        "same command with --debug for the traceback, and report it with that.",
        DEFECT,
    )


def _of_the_system(error: OSError) -> str:
    """A file, a folder or an address, the system's reason, what to do.

    >>> _of_the_system(PermissionError(errno.EACCES, "Permission denied", "/lake"))
    '/lake: Permission denied. Allow this account to use it, or name another place.'
    """
    places = " -> ".join(os.fsdecode(p) for p in (error.filename, error.filename2) if isinstance(p, (str, bytes)))
    reason = error.strerror or _words(error)
    remedy = _REMEDIES.get(error.errno or 0, "--debug shows where.")
    return f"{places}{': ' if places else ''}{reason}. {remedy}"


def _owner(error: BaseException) -> str:
    packages = (kind.__module__.partition(".")[0] for kind in type(error).__mro__)
    return next((_OTHERS[package] for package in packages if package in _OTHERS), "")


def _words(error: BaseException) -> str:
    """The first line of what an error says, without the frames of another language."""
    said: object = error
    if error.args and hasattr(error.args[0], "str"):  # confluent-kafka's: an object with a text of its own
        said = error.args[0].str()
    elif len(error.args) == 2 and isinstance(error.args[0], int):  # pymysql's: a number and a text
        said = f"{error.args[1]} ({error.args[0]})"
    elif java := getattr(error, "java_exception", None):
        said = java.toString()
    lines = [line.strip() for line in str(said).splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    return re.sub(r"[\s.:]+$", "", first)
