"""Millrace itself, `millrace run` to Delta on the local disk: settings as shipped, but for the memory of the joins.

With one dimension the table has no columns of the others. A batch follows upon the other, as many sales each as the
task says.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from pipeline.config import resources
from pipeline.config.contract_files import toml
from tests.benchmarks.peers import progress
from tests.benchmarks.peers.task import Peer, Task, key_of

_FACTS = "fact_sales"


def settings(task: Task) -> dict[str, object]:
    return {
        "kafka.bootstrap": task.bootstrap,
        "kafka.topics": task.topic,
        "master.host": task.host,
        "master.port": task.port,
        "master.user": task.user,
        "master.password": task.password,
        "master.database": task.database,
        "contracts.folder": task.folder / "contracts",
        "job.checkpoint": task.folder / "checkpoint",
        "job.trigger": "1 ms",
        "job.max_offsets_per_trigger": task.batch,
        "warehouse.path": task.folder / "warehouse",
        "spark.master": task.spark_master or f"local[{task.cores},4]",
        "metrics.port": 0,
    }


def dimensions(task: Task) -> str:
    """A settings file names the dimensions; what is not named in it is not joined."""
    return "".join(f'[dimensions.{name}]\nmemory = "{task.memory}"\n' for name in task.dimensions)


def facts(task: Task) -> str:
    """The shipped contract of the facts without the columns of dimensions that are not joined."""
    shipped = toml(resources.schemas() / "tables" / f"{_FACTS}.toml")
    sources = {"sale", "message", "job", *task.dimensions}
    columns = [column for column in shipped.pop("column") if column["from"].split(".")[0] in sources]
    head = "".join(f"{name} = {json.dumps(value)}\n" for name, value in shipped.items())
    # JSON's strings and lists of strings are TOML's.
    return head + "".join(
        "[[column]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in column.items())
        for column in columns
    )


def prepare(task: Task) -> tuple[Path, list[str]]:
    """The job's settings: a file with its dimensions, and assignments. Its contracts are written beside the file."""
    tables = task.folder / "contracts" / "tables"
    tables.mkdir(parents=True)
    (tables / f"{_FACTS}.toml").write_text(facts(task))
    file = task.folder / "millrace.toml"
    file.write_text(dimensions(task))
    return file, [f"{name}={value}" for name, value in settings(task).items()]


def main(task: Task) -> None:
    file, assignments = prepare(task)
    given = [word for assignment in assignments for word in ("--set", assignment)]
    os.chdir(file.parent)
    os.execv(sys.executable, [sys.executable, "-m", "pipeline.cli", "run", *given])


def answer(task: Task) -> pa.Table:
    table = DeltaTable(task.folder / "warehouse" / _FACTS)
    return table.to_pyarrow_table(columns=["sale_id", *map(key_of, task.dimensions)])


PEER = Peer("millrace", __name__, lambda task: progress.committed(task.folder / "checkpoint"), answer)

if __name__ == "__main__":
    main(Task.read(sys.argv[1]))
