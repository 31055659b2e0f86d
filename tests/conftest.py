"""Real servers for every test that needs them: one stack for the whole run, names of their own for each test."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from pipeline.config.settings import load
from pipeline.generate.keys import Sizes
from pipeline.generate.seed import seed
from pipeline.generate.sent import Sent
from pipeline.laptop.stack.stack import Stack, StackInfo
from pipeline.plan import resolve
from pipeline.reconcile import reconcile
from tests.kit.mysql_server import asked_for
from tests.kit.running import Job


def pytest_xdist_auto_num_workers() -> int:
    """One more than the machine has cores: at any time a third of the tests waits for a server to start."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A running broker and database server, gone when the run ends, however it ends.

    `MILLRACE_DATABASE=mysql` makes the database a real MySQL; if none can be had, that is a failure and no skip.
    """
    with Stack(tmp_path_factory.mktemp("stack"), supervised=True, program=asked_for) as running:
        yield running


@pytest.fixture
def topic() -> str:
    """A topic's name that no other test uses. The test creates the topic as it needs it."""
    return f"sales-{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=["direct", pytest.param("spark", marks=pytest.mark.slow)])
def reader(request: pytest.FixtureRequest) -> str:
    """Who reads Kafka, `kafka.reader`: what one promises the other has to keep.

    `tests/driver/test_readers.py` holds the two side by side in every run.
    """
    return str(request.param)


@pytest.fixture
def master_database(stack: Stack) -> Iterator[str]:
    """The name of a fresh, empty database with the same accounts and rights as `master`."""
    name = f"master_{uuid.uuid4().hex[:12]}"
    stack.database.create_database(name)
    yield name
    stack.database.drop_database(name)


@pytest.fixture(scope="session")
def seeded_sizes() -> Sizes:
    return Sizes(products=20_000, customers=10_000, stores=200)


@pytest.fixture(scope="session")
def seeded(stack: Stack, seeded_sizes: Sizes) -> StackInfo:
    """The stack with filled master tables, which tests read and do not change."""
    with stack.database.connect("owner") as connection:
        seed(connection, seeded_sizes, progress=False)
    return stack.info()


@pytest.fixture
def reconciled() -> Callable[[Job, Sent | None], None]:
    """Proves from outside, by Kafka and SQL, that a job's tables hold what was sent."""

    def prove(job: Job, sent: Sent | None) -> None:
        verdict = reconcile(resolve(load(None, job.assignments, {})), sent)
        assert verdict.ok, str(verdict)

    return prove


# A test's broker and Spark live for minutes and start often: with one compiler and one collector they take half of
# the CPU.
for _options in ("KAFKA_JVM_PERFORMANCE_OPTS", "SPARK_SUBMIT_OPTS"):
    os.environ.setdefault(_options, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

_POOLS: list[pa.MemoryPool] = []  # what was allocated in a pool needs it as long as it lives


@pytest.fixture
def arrow_memory() -> Iterator[pa.MemoryPool]:
    """A pool that counts what this test makes Arrow allocate, and nothing else."""
    usual = pa.default_memory_pool()
    _POOLS.append(pa.proxy_memory_pool(pa.system_memory_pool()))
    pa.set_memory_pool(_POOLS[-1])
    yield _POOLS[-1]
    pa.set_memory_pool(usual)
