"""The places a job writes to: tried before it starts, and asked again when Spark fails without saying where or why."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import BadSetting, MillraceError, StorageFailed
from pipeline.warehouse import storage
from pipeline.warehouse.faults import Place, innermost, sentence, spoken

if TYPE_CHECKING:
    from pipeline.config.settings import Settings

_LEAST_FREE = 1 << 20  # bytes; with less, a file of any use does not fit
# A person waits for this answer at the terminal; the job itself tries longer.
_SOON = {"max_retries": "2", "retry_timeout": "10s", "connect_timeout": "5s", "timeout": "20s"}
_OF_FILES = r"IOException|FSError|OSError|os error|No space left|Read-only file|mkdir|Cannot create|NotDirectory|denied"
_OF_A_STORE = r"s3a?[.:]|S3|amazon|azure|abfs|cloud\.hadoop|hadoop\.fs|Generic \w+ error|gs://"


@contextmanager
def told(place: Place) -> Iterator[None]:
    """Whatever the storage of this place raises inside becomes one sentence."""
    try:
        yield
    except MillraceError:
        raise
    except BaseException as error:
        told_so = sentence(place, str(error))
        if not (_is_of_storage(error) or (told_so and isinstance(error, Exception))):
            raise
        raise StorageFailed(told_so or f"{place}: {innermost(str(error))}.") from error


def tables(settings: Settings) -> Place:
    return Place("warehouse.path", settings.warehouse.path, settings.warehouse.storage_options)


def checkpoint(settings: Settings) -> Place:
    """Spark reaches it by the options of the tables, so both must be of one kind; see `hadoop.py`."""
    return Place("job.checkpoint", settings.job.checkpoint, settings.warehouse.storage_options)


def scratch(settings: Settings) -> Place:
    """Where Spark and its workers keep files for a while."""
    folder = settings.spark.conf.get("spark.local.dir") or os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()
    return Place("spark.conf.spark.local.dir", folder.partition(",")[0])


def refuse_unusable(settings: Settings) -> None:
    """Write and delete a small file where the tables and the checkpoint are to be, before Spark starts."""
    refuse_unreadable(settings)
    for place in (tables(settings), checkpoint(settings), scratch(settings)):
        if place.is_local:
            if reason := ask(place.folder):
                raise StorageFailed(sentence(place, reason) or f"{place}: {reason}.")
        elif urlsplit(place.uri).scheme == urlsplit(settings.warehouse.path).scheme:
            _try_store(place)


def refuse_unreadable(settings: Settings) -> None:
    """Refuse a name that deltalake cannot read."""
    if tables(settings).is_local and "%" in tables(settings).folder:
        raise BadSetting(
            f"warehouse.path = {settings.warehouse.path}: deltalake cannot read tables below a folder with a % in its "
            f"name. Name another folder."
        )


def _try_store(place: Place) -> None:
    name = f"_millrace-{uuid.uuid4().hex}"  # Delta and Spark take no notice of what begins so
    if (endpoint := place.endpoint) and not re.match(r"https?://[\w.\[-]", endpoint):
        raise StorageFailed(sentence(place, "InvalidUri"))  # deltalake panics at it
    with told(place):
        store = storage.filesystem(place.uri, soon(place.options))
        sink = store.open_output_stream(name)
        pq.write_table(pa.table({"may_be_deleted": pa.array([], pa.int32())}), sink)
        sink.close()
        store.delete_file(name)


def ask(folder: str) -> str | None:
    """Why no file can be written to this folder now, in the system's words; None if one can.

    A folder that is not there yet is not made: a backup may be about to be put there.
    """
    folder = _nearest(folder)
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".millrace-") as file:
            file.write(b"\0" * 65_536)
            file.flush()
            os.fsync(file.fileno())
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)
    return os.strerror(errno.ENOSPC) if free < _LEAST_FREE else None


def look(place: Place) -> int:
    """The bytes that are free on a local place's disk. Writes nothing, and refuses what that tells already."""
    folder = _nearest(place.folder)
    reason = None
    try:
        disk = os.statvfs(folder)
        if not os.path.isdir(folder):
            reason = errno.ENOTDIR
        elif disk.f_flag & os.ST_RDONLY:
            reason = errno.EROFS
        elif not os.access(folder, os.W_OK | os.X_OK):
            reason = errno.EACCES
        elif (free := disk.f_bavail * disk.f_frsize) >= _LEAST_FREE:
            return free
    except OSError as error:
        reason = error.errno
    said = os.strerror(reason or errno.ENOSPC)
    raise StorageFailed(sentence(place, said) or f"{place}: {said}.")


def soon(options: Mapping[str, str]) -> dict[str, str]:
    """A store's options, with which a person need not wait long for its answer."""
    return {**_SOON, **options}


def _nearest(folder: str) -> str:
    """The folder, or the first above it that is there."""
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return folder


def sentence_of(failure: object, settings: Settings) -> str | None:
    """What Spark says of a failed query, as a sentence if storage is the reason; None otherwise.

    Spark often names neither place nor reason ("mkdir of … failed"), so the disks themselves are asked as well.
    """
    said = str(failure).partition("=== Streaming Query ===")[0]
    if "pipeline.errors." in said:
        return None  # the worker or the committer has already made its sentence of it
    written = (checkpoint(settings), tables(settings), scratch(settings))
    named = [place for place in written if _names(said, place)]
    for place in named or written:
        if place.is_local and re.search(_OF_FILES, said) and (reason := ask(place.folder)):
            return sentence(place, reason) or f"{place}: {reason}."
    for place in named:
        if told_so := sentence(place, spoken(said)):
            return told_so
    for place in written:
        if not place.is_local and not named and re.search(_OF_A_STORE, said):
            return sentence(place, spoken(said))
    return None


def _names(said: str, place: Place) -> bool:
    return re.search(re.escape(place.folder.rstrip("/")) + r"(?![\w-])", said) is not None


def _is_of_storage(error: BaseException) -> bool:
    """Errors of files, of deltalake, of Hadoop through Py4J, and Rust's panics, which are no Exception to Python."""
    from deltalake.exceptions import DeltaError
    from py4j.protocol import Py4JJavaError

    return isinstance(error, (OSError, DeltaError, Py4JJavaError)) or type(error).__name__ == "PanicException"
