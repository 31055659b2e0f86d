"""Mistakes in the settings of an object store end in one sentence: against a real S3 server (moto's), without Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from botocore.exceptions import ClientError
from deltalake import DeltaTable
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from pipeline.config import settings
from pipeline.config.settings import Settings
from pipeline.errors import StorageFailed
from pipeline.java import jars
from pipeline.java.runtime import java
from pipeline.laptop.stack.ports import choose
from pipeline.warehouse import hadoop, places
from pipeline.warehouse.faults import Place, sentence
from tests.kit.object_store import ObjectStore, object_store
from tests.kit.warehouse_samples import FACTS, REJECTS, batch_of
from tests.warehouse.test_warehouse_commit import opened


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("store")) as running:
        running.create_bucket("lake")
        yield running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A store that checks keys, and whose account may only read."""
    with object_store(tmp_path_factory.mktemp("guarded")) as running:
        running.create_bucket("lake")
        reads = {"Effect": "Allow", "Action": ["s3:Get*", "s3:List*"], "Resource": "*"}
        running.guard(json.dumps({"Version": "2012-10-17", "Statement": [reads]}))
        yield running


def refusal(options: dict[str, str], path: str = "s3a://lake/shop", checkpoint: str | None = None) -> str:
    wanted = Settings(
        warehouse=settings.WarehouseSettings(path=path, storage_options=options),
        job=settings.JobSettings(checkpoint=checkpoint or f"{path}-checkpoint"),
    )
    with pytest.raises(StorageFailed) as refused:
        places.refuse_unusable(wanted)
    said = str(refused.value)
    assert "\n" not in said
    assert options.get("AWS_SECRET_ACCESS_KEY", "a secret") not in said
    return said


