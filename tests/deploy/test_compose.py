"""What docker-compose.yml and the Dockerfile promise, as far as it can be told without an engine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest

from pipeline.config import settings, toml
from pipeline.java import jars
from tests.deploy.compose import COMPOSE, ROOT, SERVICES, health_check, mounts

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


def test_the_file_is_what_the_compose_specification_allows() -> None:
    schema = json.loads((Path(__file__).parent / "schemas" / "compose-spec.json").read_text())
    allowed = jsonschema.Draft7Validator(schema)
    allowed.validate(COMPOSE)
    assert not allowed.is_valid({**COMPOSE, "services": {"job": {"imagee": "x"}}})


@pytest.mark.slow
def test_compose_s_own_loader_understands_the_file_as_these_tests_do(tmp_path: Path) -> None:
    """With Go at hand; without it the schema above is what checks the file, and this says so."""
    if not (go := shutil.which("go")):
        pytest.skip("no Go on this machine: the file was checked by the specification's schema only")
    program = tmp_path / "composecheck"
    source = Path(__file__).parent / "composecheck"
    subprocess.run([go, "build", "-o", str(program), "."], cwd=source, check=True)

    def load(file: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(program), str(file)], capture_output=True, text=True, check=False)

    done = load(ROOT / "docker-compose.yml")
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)["services"]
    assert set(loaded) == set(SERVICES)
    for name, service in loaded.items():
        if "healthcheck" in SERVICES[name]:
            understood = service["healthcheck"]["test"][1:]
            assert understood == health_check(name)[-len(understood) :]
        assert {volume["target"]: volume["source"] for volume in service.get("volumes", ())} == mounts(name)
    (tmp_path / "wrong.yml").write_text(
        (ROOT / "docker-compose.yml").read_text().replace("service_completed_successfully", "service_done")
    )
    assert load(tmp_path / "wrong.yml").returncode == 1
    (tmp_path / "loose.yml").write_text("services: {a: {image: b, depends_on: [nobody]}}\n")
    assert "nobody" in load(tmp_path / "loose.yml").stderr


def test_no_container_gets_a_volume_that_nobody_named() -> None:
    assert "VOLUME" not in re.findall(r"^[A-Z]+", DOCKERFILE, re.MULTILINE)
    assert [name for name in SERVICES if "/data" in mounts(name)] == ["job"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_unprivileged_and_seen_on_loopback_only(name: str) -> None:
    service = SERVICES[name]
    assert re.search(r":v?\d+\.\d+\.\d+$", service["image"])
    user, _, _ = service["user"].partition(":")
    assert int(user) > 0
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_mounts_is_in_the_clone_or_a_named_volume(name: str) -> None:
    for source in mounts(name).values():
        assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], source
    assert set(SERVICES[name].get("secrets", [])) <= set(COMPOSE["secrets"])


def test_the_services_start_in_the_order_of_health() -> None:
    order = {name: service.get("depends_on", {}) for name, service in SERVICES.items()}
    assert set(order["job"]) == {"kafka", "mysql", "prepare"}
    assert set(order["generator"]) == {"job"}
    for needed in order.values():
        for name, wish in needed.items():
            if wish["condition"] == "service_healthy":
                assert "test" in SERVICES[name]["healthcheck"]
            else:
                assert (name, wish["condition"]) == ("prepare", "service_completed_successfully")


def test_no_password_stands_in_the_file() -> None:
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            assert "PASSWORD" not in name or value.startswith("/run/secrets/"), name
    assert all(set(secret) == {"file"} for secret in COMPOSE["secrets"].values())


def test_the_job_s_settings_fit_the_services_beside_it() -> None:
    job = settings.load(ROOT / "deploy" / "docker" / "millrace.toml", environment={})
    assert job.kafka.bootstrap == "kafka:9092"
    assert "advertised.listeners=PLAINTEXT://kafka:9092," in (ROOT / "deploy/kafka/server.properties").read_text()
    assert job.master.host in SERVICES
    assert job.master.database == SERVICES["mysql"]["environment"]["MYSQL_DATABASE"]
    assert Path(job.master.password_file).name in SERVICES["job"]["secrets"]
    assert {Path(job.warehouse.path).parent, Path(job.job.checkpoint).parent} == {Path("/data")}
    assert mounts("job")["/data"] == "lake"
    targets = json.loads(next((ROOT / "deploy/prometheus/targets").glob("*.json")).read_text())
    assert f"job:{job.metrics.port}" in targets[0]["targets"]


def test_the_generator_sells_what_the_master_has() -> None:
    sizes = SERVICES["prepare"]["environment"]["MILLRACE_SIZES"].split(",")
    said = re.findall(r"--(?:products|customers|stores) (\d+)", SERVICES["generator"]["command"][-1])
    assert said == sizes


def test_the_image_has_the_versions_of_the_locks() -> None:
    spark = re.search(r"^FROM apache/spark:(\d+\.\d+\.\d+)-\S*python3", DOCKERFILE, re.MULTILINE)
    assert spark
    project = toml.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"pyspark=={spark[1]}" in project["dependencies"]
    assert SERVICES["job"]["image"] == f"millrace:{project['version']}"
    [broker] = [jar for jar in jars.read_lock() if jar.artifact == "kafka_2.13"]
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{broker.version}"


def test_the_image_s_packages_are_those_of_the_project_s_lock_without_pyspark() -> None:
    def pinned(lock: str) -> set[str]:
        return set(
            re.findall(r"^[a-z0-9-]+==\S+|^[a-z0-9-]+==\S+ ; .*(?= \\)", (ROOT / lock).read_text(), re.MULTILINE)
        )

    image, project = pinned("deploy/docker/requirements.lock"), pinned("deploy/requirements.lock")
    assert image
    assert image <= project
    assert not any(line.startswith("pyspark") for line in image)


def test_what_the_dockerfile_copies_is_there_and_reaches_the_engine() -> None:
    admitted = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    for sources in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source
            assert any(source == path or source.startswith(f"{path}/") for path in admitted), source
    assert DOCKERFILE.rindex("USER 185") > DOCKERFILE.rindex("RUN ")
