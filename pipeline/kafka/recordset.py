"""What a fetch brings of one partition: record batches, turned into Arrow columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.columns import KAFKA
from pipeline.errors import CorruptMessages
from pipeline.kafka import loops
from pipeline.kafka.compression import NotDecompressed, decompressed

Table = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Aborted = Iterable[tuple[int, int]]  # producer, and the first offset of its transaction

_CODEC, _TRANSACTION, _CONTROL = 0x07, 0x10, 0x20
_DECOMPRESSED_AT_ONCE = 8 << 20  # bytes of small batches that become one piece
_WRONG = {
    loops.OLD_FORMAT: "they are in Kafka's old message format (0 or 1), which only Spark's source reads",
    loops.BAD_LENGTH: "a record batch says that it is shorter than its own header",
    loops.BAD_CHECKSUM: "a record batch does not have the checksum (CRC32C) that it was written with",
    loops.BAD_COUNT: "a record batch says that it has more records than it can have",
    loops.BAD_RECORD: "a record reaches over the end of its batch",
    loops.BAD_OFFSET: "offsets do not grow",
    loops.BAD_END: "a record batch goes on behind its last record",
}


class RecordSet:
    """The record batches from one fetch, checked; `next_offset` is what to ask for next."""

    def __init__(self, topic: str, partition: int, data: Bytes, offset: int, aborted: Aborted = ()) -> None:
        self.topic, self.partition = topic, partition
        self._data, self.next_offset = data, offset
        room = np.empty((len(data) // loops.HEADER + 1, loops.COLUMNS), np.int64)
        found, wrong = loops.batches(data, room)
        self._table: Table = room[:found].copy()
        if wrong:
            raise self._corrupt(wrong, None if not found else int(self._table[-1, loops.LAST_OFFSET]) + 1)
        if len(data) and not found:
            raise self._corrupt(loops.BAD_LENGTH, None)
        if found:
            self.next_offset = max(offset, int(self._table[-1, loops.LAST_OFFSET]) + 1)
        self._table = self._table[self._wanted(list(aborted))]

    @property
    def next_batch_at(self) -> int | None:
        """Where the first batch that has something begins."""
        return int(self._table[0, loops.BASE_OFFSET]) if len(self._table) else None

    def messages(self, first: int, end: int) -> Iterator[pa.RecordBatch]:
        """The messages of these offsets, in their order."""
        table = self._table
        reaches = (table[:, loops.LAST_OFFSET] >= first) & (table[:, loops.BASE_OFFSET] < end)
        table = table[reaches & (table[:, loops.COUNT] > 0)]
        codecs = table[:, loops.ATTRIBUTES] & _CODEC
        for batches in np.split(table, np.flatnonzero(np.diff(codecs)) + 1) if len(table) else ():
            codec = int(batches[0, loops.ATTRIBUTES]) & _CODEC
            sources = self._plain(codec, batches) if codec else [(self._data, batches)]
            for data, some in sources:
                yield self._decoded(data, some, first, end)

    def _wanted(self, aborted: list[tuple[int, int]]) -> npt.NDArray[np.bool_]:
        """All but control batches, and what belongs to a transaction that was aborted."""
        attributes = self._table[:, loops.ATTRIBUTES]
        wanted: npt.NDArray[np.bool_] = (attributes & _CONTROL) == 0
        if not aborted:
            return wanted
        coming, in_vain = sorted(aborted, key=lambda of: -of[1]), set()
        for row, batch in enumerate(self._table):
            while coming and coming[-1][1] <= batch[loops.LAST_OFFSET]:
                in_vain.add(coming.pop()[0])
            producer = int(batch[loops.PRODUCER])
            if not wanted[row]:
                if self._is_abort(batch):
                    in_vain.discard(producer)
            elif batch[loops.ATTRIBUTES] & _TRANSACTION and producer in in_vain:
                wanted[row] = False
        return wanted

    def _is_abort(self, batch: Table) -> bool:
        """A control record's key has a version and a type, 0 for an abort; one digit each of the numbers before it."""
        begin, end = int(batch[loops.RECORDS]), int(batch[loops.END])
        record = bytes(self._data[begin : min(end, begin + 64)])
        # length, attributes, time delta, offset delta, length of the key: numbers of up to ten bytes, attributes one
        at = 0
        for number in range(5):
            while number != 1 and at < len(record) and record[at] & 0x80:
                at += 1
            at += 1
        return record[at + 2 : at + 4] == b"\x00\x00"

    def _plain(self, codec: int, batches: Table) -> Iterator[tuple[Bytes, Table]]:
        """Compressed batches, decompressed: small ones together."""
        held: list[Bytes] = []
        rows: list[Table] = []
        size = 0
        for batch in batches:
            begin, end = int(batch[loops.RECORDS]), int(batch[loops.END])
            try:
                data = decompressed(codec, self._data[begin:end].data)
            except NotDecompressed as error:
                raise self._corrupt(loops.BAD_RECORD, int(batch[loops.BASE_OFFSET]), f"({error})") from error
            row = batch.copy()
            row[loops.RECORDS], row[loops.END] = size, size + len(data)
            held.append(data)
            rows.append(row)
            size += len(data)
            if size >= _DECOMPRESSED_AT_ONCE:
                yield np.concatenate(held), np.array(rows)
                held, rows, size = [], [], 0
        if held:
            yield np.concatenate(held), np.array(rows)

    def _decoded(self, data: Bytes, batches: Table, first: int, end: int) -> pa.RecordBatch:
        room = batches[:, loops.END] - batches[:, loops.RECORDS]
        if len(lying := np.flatnonzero(batches[:, loops.COUNT] > room // loops.LEAST_RECORD)):
            raise self._corrupt(loops.BAD_COUNT, int(batches[lying[0], loops.BASE_OFFSET]))
        count, size = int(batches[:, loops.COUNT].sum()), int(room.sum())
        values, ends, present = np.empty(size, np.uint8), np.zeros(count + 1, np.int32), np.empty(count, np.uint8)
        offsets, times = np.empty(count, np.int64), np.empty(count, np.int64)
        rows, used, wrong, where = loops.records(data, batches, first, end, values, ends, present, offsets, times)
        if wrong:
            raise self._corrupt(wrong, int(batches[where, loops.BASE_OFFSET]))
        valid = None
        if not present[:rows].all():
            valid = pa.py_buffer(np.packbits(present[:rows], bitorder="little"))
        value = pa.Array.from_buffers(pa.binary(), rows, [valid, pa.py_buffer(ends), pa.py_buffer(values[:used])])
        columns = [
            pa.repeat(self.topic, rows),
            pa.repeat(pa.scalar(self.partition, pa.int32()), rows),
            pa.array(offsets[:rows]),
            pa.array(times[:rows]).view(KAFKA.field("timestamp").type),
            value,
        ]
        return pa.RecordBatch.from_arrays(columns, schema=KAFKA)

    def _corrupt(self, wrong: int, offset: int | None, more: str = "") -> CorruptMessages:
        at = self.next_offset if offset is None else offset
        return CorruptMessages(
            f"{self.topic}/{self.partition}: the messages from offset {at:,} on cannot be read: "
            f"{' '.join([_WRONG[wrong], more]).strip()}. Nothing of them was written. Look at the broker's disk; to "
            f'have them read by Spark\'s source instead, set kafka.reader = "spark".'
        )
