"""Spark's checkpoint folder as a job uses it: held against a second job, set back, gone on from."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pipeline.driver.origin import Ends
from pipeline.driver.progress import Progress
from pipeline.errors import WarehouseRefused
from pipeline.warehouse import disk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTES = "spark.sql.streaming.checkpointFileManagerClass"
_NOTES_ON_A_DISK = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_DONE = 'v1\n{"nextBatchWatermarkMs":0}'  # what Spark writes down of a batch that is done


class Checkpoint(Progress):
    """The folder, wherever it lies: written through Hadoop's file systems, as Spark does, and read so but on a disk."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path
        self._jvm = cast(Any, spark.sparkContext._jvm)
        self._root = self._jvm.org.apache.hadoop.fs.Path(path)
        self._kept_its_beginning = False
        self._files: Any = self._root.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        self._folder = self._local_folder()

    def choose_how_spark_writes(self, spark: SparkSession) -> None:
        """On a local disk Spark writes its two notes of a batch as it does on a store, unless the settings say how.

        Hadoop sets a file's mode by starting a program, 9 ms each time, and Spark's usual way has it done for the file
        under each of its names and for each checksum: 70 of the 120 ms between two batches. The other way has the same
        promise on a disk (both look for the name before they rename to it). It does without Hadoop's checksum files,
        which take it twice as long as the notes: nobody's promise rests on them (`pipeline/warehouse/disk.py`).
        """
        if self._folder is not None and spark.conf.get(_NOTES, None) in (None, _NOTES_ON_A_DISK):
            spark.conf.set(_NOTES, _NOTES_ON_A_DISK)
            self._files.setWriteChecksum(False)  # Spark's manager has the same one, from Hadoop's own memory of them

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other job and no repair on this machine may use the checkpoint meanwhile; ends with its holder.

        On other file systems than a local one it is Spark that notices a second job, when both write down one batch.
        """
        folder = self._folder
        if folder is None:
            yield
            return
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".millrace.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise WarehouseRefused(
                    f"the checkpoint {self.path} is in use by another job on this machine. Stop that one first, or "
                    f"give this one a job.name and a job.checkpoint of its own."
                ) from None
            yield

    def keep(self, batch: int) -> None:
        """What Spark has planned of this batch is on a local disk before anything of it is committed.

        Else a power cut could leave a commit whose batch is planned again, with other offsets.
        """
        if (folder := self._folder) is None:
            return
        notes = [note for note in (folder / "offsets").iterdir() if str(batch) in note.name.split(".")]
        if not self._kept_its_beginning:
            notes += [folder / "metadata", *(note for note in folder.glob("sources/*/*") if note.is_file())]
        for note in notes:
            disk.keep(note)
        disk.keep(folder / "offsets")
        if not self._kept_its_beginning:
            for note in notes:
                disk.keep_name(note)
        self._kept_its_beginning = True

    def take_torn_aside(self) -> None:
        """The newest notes, if a power cut has left them unfinished: those of batches that Spark begins anew.

        What is planned is kept before its batch is committed, so a batch of which that is torn is in no table.
        """
        if (folder := self._folder) is None:
            return
        for kind in ("commits", "offsets"):
            for number in sorted(self._numbers(kind), reverse=True):
                note = folder / kind / str(number)
                if not disk.is_torn(note.read_bytes()):
                    break
                disk.aside(note)
                note.with_name(f".{number}.crc").unlink(missing_ok=True)
        for note in (folder / "metadata", *folder.glob("sources/*/[0-9]*")):
            if note.is_file() and self.planned is None and disk.is_torn(note.read_bytes()):
                disk.aside(note)

    def plan(self, batch: int, ends: Ends) -> None:
        """Put down that this batch goes on to these offsets."""
        version, metadata, _ = self._text(f"offsets/{self.planned}").split("\n", 2)
        known = json.loads(metadata) | {"batchTimestampMs": int(time.time() * 1000)}
        self._write(f"offsets/{batch}", "\n".join([version, json.dumps(known), json.dumps(ends)]))

    def finish(self, batch: int) -> None:
        self._write(f"commits/{batch}", _DONE)

    def rewind(self, batch: int | None) -> str:
        """Forget all batches behind this one (without one: all). What is forgotten is kept in the folder returned."""
        aside = self._path(f"rewound-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}")
        for name in ("commits", "offsets"):  # in this order: planned and not done is what Spark expects after a fall
            later = [n for n in self._numbers(name) if batch is None or n > batch]
            for number in sorted(later, reverse=True):
                self._files.mkdirs(self._jvm.org.apache.hadoop.fs.Path(aside, name))
                self._files.rename(
                    self._path(f"{name}/{number}"), self._jvm.org.apache.hadoop.fs.Path(aside, f"{name}/{number}")
                )
        return str(aside.toString())

    def _local_folder(self) -> Path | None:
        uri = self._files.makeQualified(self._root).toUri()
        return Path(str(uri.getPath())) if uri.getScheme() == "file" else None

    def _names(self, folder: str) -> list[str]:
        if not self._has(folder):
            return []
        if self._folder is not None:
            return os.listdir(self._folder / folder)
        return [str(status.getPath().getName()) for status in self._files.listStatus(self._path(folder))]

    def _has(self, name: str) -> bool:
        if self._folder is not None:
            return (self._folder / name).exists()
        return bool(self._files.exists(self._path(name)))

    def _text(self, name: str) -> str:
        if self._folder is not None:  # each batch reads one, and Hadoop takes 4 ms for it
            return (self._folder / name).read_text("utf-8")
        stream = self._files.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _write(self, name: str, text: str) -> None:
        """Whole or not at all: as Spark does, under another name first."""
        unfinished = self._path(f"{name}.unfinished")
        stream = self._files.create(unfinished, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self._files.delete(self._path(name), False)
        self._files.rename(unfinished, self._path(name))

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)
