"""The least that the job's account must be allowed, as statements for whoever administers the server."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.config.contracts import DimensionContract
from pipeline.config.inferred import InferredSettings
from pipeline.config.settings import MasterData
from pipeline.master.mysql.literals import quoted


def statements(settings: MasterData, dimensions: Iterable[DimensionContract], host: str, reads_log: bool) -> list[str]:
    """For an account that is there already: who makes it chooses its password and whether it must use TLS.

    >>> statements(MasterData(user="o'neil", feed="off"), [], "%", reads_log=False)
    []
    """
    account = f"{_text(settings.user)}@{_text(host)}"
    tables = sorted({contract.table for contract in dimensions})
    found = [f"GRANT SELECT ON {quoted(settings.database)}.{quoted(table)} TO {account};" for table in tables]
    if reads_log:
        found.append(f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {account};")
    return found


def statements_to_infer(
    settings: MasterData, inferred: InferredSettings, dimensions: Iterable[DimensionContract], host: str
) -> list[str]:
    """To insert, into these columns, and not even to read."""
    account, found = f"{_text(inferred.user)}@{_text(host)}", []
    for contract in dimensions:
        if contract.inferred is not None:
            names = dict.fromkeys([*(part.column for part in contract.natural_key), *contract.inferred])
            columns = ", ".join(map(quoted, names | {contract.updated_at: None}))
            table = f"{quoted(settings.database)}.{quoted(contract.table)}"
            found.append(f"GRANT INSERT ({columns}) ON {table} TO {account};")
    return found


def _text(value: str) -> str:
    """
    >>> _text("o'neil")
    "'o''neil'"
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
