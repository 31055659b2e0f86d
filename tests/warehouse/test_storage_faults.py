"""Storage that refuses is told in one sentence: the place, the reason, the remedy. On real disks, mounted for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.config import settings
from pipeline.config.settings import Settings
from pipeline.errors import StorageFailed
from pipeline.warehouse import places
from pipeline.warehouse.faults import Place, sentence
from tests.kit.disks import Disk, disk

TRY = """
import sys
from dataclasses import replace
from pipeline.config import settings
from pipeline.errors import StorageFailed
from pipeline.warehouse import places
tables, checkpoint = sys.argv[1:]
wanted = settings.Settings(
    warehouse=settings.WarehouseSettings(path=tables), job=settings.JobSettings(checkpoint=checkpoint)
)
try:
    places.refuse_unusable(wanted)
    print("nothing to say")
except StorageFailed as failed:
    print(failed)
"""

FILL_COMMIT_EMPTY_COMMIT = """
import json, os, sys
from pathlib import Path
from pipeline.errors import StorageFailed
from tests.kit.warehouse_samples import FACTS, batch_of, column, create, fact, warehouse_settings, written
from tests.warehouse.test_warehouse_commit import opened
disk = Path(sys.argv[1])
where = warehouse_settings(disk / "lake")
create(where)
warehouse = opened(where)
warehouse.commit(batch_of(where, 0, [1, 2], ["bad"]))
second = batch_of(where, 1, [3], ["worse"])

with (disk / "filler").open("wb", buffering=0) as filler:
    try:
        while True:
            filler.write(bytes(4096))
    except OSError:
        pass
said = {}
try:
    written(where, FACTS, *[[fact(n, raw=os.urandom(4000)) for n in range(100)]])
except StorageFailed as failed:
    said["worker"] = str(failed)
left = sum(file.stat().st_size for file in (disk / "lake/facts").rglob("*.parquet"))
try:
    warehouse.commit(second)
except StorageFailed as failed:
    said["driver"] = str(failed)
said["facts while full"] = column(where, "facts", "number")

(disk / "filler").unlink()
again = opened(where)
said["last batch"] = again.last_batch()
again.commit(second)
said["facts"] = column(where, "facts", "number")
said["rejects"] = column(where, "rejects", "reason")
print(json.dumps(said), flush=True)
os._exit(0)  # pyarrow's threads may still hold the file system, which is Python's, when the interpreter goes
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Disk]:
    with disk(tmp_path / "small", "size=2m") as mounted:
        yield mounted


def refusal(mounted: Disk, tables: Path | str, checkpoint: Path | str, ordinary: bool = False) -> str:
    said = mounted.python(TRY, str(tables), str(checkpoint), ordinary=ordinary)
    assert said.count("\n") == 1, said
    return said


def test_a_place_that_can_be_written_is_left_as_it_was(small_disk: Disk) -> None:
    assert refusal(small_disk, small_disk.folder / "a", small_disk.folder / "b") == "nothing to say\n"
    assert [file.name for file in small_disk.seen(small_disk.folder).iterdir()] == []


def test_a_full_disk_is_told_with_what_is_free_and_what_to_do(small_disk: Disk, tmp_path: Path) -> None:
    small_disk.python(
        "import sys; open(sys.argv[1], 'wb').write(bytes((2 << 20) - 4096))", str(small_disk.folder / "x")
    )
    said = refusal(small_disk, small_disk.folder / "lake", tmp_path)
    assert said.startswith(f"warehouse.path = {small_disk.folder}/lake: the disk is full (")
    assert "of 2,048 KiB are free). Make room there" in said
    assert "job.checkpoint =" in refusal(small_disk, tmp_path, small_disk.folder / "checkpoint")


def test_a_read_only_disk_is_told(small_disk: Disk, tmp_path: Path) -> None:
    small_disk.remount("ro")
    said = refusal(small_disk, tmp_path, f"file://{small_disk.folder}/c")
    assert said.startswith(f"job.checkpoint = file://{small_disk.folder}/c: the file system is mounted read-only. ")


