"""A real S3 server for tests: moto's, in a process of its own. MinIO is nearer to production, and has no wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from pipeline.laptop.stack.ports import LOOPBACK, choose
from tests.kit.running import wait_until

REGION = "us-east-1"


class ObjectStore:
    """The server, its one account, and how Millrace is told of both."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://{LOOPBACK}:{port}"
        self.key, self.secret = "anybody", "anything"  # until `guard`

    @property
    def options(self) -> dict[str, str]:
        """For warehouse.storage_options."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
        }

    def settings(self, bucket: str) -> dict[str, str]:
        """Tables and checkpoint in a bucket, as settings of a job."""
        places = {"warehouse.path": f"s3a://{bucket}/lake", "job.checkpoint": f"s3a://{bucket}/checkpoint"}
        return {**places, **{f"warehouse.storage_options.{name}": value for name, value in self.options.items()}}

    def client(self, service: str = "s3") -> Any:
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
        )

    def create_bucket(self, name: str) -> str:
        self.client().create_bucket(Bucket=name)
        return name

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", ())]

    def guard(self, allowed: str) -> None:
        """From now on keys are checked: one account that may do what the JSON policy says."""
        accounts = self.client("iam")
        accounts.create_user(UserName="millrace")
        accounts.put_user_policy(UserName="millrace", PolicyName="allowed", PolicyDocument=allowed)
        made = accounts.create_access_key(UserName="millrace")["AccessKey"]
        self.key, self.secret = made["AccessKeyId"], made["SecretAccessKey"]
        plain = {"Content-Type": "text/plain"}
        request = urllib.request.Request(f"{self.endpoint}/moto-api/reset-auth", b"0", plain, method="POST")
        urllib.request.urlopen(request, timeout=10).close()

    def answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.endpoint}/moto-api/", timeout=1).close()
        except (urllib.error.URLError, OSError):
            return False
        return True


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    [port] = choose(1)
    command = [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)]
    with (folder / "object-store.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=dict(os.environ))
    try:
        store = ObjectStore(port)
        wait_until(lambda: server.poll() is not None or store.answers(), "the object store answers", 60)
        assert server.poll() is None, (folder / "object-store.log").read_text()
        yield store
    finally:
        server.terminate()
        server.wait(30)
