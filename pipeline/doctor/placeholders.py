"""What `millrace repair --infer` needs: an account of its own, and a table in which a placeholder row can stand."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pipeline.doctor.findings import Check, Finding, Patient, ok, warning
from pipeline.doctor.master import SERVER
from pipeline.errors import BadContract, BadSetting
from pipeline.master.open import open_master, open_placeholders
from pipeline.repair.inferred import require_account, require_one_row_a_key


def checks(patient: Patient) -> list[Check]:
    return [
        Check(f"placeholders {name}", partial(placeholders, name), (SERVER, f"dimension {name}"))
        for name, contract in patient.plan.dimensions.items()
        if contract.inferred is not None
    ]


def placeholders(name: str, patient: Patient) -> Iterator[Finding]:
    """A warning, for the job itself does without: only a repair that infers would be refused."""
    contract, inferred = patient.plan.dimensions[name], patient.settings.inferred
    try:
        require_account(patient.plan)
        with open_master(patient.master, contract) as master:
            require_one_row_a_key(contract, master)
        with open_placeholders(patient.master, inferred, contract):
            yield ok(
                f"{inferred.user} may insert placeholder rows into {contract.table}, and [inferred] fits its columns"
            )
    except (BadContract, BadSetting) as refused:
        yield warning(str(refused))