def test_a_folder_of_somebody_else_is_told_with_the_account(small_disk: Disk, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    said = refusal(small_disk, closed / "lake", tmp_path, ordinary=True)
    assert said.startswith(f"warehouse.path = {closed}/lake: this account (")
    assert ") may not write there. Give it the right to" in said


@pytest.mark.parametrize("below", ["", "/lake"])
def test_a_file_where_a_folder_is_needed_is_told(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(StorageFailed, match=r"a file stands where a folder is needed\. Name a folder"):
        places.refuse_unusable(Settings(warehouse=settings.WarehouseSettings(path=f"{file}{below}")))


def test_a_disk_that_fills_up_loses_nothing_and_the_same_batch_is_there_once_when_there_is_room(tmp_path) -> None:
    with disk(tmp_path / "small", "size=1m") as mounted:
        said = json.loads(mounted.python(FILL_COMMIT_EMPTY_COMMIT, str(mounted.folder)))
    for who in ("worker", "driver"):
        assert "the disk is full (0 of 1,024 KiB are free)" in said[who]
    assert said["worker"].startswith(f"{mounted.folder}/lake/facts: ")
    assert said["facts while full"] == [1, 2]
    assert said["last batch"] == 0
    assert (said["facts"], said["rejects"]) == ([1, 2, 3], ["bad", "worse"])


def test_a_failure_of_spark_that_names_no_reason_is_asked_of_the_disk_it_names(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    wanted = Settings(job=settings.JobSettings(checkpoint=f"{file}/c"))
    said = f"An error occurred while calling o87.start.\n: java.io.IOException: mkdir of file:{file}/c failed\n\tat x"
    assert (places.sentence_of(said, wanted) or "").startswith(f"job.checkpoint = {file}/c: a file stands where")


def test_a_failure_of_spark_that_names_no_place_is_asked_of_all_disks(small_disk: Disk, tmp_path: Path) -> None:
    small_disk.remount("ro")
    said = "[STREAM_FAILED] Query terminated with exception: java.io.IOException: Read-only file system SQLSTATE: XXKST"
    code = (
        "import sys; from pipeline.config import settings; from pipeline.warehouse import places\n"
        "wanted = settings.Settings(warehouse=settings.WarehouseSettings(path=sys.argv[1]), "
        "job=settings.JobSettings(checkpoint=sys.argv[2]))\n"
        "print(places.sentence_of(sys.argv[3], wanted))"
    )
    told = small_disk.python(code, str(small_disk.folder / "lake"), str(tmp_path), said)
    assert told.startswith(f"warehouse.path = {small_disk.folder}/lake: the file system is mounted read-only.")


@pytest.mark.parametrize(
    "said",
    [
        "pipeline.errors.MasterReadFailed: product: Connection refused\nOSError: [Errno 111] Connection refused",
        "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment",
        "java.lang.OutOfMemoryError: Java heap space",
        "java.lang.NullPointerException: null",
    ],
)
@pytest.mark.parametrize("path", ["s3a://lake/shop", "lake"])
def test_a_failure_of_something_else_is_not_laid_to_the_storage(said: str, path: str, tmp_path: Path) -> None:
    where = path if "://" in path else str(tmp_path / path)
    wanted = Settings(
        warehouse=settings.WarehouseSettings(path=where), job=settings.JobSettings(checkpoint=f"{where}/c")
    )
    assert places.sentence_of(said, wanted) is None


@pytest.mark.parametrize("path", ["s3a://lake/shop", "/lake"])
def test_a_commit_that_another_s_came_in_between_of_is_told_and_not_where_delta_s_pages_are(path: str) -> None:
    said = (
        "[DELTA_METADATA_CHANGED] MetadataChangedException: The metadata of the Delta table has been changed by a"
        ' concurrent update. Please try the operation again.\nConflicting commit: {"operation":"SET TBLPROPERTIES"}\n'
        "Refer to https://docs.delta.io/latest/concurrency-control.html for more details."
    )
    told = (
        f"warehouse.path = {path}: another's commit to a table came in between. Nothing is lost: start the same again."
    )
    assert sentence(Place("warehouse.path", path), said) == told


STORE = Place("warehouse.path", "s3a://lake/shop", {"AWS_ENDPOINT_URL": "http://minio:9000"})


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "java.lang.RuntimeException: java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem"
            " not found",
            "Spark has no connector for s3a://.",
        ),
        (
            "org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://lake/shop': Bucket does not exist",
            "the store has no bucket lake. Create it",
        ),
        (
            "software.amazon.awssdk.services.s3.model.S3Exception: The AWS Access Key Id you provided does not exist in"
            " our records. (Service: S3, Status Code: 403, Request ID: x) InvalidAccessKeyId",
            "the store does not accept these credentials",
        ),
        (
            "software.amazon.awssdk.services.s3.model.S3Exception: Access Denied (Service: S3, Status Code: 403)",
            "these credentials may not do that",
        ),
        (
            "software.amazon.awssdk.core.exception.SdkClientException: Unable to execute HTTP request: Connect to"
            " minio:9000 failed: Connection refused",
            "nobody answers at the store's endpoint (http://minio:9000)",
        ),
        (
            "org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: No AWS Credentials provided",
            "there are no credentials",
        ),
        ("java.io.IOException: PKIX path building failed", "cannot be trusted or does not speak TLS"),
        ("Server returned non-2xx status code\n 301 Moved Permanently\n <Code>PermanentRedirect</Code>", "region"),
    ],
)
def test_what_a_store_s_connector_says_is_told_with_the_option_to_mend(said: str, told: str) -> None:
    answer = sentence(STORE, said) or ""
    assert answer.startswith("warehouse.path = s3a://lake/shop: ")
    assert told in answer
    assert "\n" not in answer
