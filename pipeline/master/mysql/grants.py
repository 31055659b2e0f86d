"""The least that the job's account must be allowed, as statements for whoever administers the server."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.config.contracts import DimensionContract
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


def _text(value: str) -> str:
    """
    >>> _text("o'neil")
    "'o''neil'"
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
