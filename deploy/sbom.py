"""What is in the image, as a CycloneDX list (1.6, JSON): made from the locks, so it is what is installed, by hash.

    make sbom > sbom.json        # or ARGS="--store s3"

The base image brings Spark, Java and Python; it is one entry, and its maker has a list of its own. A wheel's sums are
those that the lock allows, one for each kind of machine. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_SPACE = uuid.UUID("5f0f7c1e-7d63-4f0e-9f6b-4a0f1a1d2c3b")  # of the lists' own numbers
_PACKAGE = re.compile(
    r"^([a-z0-9][\w.-]*)==([^\s;]+)(?: ; (.*?))? \\$((?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?)+)", re.MULTILINE
)


def packages(lock: str) -> list[dict[str, Any]]:
    found = []
    for name, version, marker, sums in _PACKAGE.findall(lock):
        properties = [("millrace:allowed-sha256", each) for each in re.findall(r"[0-9a-f]{64}", sums)]
        properties += [("millrace:only-where", marker)] if marker else []
        purl = f"pkg:pypi/{name}@{version}"
        found.append(_component(purl, name, version) | {"properties": [{"name": n, "value": v} for n, v in properties]})
    return found


def jars(lock: str, sets: set[str]) -> list[dict[str, Any]]:
    found = []
    for line in lock.splitlines():
        if not line or line.startswith("#"):
            continue
        kind, coordinate, sha256 = line.split()
        group, name, version, *classifier = coordinate.split(":")
        if kind in sets:
            purl = f"pkg:maven/{group}/{name}@{version}" + (f"?classifier={classifier[0]}" if classifier else "")
            sums = {"hashes": [{"alg": "SHA-256", "content": sha256}]}
            found.append(_component(purl, name, version) | {"group": group} | sums)
    return found


def base(dockerfile: str) -> dict[str, Any]:
    [(image, tag)] = re.findall(r"^FROM (\S+):(\S+)$", dockerfile, re.MULTILINE)
    return _component(f"pkg:docker/{image}@{tag}", image, tag) | {"type": "container"}


def bill(store: str = "") -> dict[str, Any]:
    [version] = re.findall(
        r'^__version__ = "(.+)"$', (HERE.parent / "pipeline" / "__init__.py").read_text(), re.MULTILINE
    )
    parts = [
        base((HERE / "Dockerfile").read_text()),
        *packages((HERE / "docker" / "requirements.lock").read_text()),
        *jars((HERE / "jars.lock").read_text(), {"spark", store}),
    ]
    own = _component(f"pkg:pypi/millrace@{version}", "millrace", version) | {"type": "application"}
    references = [part["bom-ref"] for part in parts]
    made = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own | {"licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": parts,
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": references}],
    }
    return made | {"serialNumber": f"urn:uuid:{uuid.uuid5(_SPACE, json.dumps(made))}"}  # the same list has the same


def _component(purl: str, name: str, version: str) -> dict[str, Any]:
    return {"type": "library", "bom-ref": purl, "purl": purl, "name": name, "version": version}


def main() -> None:
    asked = argparse.ArgumentParser(description="What is in the image, as a CycloneDX list.")
    asked.add_argument("--store", default="", choices=["", "s3", "azure", "google"])
    json.dump(bill(asked.parse_args().store), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
