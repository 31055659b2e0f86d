"""In the running job: every algorithm makes the same facts of the same half million sales, and is the one named."""

import re
import urllib.request
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.sent import Sent
from pipeline.generate.workload import Workload
from pipeline.joins import JOINS
from pipeline.laptop.stack.stack import StackInfo
from tests.kit.running import Job

pytestmark = pytest.mark.slow

TOPIC, SALES = "every-algorithm", 500_000
CASES = [*((name, False) for name in JOINS), ("hybridjoin", True)]  # and once a front stage by the setting
OF_THE_RUN = {"application", "batch"}  # all other columns are the same whatever the algorithm


@pytest.fixture(scope="module")
def sent(seeded: StackInfo, seeded_sizes: Sizes) -> Sent:
    untidy = {"malformed": 0.01, "unknown": 0.03, "null_keys": 0.01, "duplicates": 0.01}
    workload = Workload(topics={TOPIC: 1.0}, sizes=seeded_sizes, **untidy)
    return generate(bootstrap=seeded.bootstrap, workload=workload, messages=SALES, partitions=2, progress=False)


@pytest.fixture(scope="module")
def facts_so_far() -> dict[str, tuple]:
    return {}


@pytest.mark.parametrize(("algorithm", "front_stage"), CASES)
def test_the_same_sales_become_the_same_facts(
    algorithm, front_stage, sent, facts_so_far, tmp_path: Path, seeded: StackInfo, reconciled
) -> None:
    settings = {}
    for dimension in ("product", "customer", "store"):
        settings[f"dimensions.{dimension}.algorithm"] = algorithm
        settings[f"dimensions.{dimension}.front_stage"] = str(front_stage).lower()
        settings[f"dimensions.{dimension}.memory"] = "8 MiB"
    with Job(tmp_path, seeded, TOPIC, job__max_offsets_per_trigger="250000", **settings) as job:
        job.wait_for(SALES)
        ran = set(re.findall(r'millrace_served_sales_total\{algorithm="([^"]+)"', metrics(job)))
        assert job.stop() == 0, job.tail()
    assert ran == {f"front stage + {algorithm}" if front_stage else algorithm}
    if not facts_so_far:  # what is proved of the first is proved of all that are the same
        reconciled(job, sent)
    tables = "fact_sales", "sales_rejects"
    facts_so_far[f"{algorithm} {front_stage}"] = tuple(digest(tmp_path / "warehouse" / table) for table in tables)
    assert len(set(facts_so_far.values())) == 1, facts_so_far


def metrics(job: Job) -> str:
    address = re.findall(r"http://\S+/metrics", job.log.read_text())[-1]
    with urllib.request.urlopen(address, timeout=10) as answer:
        return answer.read().decode()


def digest(table: Path) -> tuple:
    """Number of rows, and a sum over the hashes of all that is in each, which does not depend on their order."""
    log = DeltaTable(str(table))
    columns = ", ".join(f'"{field.name}"' for field in log.schema().fields if field.name not in OF_THE_RUN)
    with duckdb.connect() as engine:
        row = engine.execute(
            f"SELECT count(*), sum(hash({columns})::HUGEINT) FROM read_parquet($files, hive_partitioning = true)",
            {"files": log.file_uris()},
        ).fetchone()
    assert row
    assert row[0]
    return tuple(row)
