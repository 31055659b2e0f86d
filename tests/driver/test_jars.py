"""Jars come from the lock and from nowhere else, whole and checked. The repository here is a folder."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pipeline.java import jars
from pipeline.java.jars import JarsFailed
from tests.kit.disks import disk

CONTENT = {"ale": b"the first jar", "bun": b"the second jar"}


class Repository:
    """A Maven repository in a folder, with the lock that fits it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = folder / "jars.lock"
        for artifact, content in CONTENT.items():
            self.put(artifact, content)
        self.lock.write_text(
            "# set, coordinate, sha256\n"
            + "".join(f"test org.example:{a}:1.0 {hashlib.sha256(c).hexdigest()}\n" for a, c in CONTENT.items())
        )

    def put(self, artifact: str, content: bytes) -> None:
        file = self.folder / "org" / "example" / artifact / "1.0" / f"{artifact}-1.0.jar"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MILLRACE_MAVEN_REPOSITORY", (tmp_path / "repository").as_uri())
    (tmp_path / "repository").mkdir()
    return Repository(tmp_path / "repository")


def test_the_shipped_lock_names_every_jar_once_and_all_sets() -> None:
    lock = jars.read_lock()
    assert {jar.set for jar in lock} == {"spark", "kafka", "database", *jars.STORES.values()}
    assert not [line for line, times in Counter((jar.set, jar.coordinate) for jar in lock).items() if times > 1]


def test_a_fetched_jar_has_the_content_that_was_locked(repository: Repository) -> None:
    fetched = jars.fetch("test", repository.lock)
    assert [file.read_bytes() for file in fetched] == list(CONTENT.values())


def test_a_jar_is_fetched_only_once(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    first = jars.fetch("test", repository.lock)
    monkeypatch.setenv("MILLRACE_MAVEN_REPOSITORY", "file:///nowhere")
    assert jars.fetch("test", repository.lock) == first


def test_a_jar_damaged_in_the_cache_is_fetched_again(repository: Repository) -> None:
    damaged = jars.fetch("test", repository.lock)[1]
    damaged.write_bytes(CONTENT["bun"][:-1])
    assert jars.fetch("test", repository.lock)[1].read_bytes() == CONTENT["bun"]


def test_a_wrong_checksum_names_the_file_and_both_sums_and_nothing_is_kept(repository: Repository) -> None:
    repository.put("bun", b"something else")
    with pytest.raises(JarsFailed) as failed:
        jars.fetch("test", repository.lock)
    for part in ("bun-1.0.jar", *(hashlib.sha256(c).hexdigest() for c in (CONTENT["bun"], b"something else"))):
        assert part in str(failed.value)
    kept = {file.name for file in jars.downloads.folder("jars").iterdir()}
    assert kept == {"org.example_ale-1.0.jar"}


def test_a_jar_the_repository_lacks_is_named_with_the_repository_and_the_remedy(repository: Repository) -> None:
    with repository.lock.open("a") as lock:
        lock.write(f"test org.example:cod:1.0 {'0' * 64}\n")
    with pytest.raises(JarsFailed, match=r"org\.example:cod:1\.0 from file:.*MILLRACE_MAVEN_REPOSITORY"):
        jars.fetch("test", repository.lock)


def test_two_processes_may_fetch_at_once_and_only_one_does_the_work(repository: Repository) -> None:
    program = (
        f"from pathlib import Path; from pipeline.java import jars; jars.fetch('test', Path({str(repository.lock)!r}))"
    )
    running = [subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = "".join(process.communicate(timeout=60)[1] for process in running)
    assert [process.returncode for process in running] == [0, 0]
    assert said.count("fetching 2 jars") == 1


@pytest.mark.parametrize("line", ["test org.example:ale 00", "test org.example:ale:1.0", f"org.example:a:1 {'0' * 64}"])
def test_a_line_that_cannot_be_read_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    lock = tmp_path / "jars.lock"
    lock.write_text(f"# a comment\n\n{line}\n")
    with pytest.raises(JarsFailed, match=r"jars\.lock:3: needs `set group:artifact:version sha256`"):
        jars.read_lock(lock)


@pytest.mark.parametrize(
    ("uris", "sets"),
    [
        (["/data/lake", "hdfs://namenode/checkpoint"], ["spark"]),
        (["s3a://lake/shop", "s3://lake/checkpoint"], ["spark", "s3"]),
        (["abfss://c@a.dfs.core.windows.net/shop", "/checkpoint"], ["spark", "azure"]),
        (["/lake", "gs://lake/checkpoint"], ["spark", "google"]),
    ],
)
def test_spark_gets_the_connector_of_the_store_that_tables_or_checkpoint_lie_on(
    uris: list[str], sets: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "fetch", lambda of_set: [Path(of_set)])
    assert jars.for_spark(*uris) == [Path(name) for name in sets]


def test_the_connectors_have_the_version_of_spark_s_own_hadoop() -> None:
    [client] = jars.SHIPPED_BY_PYSPARK.glob("hadoop-client-api-*.jar")
    connectors = [jar for jar in jars.read_lock() if jar.group == "org.apache.hadoop"]
    assert {jar.set for jar in connectors} == set(jars.STORES.values())
    assert {f"hadoop-client-api-{jar.version}.jar" for jar in connectors} == {client.name}


def test_an_image_without_the_store_s_jars_is_told_how_to_build_one(tmp_path: Path) -> None:
    program = "from pipeline.java import jars\ntry: jars.fetch('s3')\nexcept jars.JarsFailed as failed: print(failed)"
    with disk(tmp_path / "image", "size=1m") as image:
        image.python("import os, sys; os.makedirs(sys.argv[1])", str(image.folder / "cache" / "jars"))
        image.remount("ro")
        variables = f"MILLRACE_CACHE={image.folder / 'cache'}"
        said = subprocess.check_output(image.command("env", variables, sys.executable, "-c", program), text=True)
    assert said.startswith("36 jars of the set 's3' (org.apache.hadoop_hadoop-aws-3.5.0.jar, …) are not in ")
    assert "Build the image with --build-arg STORE=s3" in said
    assert said.count("\n") == 1


def test_an_unknown_set_is_answered_with_the_known_ones(repository: Repository) -> None:
    with pytest.raises(JarsFailed, match=r"'spork'.*it has test"):
        jars.fetch("spork", repository.lock)
