"""Does the checkpoint belong to the warehouse? Started with the wrong one, sales would be lost or written twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from pipeline.errors import WarehouseRefused
from pipeline.settings import Settings
from pipeline.warehouse.port import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Checkpoint:
    """Spark's checkpoint folder, wherever it lies: read through Hadoop's file systems, as Spark does."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path
        self._jvm = cast(Any, spark.sparkContext._jvm)
        self._root = self._jvm.org.apache.hadoop.fs.Path(path)
        self._files: Any = self._root.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def last_planned(self) -> int | None:
        """The last batch whose offsets are written down, done or not."""
        return self._last("offsets")

    def offsets(self) -> dict[str, dict[str, int]]:
        """Where the last batch that is done ended, by topic and partition; empty before the first."""
        done = self._last("commits")
        if done is None or not self._files.exists(self._path(f"offsets/{done}")):
            return {}
        return dict(json.loads(self._text(f"offsets/{done}").splitlines()[-1]))

    def id(self) -> str | None:
        """The identity Spark gave the query when the checkpoint was made."""
        if not self._files.exists(self._path("metadata")):
            return None
        return str(json.loads(self._text("metadata"))["id"])

    def _last(self, name: str) -> int | None:
        folder = self._path(name)
        if not self._files.exists(folder):
            return None
        names = [status.getPath().getName() for status in self._files.listStatus(folder)]
        return max((int(name) for name in names if name.isdigit()), default=None)

    def _text(self, name: str) -> str:
        stream = self._files.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)


def guard(checkpoint: Checkpoint, settings: Settings, warehouse: Warehouse) -> None:
    """Refuse to start where Delta would silently skip batches, or Spark would silently leave some out."""
    written, planned = warehouse.last_batch(), checkpoint.last_planned()
    table = f"{settings.warehouse.path}/{settings.warehouse.facts}"
    name = settings.job.name
    if written is not None and (planned is None or written > planned):
        knows = "is empty" if planned is None else f"knows batches up to {planned} only"
        raise WarehouseRefused(
            f"{table} already has batch {written} of application {name!r}, but the checkpoint {checkpoint.path} "
            f"{knows}: the batches in between would be skipped without a word and their sales lost. "
            f"Restore the checkpoint that belongs to the table; or, to continue without it, choose another job.name "
            f"and set kafka.starting_offsets to where the facts end."
        )
    if planned is not None and (-1 if written is None else written) < planned - 1:
        has = "has none of its batches" if written is None else f"has them only up to {written}"
        raise WarehouseRefused(
            f"the checkpoint {checkpoint.path} is at batch {planned} of application {name!r}, but {table} {has}: "
            f"the sales in between would be missing. "
            f"Restore the table, or delete the checkpoint and the table together to start anew."
        )
    note = warehouse.last_note() or {}
    known, found = note.get("checkpoint"), checkpoint.id()
    if known and found and known != found:
        raise WarehouseRefused(
            f"{table} was last written by application {name!r} with checkpoint {known}, but {checkpoint.path} is "
            f"checkpoint {found}: two streams under one name overwrite each other's batches. "
            f"Give this job another job.name, or point job.checkpoint to the first one's folder."
        )
