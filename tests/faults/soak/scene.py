"""The stage: a broker and a database behind lines that can be broken, a real job, sales that do not stop, a checker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from random import Random
from typing import ClassVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import TopicPartition

from pipeline.config.settings import load
from pipeline.errors import MillraceError
from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.seed import seed
from pipeline.generate.send import SendFailed
from pipeline.generate.workload import Workload
from pipeline.joins import JOINS
from pipeline.laptop.stack import ports
from pipeline.laptop.stack.kafka import KafkaBroker
from pipeline.laptop.stack.ports import LOOPBACK
from pipeline.laptop.stack.stack import Stack, StackInfo
from pipeline.plan import resolve
from pipeline.reconcile import Verdict, reconcile
from tests.faults.clock import jumping
from tests.faults.clock.jumping import JumpingClock
from tests.kit.fault_proxy import FaultProxy
from tests.kit.replicated import first_server
from tests.kit.running import Job, wait_until

SIZES = Sizes(products=3_000, customers=2_000, stores=50)
PARTITIONS = 3
TOPIC = "soaked"
RATE = 400.0  # sales a second
LEADERS_WITHIN = 60.0  # seconds
BETWEEN_LOOKS = 0.2
PATIENCE = 240.0  # seconds for a job to have all that was sent when the fault was over
JAVA_OPTIONS = "spark.conf.spark.driver.extraJavaOptions"


def temporary_in(folder: Path) -> str:
    """A JVM does not know of TMPDIR."""
    return f"-Djava.io.tmpdir={folder}"


class BrokerBehindLine(KafkaBroker):
    """Who comes by the job's listener is told to come back by the line."""

    port_names: ClassVar[tuple[str, ...]] = ("port", "controller", "job", "line")

    def _properties(self, data: Path) -> str:
        open_to = f"PLAINTEXT://{LOOPBACK}:{self.port},CONTROLLER://{LOOPBACK}:{self.ports['controller']}"
        told = f"PLAINTEXT://{LOOPBACK}:{self.port},JOB://{LOOPBACK}:{self.ports['line']}"
        more = {
            "listeners": f"{open_to},JOB://{LOOPBACK}:{self.ports['job']}",
            "advertised.listeners": told,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,JOB:PLAINTEXT",
        }
        # Of a name that comes twice the last one counts.
        return "\n".join([super()._properties(data), *(f"{name}={value}" for name, value in more.items()), ""])


