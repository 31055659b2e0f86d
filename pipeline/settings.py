"""The one settings tree: frozen, validated, and the same for every entry point.

Later wins: the defaults below, the TOML file, the environment (`MILLRACE_KAFKA__TOPICS`), the command line
(`--set kafka.topics=sales`). `deploy/reference.toml` shows every setting with its default and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from pipeline.errors import BadSetting
from pipeline.settings_loader import Bytes, Secret, Seconds, load_tree


@dataclass(frozen=True)
class Job:
    name: str = "millrace"
    trigger: str = "2 s"
    max_offsets_per_trigger: int = 250_000
    checkpoint: str = ".millrace/checkpoint"


@dataclass(frozen=True)
class Kafka:
    bootstrap: str = "127.0.0.1:9092"
    topics: tuple[str, ...] = ("sales",)
    topic_pattern: str = ""
    starting_offsets: str = "earliest"
    contract: str = "sale.v1"
    contracts: dict[str, str] = field(default_factory=dict)
    max_message_bytes: Bytes = Bytes(1 << 20)
    client: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MasterData:
    host: str = "127.0.0.1"
    port: int = 3306
    user: str = "millrace"
    password: Secret = Secret("")
    password_file: str = ""
    database: str = "master"
    tls_ca: str = ""
    connect_timeout: Seconds = Seconds(5)
    read_timeout: Seconds = Seconds(60)
    retry_for: Seconds = Seconds(120)


@dataclass(frozen=True)
class Dimension:
    contract: str = ""
    algorithm: str = "inlj"
    memory: Bytes = Bytes(32 << 20)
    front_stage: bool = True
    max_staleness: Seconds = Seconds(300)
    absent_staleness: Seconds = Seconds(10)
    batch: int = 2_000


@dataclass(frozen=True)
class Contracts:
    folder: str = ""


@dataclass(frozen=True)
class Warehouse:
    path: str = ".millrace/warehouse"
    writer: str = "arrow"
    facts: str = "fact_sales"
    rejects: str = "sales_rejects"
    compression: str = "snappy"
    storage_options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Worker:
    memory: Bytes = Bytes(1 << 30)
    window_sales: int = 125_000
    window_bytes: Bytes = Bytes(64 << 20)


@dataclass(frozen=True)
class Spark:
    master: str = "local[2]"
    driver_memory: Bytes = Bytes(2 << 30)
    conf: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Metrics:
    host: str = "127.0.0.1"
    port: int = 9464


@dataclass(frozen=True)
class Settings:
    job: Job = field(default_factory=Job)
    kafka: Kafka = field(default_factory=Kafka)
    master: MasterData = field(default_factory=MasterData)
    contracts: Contracts = field(default_factory=Contracts)
    dimensions: dict[str, Dimension] = field(
        default_factory=lambda: {"product": Dimension(), "customer": Dimension(), "store": Dimension()}
    )
    warehouse: Warehouse = field(default_factory=Warehouse)
    worker: Worker = field(default_factory=Worker)
    spark: Spark = field(default_factory=Spark)
    metrics: Metrics = field(default_factory=Metrics)
