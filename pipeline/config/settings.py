"""The one settings tree: frozen, validated, and the same for every entry point.

Later wins: the defaults below, the TOML file, the environment (`MILLRACE_KAFKA__TOPICS`), the command line
(`--set kafka.topics=sales`). `millrace settings` prints `deploy/reference.toml`: every setting, its default, and why.

Which file: the one that `--config` names, else `MILLRACE_CONFIG`, else `millrace.toml` in the folder the command runs
in, else `.millrace/stack.toml` there, which `millrace up` writes. One file counts, never two.

Paths: a relative path is below the folder of the file that names it; so are the defaults' when there is a file, so that
a job is the same from wherever it is started. In the environment, with --set, and without a file: below the folder the
command runs in. `kafka.client` goes to all Kafka clients as it is, `kafka.client_java` and `kafka.client_librdkafka` to
one kind; `spark.conf` to Spark, `warehouse.storage_options` to deltalake.

Dimensions: those that the settings name. A file that names any names them all. If it names none, those that environment
and --set together name, and if these name none but some of the shipped three (product, customer, store), they change
those, and all three are there. What changes a dimension never adds one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.config.checks import are_offsets, is_period, need
from pipeline.config.inferred import InferredSettings
from pipeline.config.loader import OtherTables, load_tree
from pipeline.config.measures import Bytes, Place, Seconds, Secret
from pipeline.config.references import resolved
from pipeline.errors import BadSetting

WORKER_BASE = 384 << 20  # an idle worker with its libraries loaded, measured at 292 MiB, 115 of them its own alone
WINDOW_COPIES = 6  # messages, columns, facts and the Parquet encoder's pages, as multiples of the message bytes
STACK_FILE = Path(".millrace/stack.toml")  # written by `millrace up`: where the embedded servers answer


@dataclass(frozen=True)
class JobSettings:
    name: str = "millrace"
    trigger: str = "500 ms"
    max_offsets_per_trigger: int = 250_000
    checkpoint: Place = Place(".millrace/checkpoint")

    def __post_init__(self) -> None:
        need(bool(self.checkpoint), "job.checkpoint", self.checkpoint, "a folder or a URI")
        need(bool(self.name.strip()), "job.name", self.name, "a non-empty text: it identifies this job's commits")
        need(self.max_offsets_per_trigger > 0, "job.max_offsets_per_trigger", self.max_offsets_per_trigger, "1 or more")
        ok = self.available_now or is_period(self.trigger)
        need(ok, "job.trigger", self.trigger, "a period such as 2 s, or available-now")

    @property
    def period(self) -> Seconds:
        """How often a micro-batch starts."""
        return Seconds.parse(self.trigger)

    @property
    def available_now(self) -> bool:
        """Work off what is there, then stop."""
        return self.trigger == "available-now"


@dataclass(frozen=True)
class KafkaSettings:
    bootstrap: str = "127.0.0.1:9092"
    topics: tuple[str, ...] = ("sales",)
    topic_pattern: str = ""
    starting_offsets: str = "earliest"
    reader: str = "direct"
    contract: str = "sale.v1"
    contracts: dict[str, str] = field(default_factory=dict)
    max_message_bytes: Bytes = Bytes(1 << 20)
    client: dict[str, str] = field(default_factory=dict)
    client_java: dict[str, str] = field(default_factory=dict)
    client_librdkafka: dict[str, str] = field(default_factory=dict)

    @property
    def java(self) -> dict[str, str]:
        """What Spark's Kafka source is given."""
        return resolved(self.client | self.client_java, "kafka.client")

    @property
    def librdkafka(self) -> dict[str, str]:
        """What our own clients are given, which look after topics and offsets."""
        return resolved(self.client | self.client_librdkafka, "kafka.client")

    def __post_init__(self) -> None:
        need(bool(self.topics) or bool(self.topic_pattern), "kafka.topics", self.topics, "at least one topic")
        ok = self.starting_offsets in ("earliest", "latest") or are_offsets(self.starting_offsets)
        need(ok, "kafka.starting_offsets", self.starting_offsets, 'earliest, latest or offsets as {"sales": {"0": 17}}')
        need(self.reader in ("direct", "spark"), "kafka.reader", self.reader, "direct or spark")
        need(self.max_message_bytes > 0, "kafka.max_message_bytes", self.max_message_bytes, "at least 1 byte")
        for topic in self.contracts:
            read = f"pattern {self.topic_pattern}" if self.topic_pattern else ", ".join(self.topics)
            needed = f"for a topic that is read: {read}. Read {topic} too, or leave its contract out"
            key = f"kafka.contracts.{topic}"
            others = "kafka.contracts", "kafka.topics", "kafka.topic_pattern"
            need(self.may_read(topic), key, self.contracts[topic], needed, *others)

    def may_read(self, topic: str) -> bool:
        """Whether the topic is named, or could be meant by the pattern, which is Java's to understand."""
        if not self.topic_pattern:
            return topic in self.topics
        try:
            return re.fullmatch(self.topic_pattern, topic) is not None
        except re.error:
            return True