class Scene:
    """Everything a fault may break, and what tells whether it was mended."""

    def __init__(self, folder: Path, moments: Random, as_shipped: bool = False) -> None:
        self.stack = Stack(folder / "stack", supervised=True)
        self.stack.kafka = BrokerBehindLine(self.stack.folder, supervised=True)
        self.stack.database = first_server(self.stack.folder)
        self.stack.servers = (self.stack.kafka, self.stack.database)
        self.folder, self.moments, self.as_shipped = folder, moments, as_shipped
        self.clock = JumpingClock(folder) if jumping.is_possible() else None  # of the job
        joins = sorted(JOINS)
        moments.shuffle(joins)
        self._joins = cycle(joins)
        self.algorithms = ""
        self.ended: list[int] = []  # exit codes of jobs that nobody had told to end
        self.acknowledged = 0
        self._next_sale = 0

    @contextmanager
    def set(self) -> Iterator[Scene]:
        """Servers, tables and a running job."""
        with self.stack:
            with self.stack.database.connect("owner") as connection:
                seed(connection, SIZES, progress=False)
            self._create_topic()
            [line] = ports.choose(1)
            with (
                self._way_to_kafka() as bootstrap,
                FaultProxy(line, self.stack.database.port) as self.to_database,
            ):
                self.job = self._job(replace(self.stack.info(), bootstrap=bootstrap, port=line))
                self.job.environment |= self.clock.environment if self.clock else {}
                self.start()
                try:
                    yield self
                finally:
                    if self.job.running:
                        self.job.kill()

    @property
    def bootstrap(self) -> str:
        """For all but the job."""
        return self.stack.kafka.bootstrap

    def _create_topic(self) -> None:
        self.stack.kafka.create_topic(TOPIC, PARTITIONS)

    @contextmanager
    def _way_to_kafka(self) -> Iterator[str]:
        """What the job is told of it."""
        at = self.stack.kafka.ports
        with FaultProxy(at["line"], at["job"]) as self.to_kafka:
            yield f"{LOOPBACK}:{at['line']}"

    def _job(self, info: StackInfo) -> Job:
        """With a folder of its own for temporary files, so that what it leaves can be counted."""
        job = Job(self.folder, info, TOPIC, job__trigger="500 ms")
        if self.as_shipped:
            del job.settings[JAVA_OPTIONS]
        else:
            job.settings["job.max_offsets_per_trigger"] = "4000"
        (temporary := self.folder / "temporary").mkdir()
        job.settings[JAVA_OPTIONS] = f"{job.settings.get(JAVA_OPTIONS, '')} {temporary_in(temporary)}".strip()
        job.environment["TMPDIR"] = str(temporary)
        return job

    def start(self) -> None:
        """Start the job, with other algorithms than the last time, one for each dimension."""
        chosen = {name: next(self._joins) for name in ("product", "customer", "store")}
        self.algorithms = ", ".join(chosen.values())
        for name, algorithm in chosen.items():
            self.job.settings[f"dimensions.{name}.algorithm"] = algorithm
        self.job.start()

    def wait(self, shortest: float, longest: float) -> None:
        """How long a fault lasts, or when it comes."""
        time.sleep(self.moments.uniform(shortest, longest))

    @contextmanager
    def sales(self) -> Iterator[None]:
        """Sales are sent until the block ends; what the broker has acknowledged is counted."""
        over = threading.Event()

        def send() -> None:
            shares = {"malformed": 0.03, "unknown": 0.03, "null_keys": 0.02, "duplicates": 0.01}
            while not over.is_set():
                workload = Workload(topics={TOPIC: 1.0}, sizes=SIZES, first_sale=self._next_sale, **shares)
                try:
                    sent = generate(bootstrap=self.bootstrap, workload=workload, rate=RATE, progress=False, stop=over)
                except SendFailed as failed:  # the broker is away
                    if failed.sent is None:
                        over.wait(0.2)
                        continue
                    sent = failed.sent
                except (MillraceError, KafkaException):
                    over.wait(0.2)
                    continue
                self._next_sale = sent.next_sale
                of_topic = sent.topics[TOPIC].partitions.values()
                self.acknowledged += sum(partition.messages for partition in of_topic)

        sending = threading.Thread(target=send)
        sending.start()
        try:
            yield
        finally:
            over.set()
            sending.join()

    def sent(self, partitions: Iterable[int] = range(PARTITIONS)) -> int:
        """All messages that the broker has."""
        asked = {TopicPartition(TOPIC, partition): OffsetSpec.latest() for partition in partitions}  # type: ignore[no-untyped-call]
        deadline = time.monotonic() + LEADERS_WITHIN
        while True:
            # A client that meets a broker in its first second may hold on to what it was told there.
            admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            try:
                answers = admin.list_offsets(asked, request_timeout=5)
                return sum(done.result(10).offset for done in answers.values())
            except (KafkaException, TimeoutError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(BETWEEN_LOOKS)

    def recovered(self) -> float:
        """Seconds until the tables have all that the broker has now. A job that ends by itself is started again."""
        began, wanted = time.monotonic(), self.sent()

        def arrived() -> bool:
            time.sleep(BETWEEN_LOOKS)  # the job wants the processor more than this
            if not self.job.running:
                assert self.job.process is not None
                self.ended.append(self.job.process.returncode)
                self.start()
            return self.job.committed() + self.job.committed("sales_rejects") >= wanted

        try:
            wait_until(arrived, f"{wanted} messages committed", PATIENCE)
        except AssertionError as error:
            there = self.job.committed() + self.job.committed("sales_rejects")
            raise AssertionError(f"{error}, but {there}; the job says: {self.job.tail(15)}") from error
        return time.monotonic() - began

    def verdict(self) -> Verdict:
        """The independent checker's: of Kafka, the tables and the database as they are now."""
        return reconcile(resolve(load(None, self.job.assignments, {})))
