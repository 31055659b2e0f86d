"""The storage options once more, by the names Spark's Hadoop has for them: they are given once, and both engines agree.

What `spark.conf` says as `spark.hadoop.…` wins. The values go straight into Hadoop's configuration: as options of the
Java process every account of the machine could read them, keys and all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from pipeline.config.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IN_THE_ENVIRONMENT = ("AWS_", "AZURE_", "GOOGLE_SERVICE_ACCOUNT")
_S3 = "org.apache.hadoop.fs.s3a."


def configure(spark: SparkSession, settings: Settings) -> None:
    """Before the first file is touched: Hadoop keeps a file system as it was first opened."""
    context = spark.sparkContext
    known = cast(Any, context._jsc).hadoopConfiguration()
    # deltalake takes what the options lack from the environment, and so must Hadoop.
    options = {name: value for name, value in os.environ.items() if name.startswith(_IN_THE_ENVIRONMENT)}
    options |= settings.warehouse.storage_options
    for uri in (settings.warehouse.path, settings.job.checkpoint):
        for name, value in names_for(uri, options).items():
            if not context.getConf().contains(f"spark.hadoop.{name}"):
                known.set(name, value)


def names_for(uri: str, options: Mapping[str, str]) -> dict[str, str]:
    """Hadoop's settings for a URI's store.

    >>> names_for("s3a://lake/shop", {"AWS_REGION": "eu-central-1"})["fs.s3a.endpoint.region"]
    'eu-central-1'
    >>> names_for("/data/lake", {"AWS_REGION": "eu-central-1"})
    {}
    """
    given = {name.lower().removeprefix("aws_"): value for name, value in options.items()}
    match urlsplit(uri).scheme:
        case "s3" | "s3a":
            return _of_s3(given)
        case "abfs" | "abfss":
            return _of_azure(urlsplit(uri).netloc.rpartition("@")[2], given)
        case "gs":
            return _of_google(given)
    return {}


def _of_s3(given: Mapping[str, str]) -> dict[str, str]:
    endpoint = _first(given, "endpoint_url_s3", "endpoint_url", "endpoint")
    found = {
        "fs.s3a.access.key": _first(given, "access_key_id"),
        "fs.s3a.secret.key": _first(given, "secret_access_key"),
        "fs.s3a.session.token": _first(given, "session_token", "token"),
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": _first(given, "region", "default_region"),
        # The same connector under the scheme's shorter name, which deltalake takes as well.
        "fs.s3.impl": f"{_S3}S3AFileSystem",
        "fs.AbstractFileSystem.s3.impl": f"{_S3}S3A",
    }
    if endpoint:  # deltalake asks a store by path unless told otherwise
        by_host = _first(given, "virtual_hosted_style_request").lower() in ("true", "1", "yes", "on")
        found["fs.s3a.path.style.access"] = str(not by_host).lower()
    return {name: value for name, value in found.items() if value}


def _of_azure(host: str, given: Mapping[str, str]) -> dict[str, str]:
    given = {name.removeprefix("azure_").removeprefix("storage_"): value for name, value in given.items()}
    if key := _first(given, "account_key", "access_key", "master_key"):
        return {f"fs.azure.account.key.{host}": key}
    client, secret = _first(given, "client_id"), _first(given, "client_secret")
    tenant = _first(given, "tenant_id", "authority_id")
    if not (client and secret and tenant):
        return {}
    return {
        f"fs.azure.account.auth.type.{host}": "OAuth",
        f"fs.azure.account.oauth.provider.type.{host}": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
        f"fs.azure.account.oauth2.client.endpoint.{host}": f"https://login.microsoftonline.com/{tenant}/oauth2/token",
        f"fs.azure.account.oauth2.client.id.{host}": client,
        f"fs.azure.account.oauth2.client.secret.{host}": secret,
    }


def _of_google(given: Mapping[str, str]) -> dict[str, str]:
    names = ("google_service_account", "google_service_account_path", "service_account", "service_account_path")
    if key_file := _first(given, *names):
        return {
            "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
            "fs.gs.auth.service.account.json.keyfile": key_file,
        }
    return {}


def _first(given: Mapping[str, str], *names: str) -> str:
    return next((given[name] for name in names if given.get(name)), "")