@dataclass(frozen=True)
class MasterData:
    host: str = "127.0.0.1"
    port: int = 3306
    user: str = "millrace"
    password: Secret = Secret("")
    password_file: Place = Place("")
    database: str = "master"
    tls_ca: Place = Place("")
    connect_timeout: Seconds = Seconds(5)
    read_timeout: Seconds = Seconds(30)
    retry_for: Seconds = Seconds(120)
    costs: Place = Place(".millrace/costs.toml")
    connections: int = 0
    queries_per_second: float = 0.0
    rows_per_second: int = 0
    feed: str = "auto"

    def __post_init__(self) -> None:
        need(self.feed in ("auto", "binlog", "poll", "off"), "master.feed", self.feed, "auto, binlog, poll or off")
        need(0 < self.port < 1 << 16, "master.port", self.port, "from 1 to 65535")
        needed = "from 1 to 10000 of the whole job, or 0: two of each task that runs"
        need(0 <= self.connections <= 10_000, "master.connections", self.connections, needed)
        rate, rows = self.queries_per_second, self.rows_per_second
        need(0 <= rate < float("inf"), "master.queries_per_second", rate, "0 (no cap) or a positive number")
        need(
            rows == 0 or rows >= 100, "master.rows_per_second", rows, "0 (no cap), or at least 100: a read brings some"
        )


@dataclass(frozen=True)
class DimensionSettings:
    contract: str = ""
    algorithm: str = "auto"
    memory: Bytes = Bytes(32 << 20)
    front_stage: bool = False
    max_staleness: Seconds = Seconds(300)
    absent_staleness: Seconds = Seconds(10)
    batch: int = 0
    skew: float = 1.0
    history: str = "off"
    joins: OtherTables = field(default_factory=OtherTables)

    def __post_init__(self) -> None:
        need(0 <= self.skew <= 3, "skew", self.skew, "Zipf's exponent of the keys, from 0 (all alike) to 3")
        need(self.history in ("off", "type 1", "type 2"), "history", self.history, "off, type 1 or type 2")
        need(self.batch >= 0, "batch", self.batch, "at least 1 key a query, or 0: as the join's own table says")


@dataclass(frozen=True)
class ContractsSettings:
    folder: Place = Place("")


@dataclass(frozen=True)
class WarehouseSettings:
    path: Place = Place(".millrace/warehouse")
    writer: str = "arrow"
    facts: str = "fact_sales"
    rejects: str = "sales_rejects"
    compression: str = "snappy"
    merge_files: int = 256
    heal_rows_per_minute: int = 0
    heal_age: Seconds = Seconds(7 * 86_400)
    storage_options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        need(bool(self.path), "warehouse.path", self.path, "a folder or a URI")
        need(self.writer in ("arrow", "spark"), "warehouse.writer", self.writer, "arrow or spark")
        needed = "0 (never), or so many small files of a partition, from 2"
        need(self.merge_files == 0 or self.merge_files >= 2, "warehouse.merge_files", self.merge_files, needed)
        healed, needed = self.heal_rows_per_minute, "0 (never), or so many facts a minute"
        need(healed >= 0, "warehouse.heal_rows_per_minute", healed, needed)
        need(self.heal_age > 0, "warehouse.heal_age", self.heal_age, "a duration such as 7 d")
        codecs = ("snappy", "zstd", "gzip", "none")
        need(self.compression in codecs, "warehouse.compression", self.compression, f"one of: {', '.join(codecs)}")

    @property
    def heals(self) -> bool:
        return self.heal_rows_per_minute > 0


