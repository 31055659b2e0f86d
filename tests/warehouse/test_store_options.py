"""One set of options for a store: deltalake's names, given again to Spark's Hadoop under its own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.config import settings
from pipeline.config.settings import Settings
from pipeline.driver import session
from pipeline.errors import BadSetting
from pipeline.java import jars
from pipeline.warehouse import hadoop

LAKE = "abfss://lake@shop.dfs.core.windows.net/x"
HOST = "shop.dfs.core.windows.net"


def test_keys_region_and_endpoint_of_s3_get_hadoop_s_names_whatever_their_case_and_prefix() -> None:
    given = {"aws_access_key_id": "me", "AWS_SECRET_ACCESS_KEY": "hush", "region": "eu-west-1", "AWS_TOKEN": "t"}
    named = hadoop.names_for("s3a://lake/x", given)
    assert {name: value for name, value in named.items() if name.startswith("fs.s3a.")} == {
        "fs.s3a.access.key": "me",
        "fs.s3a.secret.key": "hush",
        "fs.s3a.session.token": "t",
        "fs.s3a.endpoint.region": "eu-west-1",
    }


@pytest.mark.parametrize(
    ("by_host", "by_path"), [({}, "true"), ({"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "TRUE"}, "false")]
)
def test_a_store_with_an_endpoint_is_asked_by_path_as_deltalake_does_unless_told_otherwise(
    by_host: dict[str, str], by_path: str
) -> None:
    named = hadoop.names_for("s3://lake/x", {"AWS_ENDPOINT_URL": "http://minio:9000", **by_host})
    assert (named["fs.s3a.endpoint"], named["fs.s3a.path.style.access"]) == ("http://minio:9000", by_path)
    assert named["fs.s3.impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem"


def test_azure_s_key_and_service_principal_are_those_of_the_account_in_the_uri() -> None:
    assert hadoop.names_for(LAKE, {"AZURE_STORAGE_ACCOUNT_KEY": "k"}) == {f"fs.azure.account.key.{HOST}": "k"}
    names = ("AZURE_STORAGE_CLIENT_ID", "AZURE_CLIENT_SECRET", "azure_storage_tenant_id")
    named = hadoop.names_for(LAKE, dict(zip(names, ("id", "hush", "tenant"), strict=True)))
    assert named[f"fs.azure.account.auth.type.{HOST}"] == "OAuth"
    assert named[f"fs.azure.account.oauth2.client.endpoint.{HOST}"].endswith("/tenant/oauth2/token")
    assert named[f"fs.azure.account.oauth2.client.secret.{HOST}"] == "hush"


def test_google_s_key_file_is_named_to_the_connector() -> None:
    named = hadoop.names_for("gs://lake/x", {"GOOGLE_SERVICE_ACCOUNT": "/key.json"})
    assert named["fs.gs.auth.service.account.json.keyfile"] == "/key.json"


class Hadoop:
    """What `configure` asks of Spark."""

    def __init__(self, *said: str) -> None:
        self.names: dict[str, str] = {}
        self.set = self.names.__setitem__
        java = SimpleNamespace(hadoopConfiguration=lambda: self)
        known = SimpleNamespace(contains=lambda name: name in said)
        self.sparkContext = SimpleNamespace(_jsc=java, getConf=lambda: known)


def test_what_spark_conf_says_wins_and_what_the_options_lack_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the environment's")
    options = {"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "hush"}
    warehouse = settings.WarehouseSettings(path="s3a://lake/x", storage_options=options)
    spark: Any = Hadoop("spark.hadoop.fs.s3a.secret.key")
    hadoop.configure(spark, Settings(warehouse=warehouse))
    assert spark.names["fs.s3a.access.key"] == "mine"
    assert spark.names["fs.s3a.endpoint.region"] == "eu-north-1"
    assert "fs.s3a.secret.key" not in spark.names


@pytest.mark.parametrize(
    ("local", "name", "between"), [(True, "spark.driver.extraClassPath", ":"), (False, "spark.jars", ",")]
)
def test_jars_of_the_user_s_own_stay_beside_ours(
    local: bool, name: str, between: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "fetch", lambda of_set: [Path(f"/cache/{of_set}.jar")])
    wanted = Settings(
        warehouse=settings.WarehouseSettings(path="s3a://lake/x"),
        spark=settings.SparkSettings(conf={name: "/mine.jar"}),
    )
    assert session._jars(wanted, local) == {name: between.join(["/cache/spark.jar", "/cache/s3.jar", "/mine.jar"])}


def test_a_cache_whose_path_java_would_cut_in_two_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "fetch", lambda of_set: [Path(f"/a:b/{of_set}.jar")])
    with pytest.raises(
        BadSetting, match=r"/a:b/spark\.jar: Java takes the : for the end of a path\. Set MILLRACE_CACHE"
    ):
        session._jars(Settings(), local=True)
