"""Packs this Python environment for executors that have nothing but Python and Spark; prints the two archives.

    python deploy/spark/pack.py [FOLDER]

`millrace-*.zip` is Millrace's own code, `packages-*.tar.gz` what it imports, taken from the environment this runs in,
so executors run what the driver runs. PySpark stays out: it belongs to the cluster. The large archive is named after
what is in it and made anew only when that changes. Executors need the same Python 3.x and the same kind of machine.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
import tarfile
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pipeline

BELONGS_TO_THE_CLUSTER = {"pyspark", "py4j"}
NEVER_IMPORTED = ("pandas/tests/", "pyarrow/tests/", "pyarrow/include/")


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/spark").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    print(pack_code(folder), pack_packages(folder), sep="\n")


def pack_code(folder: Path) -> Path:
    package = Path(pipeline.__file__).parent
    files = sorted(file for file in package.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    content = {f"pipeline/{file.relative_to(package)}": file.read_bytes() for file in files}
    archive = folder / f"millrace-{_sum(*content, *content.values())}.zip"
    if not archive.exists():
        unfinished = archive.with_suffix(f".partial-{os.getpid()}")
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, code in content.items():
                packed.writestr(name, code)
        unfinished.replace(archive)
    return archive


def pack_packages(folder: Path) -> Path:
    packages = sorted(_needed("millrace").items())
    versions = [f"{name}=={package.version}" for name, package in packages]
    archive = folder / f"packages-{_sum(platform.machine(), sys.version, *versions)}.tar.gz"
    if not archive.exists():
        print(f"millrace: packing {len(packages)} packages into {archive} ...", file=sys.stderr)
        unfinished = archive.with_suffix(f".partial-{os.getpid()}")
        with tarfile.open(unfinished, "w:gz", compresslevel=1) as packed:
            for _, package in packages:
                for file in package.files or ():
                    inside = not file.is_absolute() and ".." not in file.parts  # programs are installed outside
                    if inside and "__pycache__" not in file.parts and not str(file).startswith(NEVER_IMPORTED):
                        packed.add(package.locate_file(file), str(file), recursive=False)
        unfinished.replace(archive)
    return archive


def _needed(root: str) -> dict[str, Distribution]:
    """What `root` requires, directly and indirectly, without itself and without the cluster's own."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    todo = [(root, "")]
    while todo:
        name, extra = todo.pop()
        if (name, extra) in seen or name in BELONGS_TO_THE_CLUSTER:
            continue
        seen.add((name, extra))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue  # another platform's or another Python's: it is not needed here
        found[name] = package
        for requirement in package.requires or ():
            wanted, _, condition = requirement.partition(";")
            asked_by = re.search(r"""extra\s*==\s*["']([^"']+)["']""", condition)
            if (asked_by[1] if asked_by else "") == extra:
                todo += _parts(wanted)
    del found[root]
    return found


def _parts(requirement: str) -> list[tuple[str, str]]:
    """The package, and the package again for each extra.

    >>> _parts("kafka-python[lz4,zstd]==3.0")
    [('kafka-python', ''), ('kafka-python', 'lz4'), ('kafka-python', 'zstd')]
    """
    parsed = re.match(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?", requirement)
    assert parsed, requirement
    name = re.sub(r"[-_.]+", "-", parsed[1]).lower()
    extras = [extra.strip() for extra in (parsed[2] or "").split(",") if extra.strip()]
    return [(name, extra) for extra in ["", *extras]]


def _sum(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()[:12]


if __name__ == "__main__":
    main()
