"""A power cut takes nothing that is committed: what a local disk must have before the next step relies on it.

A file that is written is in the system's memory first, and reaches the disk half a minute later, in any order: a log
entry may be there whose Parquet files are empty. Neither deltalake nor Delta on Spark asks for more. So a batch goes

    1. Spark's note of what it has planned     before anything is committed
    2. the workers' files                      before they are told to the driver, which names them in its commit
    3. the commit                              before Spark notes that the batch is done

to the disk, each before the next, and a note or an entry that was under way when the power went is torn: it never
counted, and the next start takes it aside. What deltalake or Spark writes and commits in one call (merged, healed and
staged files) is on the disk a moment after it; a power cut in just that moment may leave an entry without its files.
Stores promise all this by themselves.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from pipeline.warehouse.storage import is_local

log = logging.getLogger("millrace.disk")

_LOG = "_delta_log"
_PARQUET_ENDS = b"PAR1"


def keep(path: Path) -> None:
    """This file, or the names in this folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems know no folders
            raise
    finally:
        os.close(descriptor)


def keep_name(path: Path) -> None:
    """All folders on the way to it: nobody knows which of them were made just now."""
    for folder in path.absolute().parents:
        with suppress(PermissionError):  # one that this account may only pass is older than its files
            keep(folder)


def keep_files(uri: str, paths: Iterable[str]) -> None:
    """Files of a table by their paths in it, and the folders on the way to them."""
    if not is_local(uri):
        return
    root, folders = Path(uri), set()
    for path in paths:
        keep(root / path)
        folders |= {root / above for above in Path(path).parents}
    for folder in sorted(folders, reverse=True):
        keep(folder)


def keep_commits(uri: str, first: int, last: int) -> None:
    """These versions of a table: the files that they add, their entries in the log, and its checkpoints."""
    if not is_local(uri):
        return
    entries = Path(uri) / _LOG
    for version in range(first, last + 1):
        entry = entries / f"{version:020}.json"
        with suppress(FileNotFoundError):  # cleaned up meanwhile, or rewritten by another's merge
            keep_files(uri, _added(entry))
        for made in (entry, entry.with_suffix(".checkpoint.parquet")):
            with suppress(FileNotFoundError):
                keep(made)
    with suppress(FileNotFoundError):
        keep(entries / "_last_checkpoint")
    keep(entries)
    if first == 0:
        keep_name(entries)


def take_torn_aside(uri: str) -> None:
    """The newest entries and the newest checkpoint of a table's log, if a power cut has left them unfinished."""
    entries = Path(uri) / _LOG
    if not is_local(uri) or not entries.is_dir():
        return
    for entry in _newest_first(entries, ".json"):
        if _is_whole(entry):
            break
        aside(entry)
    for checkpoint in _newest_first(entries, ".checkpoint.parquet"):
        if checkpoint.read_bytes()[-4:] == _PARQUET_ENDS:
            break
        aside(checkpoint)
    hint = entries / "_last_checkpoint"
    if hint.exists() and not (_is_whole(hint) and list(entries.glob(_of_hint(hint)))):
        aside(hint)


def is_torn(text: bytes) -> bool:
    """Whether this is what a file system leaves of a file that it never had: nothing, or zeros."""
    return not text.strip(b"\0")


def _added(entry: Path) -> Iterator[str]:
    for line in entry.read_bytes().splitlines():
        if path := json.loads(line).get("add", {}).get("path"):
            yield unquote(path)


def _newest_first(entries: Path, suffix: str) -> list[Path]:
    return sorted(entries.glob("[0-9]" * 20 + suffix), reverse=True)


def _is_whole(file: Path) -> bool:
    """JSON, a value a line."""
    try:
        return bool([json.loads(line) for line in file.read_bytes().splitlines()])
    except ValueError:
        return False


def _of_hint(hint: Path) -> str:
    """The files of the checkpoint that it points to: one, or several parts."""
    return f"{json.loads(hint.read_bytes())['version']:020}.checkpoint*"


def aside(file: Path) -> None:
    """Under a name that nobody reads."""
    to = file.with_name(f".{file.name}.torn-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}")
    log.warning("%s is unfinished, as after a power cut: it never counted, and is kept as %s", file, to.name)
    file.rename(to)
