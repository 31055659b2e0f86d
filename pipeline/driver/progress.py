"""What a checkpoint folder says of a stream, whoever reads it: Spark's Hadoop for a job, or this file without Spark."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

from pyarrow import fs

from pipeline.driver.origin import Ends
from pipeline.warehouse import storage
from pipeline.warehouse.faults import Place


class Progress(ABC):
    """Which batches are planned and done, and where each of them ended.

    `offsets/N` says where batch N ends, and is written before anything of it is read; `commits/N` that it is done;
    `sources/0/0` where the first batch begins; `metadata` which query it is.
    """

    path: str

    @property
    def planned(self) -> int | None:
        """The last batch whose offsets are written down, done or not."""
        return self._last("offsets")

    @property
    def done(self) -> int | None:
        """The last batch that Spark holds for finished."""
        return self._last("commits")

    def ends(self, batch: int | None) -> Ends | None:
        """Where a batch ended, or without one where the first begins; None if the checkpoint does not say (any more).

        Spark keeps the offsets of the last hundred batches.
        """
        name = "sources/0/0" if batch is None else f"offsets/{batch}"
        return dict(json.loads(self._text(name).splitlines()[-1])) if self._has(name) else None

    def id(self) -> str | None:
        """The identity Spark gave the query when the checkpoint was made."""
        return str(json.loads(self._text("metadata"))["id"]) if self._has("metadata") else None

    def _last(self, name: str) -> int | None:
        return max(self._numbers(name), default=None)

    def _numbers(self, name: str) -> list[int]:
        return [int(name) for name in self._names(name) if name.isdigit()]

    @abstractmethod
    def _names(self, folder: str) -> list[str]:
        """The files in it; none if there is no such folder."""

    @abstractmethod
    def _has(self, name: str) -> bool: ...

    @abstractmethod
    def _text(self, name: str) -> str: ...


class SeenProgress(Progress):
    """Read without Spark, and never written: where deltalake reaches the store, or on a disk."""

    def __init__(self, place: Place) -> None:
        self.path = place.uri
        # deltalake refuses a local folder that is not there yet, as before the first start.
        on_disk = fs.SubTreeFileSystem(place.folder, fs.LocalFileSystem()) if place.is_local else None
        self._files: Any = on_disk or storage.filesystem(place.uri, dict(place.options))

    def _names(self, folder: str) -> list[str]:
        return [found.base_name for found in self._files.get_file_info(fs.FileSelector(folder, allow_not_found=True))]

    def _has(self, name: str) -> bool:
        return bool(self._files.get_file_info(name).type == fs.FileType.File)

    def _text(self, name: str) -> str:
        with self._files.open_input_file(name) as file:
            return bytes(file.read()).decode()
