"""The manifests against the operators' own schemas, and against what they name."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pipeline.config import settings
from pipeline.java import jars
from pipeline.watch.publish import Metrics
from tests.deploy.compose import ROOT

K8S = ROOT / "deploy" / "k8s"
OPERATORS = ("apache", "kubeflow")


def manifest(operator: str) -> dict[str, Any]:
    return dict(yaml.safe_load((K8S / f"{operator}-operator.yaml").read_text()))


def definition(operator: str) -> dict[str, Any]:
    file = Path(__file__).parent / "schemas" / f"{operator}-sparkapplication.json"
    return dict(json.loads(file.read_text()))


def common() -> dict[str, dict[str, Any]]:
    return {part["kind"]: part for part in yaml.safe_load_all((K8S / "common.yaml").read_text())}


def strict(schema: Any) -> Any:
    """As the API server takes it with strict field validation: a field nobody knows is an error."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: strict(part) for name, part in schema.items()}
    if isinstance(made.get("properties"), dict) and not made.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


def pods(operator: str) -> dict[str, dict[str, Any]]:
    spec = manifest(operator)["spec"]
    if operator == "apache":
        return {role: spec[f"{role}Spec"]["podTemplateSpec"] for role in ("driver", "executor")}
    return {role: spec[role]["template"] for role in ("driver", "executor")}


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_manifest_is_what_its_operator_s_definition_allows(operator: str) -> None:
    made, wanted = manifest(operator), definition(operator)
    assert made["apiVersion"] == f"{wanted['group']}/{wanted['version']}"
    assert made["kind"] == wanted["kind"]
    allowed = jsonschema.Draft7Validator(strict(wanted["schema"]["properties"]["spec"]))
    assert [error.message for error in allowed.iter_errors(made["spec"])] == []
    assert not allowed.is_valid({**made["spec"], "memmory": "1g"})


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_image_the_jars_and_the_program_are_those_of_this_project(operator: str) -> None:
    spec = manifest(operator)["spec"]
    conf = spec["sparkConf"]
    if operator == "apache":
        listed, program = conf["spark.jars"].split(","), spec["pyFiles"]
        version, image = spec["runtimeVersions"]["sparkVersion"], conf["spark.kubernetes.container.image"]
    else:
        listed, program = spec["deps"]["jars"], spec["mainApplicationFile"]
        version, image = spec["sparkVersion"], spec["image"]
    assert listed == [f"local:///opt/millrace/jars/{jar.file}" for jar in jars.read_lock_of("spark")]
    assert (ROOT / program.removeprefix("local:///opt/millrace/")).is_file()
    assert f"FROM apache/spark:{version}-" in (ROOT / "deploy" / "Dockerfile").read_text()
    assert image == yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["job"]["image"]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("role", ["driver", "executor"])
def test_a_pod_is_unprivileged_and_finds_what_it_mounts(operator: str, role: str) -> None:
    pod = pods(operator)[role]["spec"]
    [container] = pod["containers"]
    assert container["name"] == f"spark-kubernetes-{role}"
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 185)
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    parts = common()
    assert volumes["lake"]["persistentVolumeClaim"]["claimName"] == parts["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["settings"]["configMap"]["name"] == parts["ConfigMap"]["metadata"]["name"]


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_settings_keep_the_checkpoint_with_the_tables_on_the_durable_volume(operator: str, tmp_path: Path) -> None:
    [container] = pods(operator)["driver"]["spec"]["containers"]
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    file = tmp_path / "millrace.toml"
    file.write_text(common()["ConfigMap"]["data"]["millrace.toml"])
    job = settings.load(file, environment={})
    assert {Path(job.job.checkpoint).parent, Path(job.warehouse.path).parent} == {Path(places["lake"])}
    assert Path(job.master.password_file).parent == Path(places["master"])
    arguments = manifest(operator)["spec"].get("driverArgs") or manifest(operator)["spec"]["arguments"]
    assert arguments == ["--config", f"{places['settings']}/millrace.toml"]


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_probes_ask_what_the_job_answers(operator: str) -> None:
    [container] = pods(operator)["driver"]["spec"]["containers"]
    metrics = Metrics()
    port = metrics.serve("127.0.0.1", 0)

    def status(probe: str) -> int:
        wanted = container[f"{probe}Probe"]["httpGet"]
        assert wanted["port"] == settings.MetricsSettings().port
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{wanted['path']}", timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    try:
        assert [status(probe) for probe in ("startup", "liveness", "readiness")] == [200, 200, 503]
        metrics.ready()
        assert status("readiness") == 200
    finally:
        metrics.close()


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_metrics_service_selects_the_driver(operator: str) -> None:
    selected = common()["Service"]["spec"]["selector"]
    labels = {role: pod["metadata"]["labels"] for role, pod in pods(operator).items()}
    assert selected.items() <= labels["driver"].items()
    assert not selected.items() <= labels["executor"].items()
