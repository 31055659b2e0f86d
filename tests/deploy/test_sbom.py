"""The list of what is in the image is one by CycloneDX's own schema, and has all that the locks have."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from tests.deploy.compose import ROOT

DEPLOY = ROOT / "deploy"


@pytest.mark.parametrize("store", ["", "s3"])
def test_all_that_is_installed_is_listed_once_with_its_sum(store: str) -> None:
    command = [sys.executable, str(DEPLOY / "sbom.py"), *(["--store", store] if store else [])]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    listed = json.loads(text)["components"]
    kinds = Counter(PackageURL.from_string(each["purl"]).type for each in listed)
    wheels = re.findall(r"^\w\S*==", (DEPLOY / "docker" / "requirements.lock").read_text(), re.MULTILINE)
    jars = re.findall(
        rf"^(?:spark|{store or 'spark'}) +\S+ +(\w{{64}})$", (DEPLOY / "jars.lock").read_text(), re.MULTILINE
    )
    assert kinds == {"docker": 1, "pypi": len(wheels), "maven": len(jars)}
    assert len({each["bom-ref"] for each in listed}) == len(listed)
    assert {each["hashes"][0]["content"] for each in listed if "hashes" in each} == set(jars)
    allowed = (DEPLOY / "docker" / "requirements.lock").read_text().count("--hash=sha256:")
    assert sum(p["name"] == "millrace:allowed-sha256" for each in listed for p in each.get("properties", ())) == allowed


def test_a_list_that_lacks_what_the_schema_wants_is_found_out() -> None:
    """So that silence of the validator means something."""
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(
        '{"bomFormat": "CycloneDX", "specVersion": "1.6", "x": 1}'
    )