def test_the_server_refuses_a_second_object_of_one_name_as_deltalake_s_commits_need_it(store: ObjectStore) -> None:
    store.client().put_object(Bucket="lake", Key="once", Body=b"1", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        store.client().put_object(Bucket="lake", Key="once", Body=b"2", IfNoneMatch="*")


def test_a_store_that_can_be_written_is_left_as_it_was(store: ObjectStore) -> None:
    before = store.keys("lake")
    places.refuse_unusable(
        Settings(
            warehouse=settings.WarehouseSettings(path="s3a://lake/shop", storage_options=store.options),
            job=settings.JobSettings(checkpoint="s3a://lake/checkpoint"),
        )
    )
    assert store.keys("lake") == before


def test_a_bucket_that_is_not_there_is_named(store: ObjectStore) -> None:
    said = refusal(store.options, "s3a://nolake/shop")
    assert said.startswith("warehouse.path = s3a://nolake/shop: the store has no bucket nolake. Create it")
    assert "AWS_ENDPOINT_URL" in said
    assert refusal(store.options, checkpoint="s3a://nolake/c").startswith("job.checkpoint = s3a://nolake/c: ")


def test_plain_http_that_was_not_allowed_names_the_option(store: ObjectStore) -> None:
    said = refusal({name: value for name, value in store.options.items() if name != "AWS_ALLOW_HTTP"})
    assert f"the endpoint ({store.endpoint}) is plain http" in said
    assert 'Set AWS_ALLOW_HTTP = "true" in warehouse.storage_options' in said


def test_an_endpoint_where_nobody_answers_is_named(store: ObjectStore) -> None:
    nobody = f"http://127.0.0.1:{choose(1)[0]}"
    said = refusal({**store.options, "AWS_ENDPOINT_URL": nobody})
    assert f"nobody answers at the store's endpoint ({nobody}). Is it running, and is AWS_ENDPOINT_URL right?" in said


def test_an_endpoint_of_the_wrong_protocol_is_named(store: ObjectStore) -> None:
    https = store.endpoint.replace("http:", "https:")
    said = refusal({**store.options, "AWS_ENDPOINT_URL": https})
    assert f"the endpoint ({https}) cannot be trusted or does not speak TLS. Correct http or https" in said


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9000", "minio", "ftp://minio:9000", "http//minio"])
def test_an_endpoint_that_is_no_url_is_named_before_rust_panics_at_it(store: ObjectStore, endpoint: str) -> None:
    said = refusal({**store.options, "AWS_ENDPOINT_URL": endpoint})
    assert f"the endpoint ({endpoint}) is not a URL. Write AWS_ENDPOINT_URL as https://host:port." in said


def test_an_option_whose_value_cannot_be_read_is_told(store: ObjectStore) -> None:
    assert "yes please" in refusal({**store.options, "AWS_ALLOW_HTTP": "yes please"})


@pytest.mark.parametrize("wrong", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_a_wrong_key_is_told_with_the_store_s_word_for_it(guarded: ObjectStore, wrong: str) -> None:
    said = refusal({**guarded.options, wrong: "wrong" * 4})
    assert "the store does not accept these credentials (" in said
    assert "Correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in warehouse.storage_options" in said


def test_an_account_that_may_only_read_is_told_what_it_needs(guarded: ObjectStore) -> None:
    said = refusal(guarded.options)
    assert "these credentials may not do that (AccessDenied). Give their account the right to list, read, write" in said


def test_a_machine_without_keys_and_without_a_role_is_told(store: ObjectStore, monkeypatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    # The place that machines of Amazon ask for their role: here nobody answers, as on a machine of one's own.
    options = {name: value for name, value in store.options.items() if "KEY" not in name}
    said = refusal({**options, "AWS_METADATA_ENDPOINT": f"http://127.0.0.1:{choose(1)[0]}"})
    assert "there are no credentials" in said
    assert "Give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in said


def test_a_scheme_that_no_store_has_is_named() -> None:
    assert "ftp:// is no store that deltalake knows" in refusal({}, "ftp://host/lake")


def test_two_drivers_that_commit_the_same_batch_to_a_store_leave_it_there_once(store: ObjectStore) -> None:
    where = settings.WarehouseSettings(
        path="s3a://lake/twice", facts="facts", rejects="rejects", storage_options=store.options
    )
    for table in (FACTS, REJECTS):
        DeltaTable.create(
            f"{where.path}/{table.name}",
            table.schema,
            partition_by=list(table.partition_by),
            storage_options=store.options,
        )
    one, other = opened(where), opened(where)
    one.commit(batch_of(where, 0, [1, 2]))
    with pytest.raises(Exception, match="batch 0"):
        other.commit(batch_of(where, 0, [1, 2]))


class Jvm:
    """Java with PySpark's jars and those of one store, without Spark's ten seconds."""

    def __init__(self, *uris: str) -> None:
        classes = [str(jar) for jar in jars.for_spark(*uris)] + [f"{jars.SHIPPED_BY_PYSPARK}/*"]
        [bridge] = jars.SHIPPED_BY_PYSPARK.glob("py4j-*.jar")
        port = launch_gateway(
            jarpath=str(bridge), classpath=os.pathsep.join(classes), java_path=str(java()), die_on_exit=True
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))

    def file_system(self, uri: str, options: dict[str, str], more: Mapping[str, str] = MappingProxyType({})) -> Any:
        java = self._gateway.jvm
        configuration = java.org.apache.hadoop.conf.Configuration()
        for name, value in {**hadoop.names_for(uri, options), **more}.items():
            configuration.set(name, value)
        return java.org.apache.hadoop.fs.FileSystem.newInstance(java.java.net.URI(uri), configuration)

    def path(self, uri: str) -> Any:
        return self._gateway.jvm.org.apache.hadoop.fs.Path(uri)

    def __enter__(self) -> Jvm:
        return self

    def __exit__(self, *_: object) -> None:
        self._gateway.shutdown()


@pytest.mark.parametrize("scheme", ["s3a", "s3"])
def test_spark_s_connector_for_s3_works_with_the_locked_jars_and_the_options_of_deltalake(
    store: ObjectStore, scheme: str
) -> None:
    uri = f"{scheme}://lake/by-{scheme}"
    with Jvm(uri) as jvm:
        files = jvm.file_system(uri, store.options)
        files.create(jvm.path(f"{uri}/a")).close()
        assert files.rename(jvm.path(f"{uri}/a"), jvm.path(f"{uri}/b"))  # as a checkpoint is written
        assert files.exists(jvm.path(f"{uri}/b"))
    assert f"by-{scheme}/b" in store.keys("lake")


def test_the_connectors_for_azure_and_google_get_as_far_as_the_network_with_the_locked_jars(tmp_path: Path) -> None:
    """No store of either was at hand: what is proved is that the classes are there and the options reach them."""
    azure, google = "abfss://container@127.0.0.1:1/lake", "gs://bucket/lake"
    key_file = tmp_path / "key.json"
    key_file.write_text("{}")
    with Jvm(azure, google) as jvm:
        options = {"AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}
        once = {"fs.azure.io.retry.max.retries": "0"}
        assert "Connection refused" in what_java_says(lambda: jvm.file_system(azure, options, once))
        said = what_java_says(lambda: jvm.file_system(google, {"GOOGLE_SERVICE_ACCOUNT": str(key_file)}))
    assert "ClassNotFound" not in said
    assert "com.google.auth.oauth2.ServiceAccountCredentials" in said


def test_a_spark_without_the_connector_is_told_how_to_get_it() -> None:
    with Jvm() as jvm:
        for uri in ("s3a://lake/x", "abfss://container@account.dfs.core.windows.net/x", "gs://lake/x"):
            said = what_java_says(lambda uri=uri: jvm.file_system(uri, {}))
            told = sentence(Place("job.checkpoint", uri), said) or ""
            assert told.startswith(f"job.checkpoint = {uri}: Spark has no connector for {uri.partition(':')[0]}://. ")
            assert "millrace jars --config FILE" in told


def what_java_says(do: Callable[[], Any]) -> str:
    """Asked while Java lives: the text of its errors stays there."""
    with pytest.raises(Py4JJavaError) as failed:
        do()
    return str(failed.value)
