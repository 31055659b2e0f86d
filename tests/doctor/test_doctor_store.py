"""Tables and checkpoint in an object store are looked at there, without Spark: against a real S3 server (moto's)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.config.settings import Settings, load
from pipeline.doctor import stream, warehouse
from pipeline.doctor.examine import Line, examine
from pipeline.doctor.findings import Level, Patient
from pipeline.laptop.stack.ports import LOOPBACK
from pipeline.plan import resolve
from pipeline.warehouse.port import Batch
from pipeline.warehouse.warehouse import make_warehouse
from tests.kit.object_store import ObjectStore, object_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("store")) as running:
        running.create_bucket("lake")
        yield running


def settings_of(store: ObjectStore, **more: str) -> Settings:
    given = store.settings("lake") | {name.replace("__", "."): value for name, value in more.items()}
    return load(None, [f"{name}={value}" for name, value in given.items()], {})


def lines_of(settings: Settings, *rooms: str) -> list[Line]:
    """What is said of these checks; servers that nobody started are not waited for."""
    every = examine(lambda: settings, 2.0, str)
    return [line for line in every if line.check.startswith(rooms)]


def test_checkpoint_and_tables_in_a_store_are_compared_and_left_as_they_are(store: ObjectStore) -> None:
    settings = settings_of(store)
    plan = resolve(settings)
    with_it = make_warehouse(settings.warehouse, plan.facts, [plan.rejects], settings.job.name, None)
    with_it.prepare()
    with_it.commit(Batch(0, [], {}))
    for name, text in {"metadata": '{"id":"c1"}', "offsets/0": 'v1\n{}\n{"sales":{"0":7}}', "commits/0": "v1"}.items():
        store.client().put_object(Bucket="lake", Key=f"checkpoint/{name}", Body=text.encode())
    before, patient = store.keys("lake"), Patient(settings, plan, 5.0)
    (found,) = stream.together(patient)
    assert found.level is Level.OK
    assert "the facts have batch 0, s3a://lake/checkpoint has finished 0" in found.what
    assert [each.level for each in warehouse.table(plan.facts, patient)] == [Level.OK]
    assert store.keys("lake") == before


def test_a_store_that_does_not_answer_is_a_failure_in_a_sentence_without_its_keys(store: ObjectStore) -> None:
    nobody = {
        "warehouse__storage_options__AWS_ENDPOINT_URL": f"http://{LOOPBACK}:1",
        "kafka__bootstrap": f"{LOOPBACK}:1",
    }
    told = lines_of(settings_of(store, **nobody, master__port="1"), "table", "checkpoint")
    assert [line.finding.level.value for line in told] == ["failure", "failure", "not checked"]
    assert "nobody answers at the store's endpoint" in told[0].finding.what
    assert not any(store.secret in line.finding.what for line in told)
