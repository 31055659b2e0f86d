"""Packs this Python environment for executors that have nothing but Python and Spark; prints the two archives.

    python deploy/spark/pack.py [FOLDER]     # without one: the cache folder

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
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pipeline
from pipeline.commands import failures
from pipeline.java import downloads as cache

BELONGS_TO_THE_CLUSTER = {"pyspark", "py4j"}
NEVER_IMPORTED = ("pandas/tests/", "pyarrow/tests/", "pyarrow/include/")


_SAY_EVERY = 2.0  # seconds


def main() -> None:
    folder = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else cache.folder("spark")
    folder.mkdir(parents=True, exist_ok=True)
    print(pack_code(folder), pack_packages(folder), sep="\n")


@contextmanager
def _whole(archive: Path) -> Iterator[Path]:
    """A place to write the archive, which gets its name when all of it is there. Nothing is left of a failure.

    Not even of one by force: who packs next removes what was left. One packs at a time.
    """
    with cache.locked("pack"):
        for left_over in archive.parent.glob("*.partial-*"):
            left_over.unlink()
        unfinished = archive.with_suffix(f".partial-{os.getpid()}")
        try:
            yield unfinished
            unfinished.replace(archive)
        finally:
            unfinished.unlink(missing_ok=True)


def pack_code(folder: Path) -> Path:
    package = Path(pipeline.__file__).parent
    files = sorted(file for file in package.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    content = {f"pipeline/{file.relative_to(package)}": file.read_bytes() for file in files}
    archive = folder / f"millrace-{_sum(*content, *content.values())}.zip"
    if not archive.exists():
        with _whole(archive) as unfinished, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, code in content.items():
                packed.writestr(name, code)
    return archive


def pack_packages(folder: Path) -> Path:
    packages = sorted(_needed("millrace").items())
    versions = [f"{name}=={package.version}" for name, package in packages]
    archive = folder / f"packages-{_sum(platform.machine(), sys.version, *versions)}.tar.gz"
    if not archive.exists():
        files = [(str(name), place) for _, package in packages for name, place in _files(package)]
        with _whole(archive) as unfinished, tarfile.open(unfinished, "w:gz", compresslevel=1) as packed:
            for name, place in _told(files, f"{len(packages)} packages into {archive}"):
                packed.add(place, name, recursive=False)
    return archive


def _files(package: Distribution) -> Iterator[tuple[str, Path]]:
    """What is imported of a package: its name in the archive, and where it lies."""
    for file in package.files or ():
        inside = not file.is_absolute() and ".." not in file.parts  # programs are installed outside
        if inside and "__pycache__" not in file.parts and not str(file).startswith(NEVER_IMPORTED):
            yield str(file), Path(str(package.locate_file(file)))


def _told(files: list[tuple[str, Path]], what: str) -> Iterator[tuple[str, Path]]:
    """The files one by one, and every few seconds a line on how far it is."""
    sizes = [place.stat().st_size for _, place in files]
    done, told_at = 0, time.monotonic()
    print(f"millrace: packing {what} ...", file=sys.stderr, flush=True)
    for file, size in zip(files, sizes, strict=True):
        yield file
        done += size
        if time.monotonic() - told_at > _SAY_EVERY:
            told_at = time.monotonic()
            print(f"millrace: {done >> 20} of {sum(sizes) >> 20} MiB packed", file=sys.stderr, flush=True)


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
    with failures.told():
        main()
