"""Where things lie. The same storage options serve the workers' files and the driver's commits.

An object store is reached with the options and schemes of `deltalake` (`AWS_REGION`, `AZURE_STORAGE_ACCOUNT_KEY`, …).
Spark, which only creates tables and appends for `writer = spark`, gets the same under Hadoop's names: `hadoop.py`.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from pipeline.config import settings

STAGING = "_staging"


def table_uri(warehouse: settings.WarehouseSettings, table: str) -> str:
    """Where a table lies, in a form that deltalake and Spark both take.

    >>> table_uri(settings.WarehouseSettings(path="s3a://lake/shop/"), "fact_sales")
    's3a://lake/shop/fact_sales'
    >>> table_uri(settings.WarehouseSettings(path="file:///var/my%20lake"), "fact_sales")
    '/var/my lake/fact_sales'
    """
    return f"{_base(warehouse.path)}/{table}"


def staging_uri(warehouse: settings.WarehouseSettings, application: str, table: str) -> str:
    """Where the Spark writer finds what the workers wrote: beside the tables, never inside one."""
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", application)
    own = hashlib.sha256(application.encode()).hexdigest()[:8]
    return f"{_base(warehouse.path)}/{STAGING}/{readable}-{own}/{table}"


def folder_of_files(warehouse: settings.WarehouseSettings, application: str, table: str) -> str:
    """Where a worker writes a table's files."""
    if warehouse.writer == "spark":
        return staging_uri(warehouse, application, table)
    return table_uri(warehouse, table)


def filesystem(uri: str, options: dict[str, str]) -> Any:
    """A folder as a pyarrow file system."""
    return fs.PyFileSystem(DeltaStorageHandler(uri, options))


def is_local(uri: str) -> bool:
    return "://" not in uri


def make_folder(uri: str) -> None:
    """An object store needs no folders, a local disk does."""
    if is_local(uri):
        Path(uri).mkdir(parents=True, exist_ok=True)


def _base(path: str) -> str:
    scheme = urlsplit(path).scheme if "://" in path else ""
    if scheme == "file":
        return unquote(urlsplit(path).path).rstrip("/")
    return path.rstrip("/") if scheme else str(Path(path).expanduser().resolve())
