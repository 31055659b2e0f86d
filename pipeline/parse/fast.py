"""The fast path: most messages, a column at a time. It says yes or nothing, never no.

msgspec decodes each message by its fields' types, every kind of field reads its column, and `gaps.py` looks at what
msgspec does not check. A message that any of them is not sure of is left to the strict path.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from pipeline.config.contracts import TopicContract
from pipeline.parse.gaps import Gaps, members_at_most
from pipeline.parse.kinds import Kind
from pipeline.parse.texts import Integers


class FastPath:
    def __init__(self, contract: TopicContract, kinds: list[Kind]) -> None:
        self._schema = contract.schema
        self._kinds = kinds
        # Made as text, so that each is a comprehension with its attribute written out, not looked up by name.
        self._picks = [
            eval(f"lambda records: [record.{_attribute(i)} for record in records]") for i in range(len(kinds))
        ]
        self._decode = msgspec.json.Decoder(_record(kinds)).decode
        self._gaps = Gaps(contract)

    def sales(self, values: pa.Array, messages: list[bytes]) -> tuple[pa.Table, Integers]:
        """Those that are surely sales, as columns, and their positions. `messages` are `values`, none is null."""
        records, read = self._records(messages)
        if not records:
            return self._schema.empty_table(), read
        columns = []
        sure = np.ones(len(records), bool)
        found = np.zeros(len(records), np.int64)
        for kind, pick in zip(self._kinds, self._picks, strict=True):
            column = kind.column(pick(records))
            columns.append(column.values)
            if column.sure is not None:
                sure &= column.sure
            found += 1 if kind.field.required else column.values.is_valid().to_numpy(zero_copy_only=False)
        more = np.flatnonzero(sure & (members_at_most(values)[read] > found))
        if len(more):
            at = read[more]
            sure[more] = self._gaps.clear(values.take(pa.array(at)), [messages[i] for i in at], found[more])
        table = pa.Table.from_arrays(columns, schema=self._schema)
        if sure.all():
            return table, read
        return table.filter(pa.array(sure)), read[sure]

    def _records(self, messages: list[bytes]) -> tuple[list[Any], Integers]:
        """The messages that msgspec can decode, and their positions."""
        records: list[Any] = []
        failed: list[int] = []
        remaining = iter(messages)
        while len(records) + len(failed) < len(messages):
            try:
                records.extend(map(self._decode, remaining))
            except (msgspec.MsgspecError, ValueError, RecursionError):
                failed.append(len(records) + len(failed))  # what came before it is in `records`
        return records, np.delete(np.arange(len(messages)), failed)


def _record(kinds: list[Kind]) -> Any:
    """The msgspec type of a message. Its objects hold no cycles, so the garbage collector need not look at them."""
    fields: list[Any] = []
    for i, kind in enumerate(kinds):
        wire = kind.wire | None if kind.field.nullable and kind.wire is not msgspec.Raw else kind.wire
        fields.append((_attribute(i), wire) if kind.field.required else (_attribute(i), wire, kind.missing))
    names = {_attribute(i): kind.field.name for i, kind in enumerate(kinds)}
    return msgspec.defstruct("Record", fields, rename=names, kw_only=True, gc=False)


def _attribute(i: int) -> str:
    return f"f{i}"
