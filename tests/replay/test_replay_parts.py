"""Which moments a history knows, and how little of it is kept, without a server."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import WriterProperties, write_deltalake

from pipeline.config.contracts import DimensionContract, KeyColumn
from pipeline.errors import WarehouseRefused
from pipeline.history.layout import HistoryLayout
from pipeline.replay.moments import Between
from pipeline.replay.past import Past
from pipeline.replay.stretches import Stretch, Stretches
from pipeline.warehouse.log import TableLog

BEGAN = datetime(2026, 11, 20, tzinfo=timezone.utc)
CONTRACT = DimensionContract(
    "thing", "t", (KeyColumn("code", "code", "string"),), "sk", "changed", {"text": pa.string()}
)


def stretches(*places: tuple[str, str]) -> Stretches:
    hours = (timedelta(hours=number) for number in range(len(places)))
    return Stretches("dim_thing", [Stretch(*place, BEGAN + h, True) for place, h in zip(places, hours, strict=True)])


def test_positions_are_in_order_though_another_server_took_over_whose_log_has_smaller_numbers() -> None:
    known = stretches(
        ("a/log.000007:4", "a/log.000009:500"),
        ("b/bin.000001:4", "b/bin.000002:90"),
        ("a/log.000010:4", "a/log.000010:9"),
    )
    in_order = [
        "gone/log.000001:4#1", "a/log.000007:4", "a/log.000007:4#1", "a/log.000007:30#2", "a/log.000009:4",
        "b/bin.000001:4", "b/bin.000001:7#1", "b/bin.000002:4#9", "a/log.000010:4", "a/log.000010:8#1",
    ]  # fmt: skip
    assert sorted(in_order, key=known.order) == in_order


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("a/log.000006:4", "begins at a/log.000007:4"),
        ("a/log.000009:501", "does not know what was between a/log.000009:500 and b/bin.000001:4"),
        (
            "b/bin.000002:100",
            "told up to b/bin.000002:90, and the batch is as of b/bin.000002:100, 10 bytes of log further",
        ),
        ("c/log.000008:4", "begins at"),
    ],
)
def test_a_place_that_is_not_known_is_refused(place: str, why: str) -> None:
    known = stretches(("a/log.000007:4", "a/log.000009:500"), ("b/bin.000001:4", "b/bin.000002:90"))
    with pytest.raises(WarehouseRefused, match=why):
        known.require(Between(place))
    for here in ("a/log.000007:4", "a/log.000009:500", "b/bin.000001:4", "b/bin.000002:90"):
        known.require(Between(here))


def test_of_a_large_history_only_the_versions_stay_that_are_asked_for(tmp_path: Path) -> None:
    rows, begins = 400_000, "a/log.000001:4"
    layout = HistoryLayout(CONTRACT, keeps_ended=True)
    moment = pa.timestamp("us", "UTC")
    table = pa.table({
        "version_key": pa.array(range(rows)), "code": [f"code {number}" for number in range(rows)],
        "sk": pa.array(range(rows)), "changed": pa.repeat(pa.scalar(BEGAN, moment), rows),
        "text": [f"{number}".rjust(200) for number in range(rows)],
        "valid_from": pa.repeat(pa.scalar(BEGAN, moment), rows),
        "from_position": pa.repeat(begins, rows), "valid_to": pa.nulls(rows, moment),
        "to_position": pa.nulls(rows, pa.string()), "is_current": pa.repeat(True, rows),
    })  # fmt: skip
    write_deltalake(
        tmp_path,
        table.select(layout.table.schema.names),
        partition_by=["is_current"],
        writer_properties=WriterProperties(max_row_group_size=1 << 14),
    )
    past = Past(CONTRACT, TableLog(str(tmp_path), {}), stretches((begins, begins)), Between(begins, BEGAN))
    wanted = pa.array([b"code 7", b"no such code", b"code 399999"])
    most, held, over = [0], pa.total_allocated_bytes(), threading.Event()

    def watch() -> None:
        while not over.wait(0.002):
            most[0] = max(most[0], pa.total_allocated_bytes() - held)

    watching = threading.Thread(target=watch)
    watching.start()
    versions = past.versions(wanted, None)
    over.set()
    watching.join()
    assert versions.values(versions.first)["thing.surrogate_key"].to_pylist() == [7, -1, 399_999]
    assert len(versions.found) == 2
    assert most[0] < table.nbytes / 2, f"{most[0]:,} of {table.nbytes:,} bytes"
