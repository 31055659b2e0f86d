"""What every peer is told, and what the harness asks of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from pipeline.config.contracts import Contracts, DimensionContract, TopicContract


@dataclass(frozen=True)
class Task:
    """One run of one peer."""

    place: str  # a folder of its own: its log, its progress, its answer
    bootstrap: str
    topic: str
    messages: int
    host: str
    port: int
    user: str
    password: str
    database: str
    kind: str  # mysql or mariadb
    dimensions: tuple[str, ...]
    cached_rows: int  # of a dimension, where a peer counts in rows
    memory: str  # of a dimension in a worker, where a peer counts in bytes
    batch: int  # sales, where a peer has batches of sales
    cores: int
    spark_master: str = ""  # Millrace's, else it is local with so many cores
    keep: bool = (
        False  # the answer is written down, to be checked; else it is thrown away, or goes where it always goes
    )

    @property
    def folder(self) -> Path:
        return Path(self.place)

    @property
    def contracts(self) -> list[DimensionContract]:
        return [Contracts().dimension(name, "") for name in self.dimensions]

    @property
    def sale(self) -> TopicContract:
        return Contracts().topic("sale.v1")

    def write(self) -> Path:
        file = self.folder / "task.json"
        file.touch(mode=0o600)
        file.write_text(json.dumps(asdict(self)))
        return file

    @classmethod
    def read(cls, file: str) -> Task:
        document = json.loads(Path(file).read_text())
        return cls(**{**document, "dimensions": tuple(document["dimensions"])})


@dataclass(frozen=True)
class Peer:
    """A system that joins the sales with the master tables: a program that goes on until it is ended."""

    name: str
    module: str  # run with the task's file as its argument
    done: Callable[[Task], int]  # sales so far
    answer: Callable[[Task], pa.Table]  # sale_id and <dimension>_key of all sales, if the task says `keep`


def key_of(dimension: str) -> str:
    """The answer's column with the surrogate keys of a dimension."""
    return f"{dimension}_key"