@dataclass(frozen=True)
class WorkerSettings:
    memory: Bytes = Bytes(1 << 30)
    window_sales: int = 125_000
    window_bytes: Bytes = Bytes(64 << 20)

    def __post_init__(self) -> None:
        need(self.window_sales >= 1, "worker.window_sales", self.window_sales, "at least 1")
        need(self.window_bytes >= 1 << 20, "worker.window_bytes", self.window_bytes, "at least 1 MiB")


@dataclass(frozen=True)
class SparkSettings:
    master: str = "local[2,4]"
    driver_memory: Bytes = Bytes(2 << 30)
    conf: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MetricsSettings:
    host: str = "127.0.0.1"
    port: int = 9464
    token_file: Place = Place("")
    tls_certificate: Place = Place("")
    tls_key: Place = Place("")
    sync_port: int = 9465

    def __post_init__(self) -> None:
        for given, needed in (("tls_key", "tls_certificate"), ("tls_certificate", "tls_key")):
            ok = not getattr(self, given) or bool(getattr(self, needed))
            need(ok, f"metrics.{needed}", "", f"a PEM file beside metrics.{given}", f"metrics.{given}")
        for name in ("port", "sync_port"):
            port = getattr(self, name)
            need(0 <= port < 1 << 16, f"metrics.{name}", port, "from 0 (any that is free) to 65535")


@dataclass(frozen=True)
class Settings:
    job: JobSettings = field(default_factory=JobSettings)
    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    master: MasterData = field(default_factory=MasterData)
    contracts: ContractsSettings = field(default_factory=ContractsSettings)
    dimensions: dict[str, DimensionSettings] = field(
        default_factory=lambda: {
            "product": DimensionSettings(),
            "customer": DimensionSettings(),
            "store": DimensionSettings(),
        }
    )
    warehouse: WarehouseSettings = field(default_factory=WarehouseSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    spark: SparkSettings = field(default_factory=SparkSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    inferred: InferredSettings = field(default_factory=InferredSettings)

    def __post_init__(self) -> None:
        need(bool(self.dimensions), "dimensions", self.dimensions, "at least one [dimensions.<name>]")
        joins = sum(dimension.memory for dimension in self.dimensions.values())
        needed = WORKER_BASE + WINDOW_COPIES * self.worker.window_bytes + joins
        if self.worker.memory < needed:
            raise BadSetting(
                f"worker.memory = {self.worker.memory} is too little: {Bytes(WORKER_BASE)} for the interpreter, "
                f"{WINDOW_COPIES} x worker.window_bytes ({self.worker.window_bytes}) for the sales in hand and "
                f"{Bytes(joins)} for the joins of {len(self.dimensions)} dimensions make {needed:,} bytes. "
                f"Raise worker.memory, or lower worker.window_bytes or the dimensions' memory.",
                about=["worker.memory", "worker.window_bytes", *(f"dimensions.{n}.memory" for n in self.dimensions)],
            )


def load(
    file: str | Path | None = None,
    assignments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """The settings for this process; see the top of this file for which of several values counts."""
    environment = os.environ if environment is None else environment
    chosen = file or environment.get("MILLRACE_CONFIG") or next((p for p in _DEFAULT_FILES if p.is_file()), None)
    return load_tree(Settings, Path(chosen) if chosen else None, environment, assignments)


_DEFAULT_FILES = (Path("millrace.toml"), STACK_FILE)
