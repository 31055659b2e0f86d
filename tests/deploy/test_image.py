"""The steps of the Dockerfile without Docker: a Spark distribution, an empty Python, the script that makes all."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.workload import Workload
from pipeline.java.runtime import java_home
from pipeline.laptop.stack.stack import StackInfo
from tests.deploy.compose import ROOT
from tests.kit.object_store import object_store
from tests.kit.running import Job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STORE = "s3"  # the build argument; without it the image has the same jars, less the connector's
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


class Image:
    """What the Dockerfile makes, below a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self.millrace, self.spark, self.data = folder / "opt/millrace", folder / "opt/spark", folder / "data"
        self.millrace.mkdir(parents=True)
        self.data.mkdir()
        self._unpack_spark()
        subprocess.run([python_of_the_image(), "-m", "venv", str(folder / "python")], check=True)
        self.path = f"{folder / 'python' / 'bin'}:{os.environ['PATH']}"

    def _unpack_spark(self) -> None:
        """PySpark's wheel, laid out as the distribution in the base image is."""
        wheel = Path(pyspark.__file__).parent
        (self.spark / "python").mkdir(parents=True)
        for name in ("jars", "bin", "sbin"):
            (self.spark / name).symlink_to(wheel / name)
        shutil.copytree(wheel / "python" / "lib", self.spark / "python" / "lib")
        own = shutil.ignore_patterns("jars", "bin", "sbin", "python", "data", "examples", "licenses", "__pycache__")
        shutil.copytree(wheel, self.spark / "python" / "pyspark", ignore=own)

    def local(self, text: str) -> str:
        return text.replace("/opt/millrace", str(self.millrace)).replace("/opt/spark", str(self.spark))

    @property
    def environment(self) -> dict[str, str]:
        """The image's ENV, and what the base image has; nothing of this process that could help."""
        [block] = re.findall(r"^ENV ((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE)
        said = dict(word.split("=", 1) for word in block.replace("\\\n", " ").split())
        made = {name: self.local(value).replace("$PATH", self.path) for name, value in said.items()}
        return {**made, "SPARK_HOME": str(self.spark), "JAVA_HOME": str(java_home()), "HOME": "/nonexistent"}

    def build(self) -> None:
        for line in re.findall(r"^(?:COPY|RUN) .+$", DOCKERFILE, re.MULTILINE):
            step, *words = line.split()
            if step == "COPY":
                self._copy(words[:-1], self.millrace / words[-1])
            else:
                words = line.partition("&&")[0].split()[1:]
                command = [self.local(word).replace("$STORE", STORE) for word in words]
                # Pip's own settings, which an engine would give as build arguments.
                pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
                home = {"HOME": os.environ["HOME"], "PATH": self.path, "SPARK_HOME": str(self.spark)}
                subprocess.run(
                    command, cwd=self.millrace, env={**pip, **home, "JAVA_HOME": str(java_home())}, check=True
                )

    def _copy(self, sources: list[str], target: Path) -> None:
        for source in (ROOT / name for name in sources):
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)

    def files(self) -> dict[str, tuple[int, int]]:
        """Everything that is read-only in the container, with when it was changed."""
        found = [path for folder in (self.millrace, self.spark) for path in folder.rglob("*")]
        return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in found}


def python_of_the_image() -> str:
    """The base image has Python 3.10; where this machine has it too, it is taken."""
    found = shutil.which("python3.10") or ""
    runs = found and subprocess.run([found, "-c", "import venv"], capture_output=True, check=False).returncode == 0
    return found if runs else sys.executable


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    made = Image(tmp_path_factory.mktemp("image"))
    made.build()
    return made


def test_the_image_has_every_jar_of_the_lock_under_the_name_the_manifests_use(image: Image) -> None:
    for manifest in (ROOT / "deploy" / "k8s").glob("*-operator.yaml"):
        named = re.findall(r"local:///opt/millrace/(jars/[^\s,\"]+)", manifest.read_text())
        assert named
        assert all((image.millrace / jar).is_file() for jar in named)


def test_pyspark_is_the_distribution_s_own(image: Image) -> None:
    where = [shutil.which("python3", path=image.path) or "", "-c", "import pyspark; print(pyspark.__file__)"]
    said = subprocess.check_output(where, env=image.environment, text=True)
    assert said.startswith(str(image.spark))
    assert not (image.millrace / "packages" / "pyspark").exists()


def test_the_image_s_command_brings_every_sale_to_an_object_store_and_writes_nothing_into_the_image(
    image: Image,
    seeded: StackInfo,
    seeded_sizes: Sizes,
    topic: str,
    tmp_path: Path,
    reconciled,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workload = Workload(topics={topic: 1.0}, sizes=seeded_sizes, malformed=0.02, unknown=0.03)
    sent = generate(bootstrap=seeded.bootstrap, workload=workload, messages=5_000, partitions=2, progress=False)
    [command] = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    program, *arguments = re.findall(r'"([^"]+)"', command)
    with object_store(tmp_path) as store:
        job = Job(
            image.data, seeded, topic, **store.settings(store.create_bucket("shop")), job__trigger="available-now"
        )
        job.command = [str(image.millrace / "bin" / program), *arguments]
        before = image.files()
        with monkeypatch.context() as inside:
            for name in list(os.environ):
                inside.delenv(name)
            for name, value in image.environment.items():
                inside.setenv(name, value)
            job.start()
        assert job.wait() == 0, job.tail()
        assert image.files() == before
        reconciled(job, sent)
