"""A job's reading and nothing else, by either reader, for the tests that hold them side by side."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from pipeline import source
from pipeline.answers.task import TaskAnswer
from pipeline.columns import KAFKA
from pipeline.config.settings import Settings
from pipeline.driver.checkpoint import Checkpoint
from pipeline.driver.cluster import on_workers
from pipeline.driver.readers import make_reader

Message = tuple[str, int, int, bytes | None]  # topic, partition, offset, value


@dataclass
class Stream:
    """What the workers get is written down as it is."""

    spark: SparkSession
    folder: Path
    settings: Settings
    tasks: list[int] = field(default_factory=list)  # of each batch
    times: list[int] = field(default_factory=list)  # of the messages read last, in their order

    def read(self) -> list[Message]:
        """All there is, in batches, and where they left off."""
        reader = make_reader(self.settings, self.spark, Checkpoint(self.spark, self.settings.job.checkpoint))
        place = self.folder / uuid.uuid4().hex
        place.mkdir()
        write = writing_to(str(place), self.settings)

        def on_batch(messages, batch: int) -> None:
            answer = on_workers(reader.tasks(messages, batch), write)
            self.tasks.append(len(answer.workers))

        stream = source.read_stream(self.spark, self.settings).writeStream.foreachBatch(on_batch)
        stream = stream.option("checkpointLocation", self.settings.job.checkpoint).trigger(availableNow=True)
        stream.start().awaitTermination()
        tables = [pa.ipc.open_file(pa.memory_map(str(file))).read_all() for file in place.iterdir()]
        table = pa.concat_tables([KAFKA.empty_table().rename_columns(tables[0].column_names), *tables])
        table = table.sort_by([(f"message.{name}", "ascending") for name in ("topic", "partition", "offset")])
        self.times = table["message.timestamp"].cast(pa.int64()).to_pylist()
        columns = [table[f"message.{name}"].to_pylist() for name in ("topic", "partition", "offset", "value")]
        return list(zip(*columns, strict=True))

    @property
    def planned(self) -> list[str]:
        """What the checkpoint says of each batch."""
        offsets = Path(self.settings.job.checkpoint) / "offsets"
        return [(offsets / str(n)).read_text().splitlines()[-1] for n in range(len(list(offsets.glob("[0-9]*"))))]


def writing_to(place: str, settings: Settings) -> Callable[[Iterator[pa.RecordBatch]], TaskAnswer]:
    """What a worker does with its messages. A worker cannot import the tests, so its function is made here."""
    limits = settings.worker

    def write(messages: Iterator[pa.RecordBatch]) -> TaskAnswer:
        name = uuid.uuid4().hex
        windows = list(source.windows(messages, limits))
        if windows:
            with pa.OSFile(f"{place}/{name}", "wb") as file, pa.ipc.new_file(file, windows[0].schema) as writer:
                for window in windows:
                    writer.write_table(window)
        return TaskAnswer(workers=[name])

    return write
