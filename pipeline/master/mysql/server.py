"""What a MySQL or MariaDB server says of itself and of the account that asks."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

from pipeline.config.settings import MasterData
from pipeline.master.mysql.drivers import as_rows
from pipeline.master.mysql.pool import Pool
from pipeline.master.port import ReadCount, ServerFacts

# What an account may have that only reads, looks, or logs in; SHOW VIEW and the like show, REPLICATION … is a feed's.
_READS = re.compile(
    r"SELECT( \(.*\))?|USAGE|SHOW .*|PROCESS|REPLICATION (SLAVE|CLIENT|REPLICA)|BINLOG MONITOR|SLAVE MONITOR"
)
_GRANT = re.compile(r"GRANT (?P<rights>.+?) ON (?P<on>\S+) TO (?P<rest>.*)", re.DOTALL)
# What a feed needs, each under the names that servers have for it.
_FEEDS = {
    "REPLICATION SLAVE": ("REPLICATION SLAVE", "REPLICATION REPLICA", "ALL PRIVILEGES"),
    "REPLICATION CLIENT": ("REPLICATION CLIENT", "BINLOG MONITOR", "SUPER", "ALL PRIVILEGES"),
}
_VARIABLES = ("log_bin", "binlog_format", "binlog_row_image", "max_connections")


def facts_of(settings: MasterData) -> ServerFacts:
    """One session, a handful of statements, nothing retried beyond what the settings say."""
    pool, count = Pool(settings), ReadCount()

    def ask(statement: str) -> list[list[str]]:
        rows = as_rows(pool.query(statement, "looking at the server", count))
        return [["" if value is None else value.decode("utf-8", "replace") for value in row] for row in rows]

    try:
        [[version]] = ask("SELECT VERSION()")
        wanted = ", ".join(f"'{name}'" for name in _VARIABLES)
        variables = {name.lower(): value for name, value in ask(f"SHOW VARIABLES WHERE Variable_name IN ({wanted})")}
        states = dict(ask("SHOW STATUS WHERE Variable_name IN ('Ssl_cipher', 'Threads_connected')"))
        granted = [line for (line,) in ask("SHOW GRANTS")]
        asked = time.time()
        [[moment]] = ask("SELECT UTC_TIMESTAMP(6)")
        ours = (asked + time.time()) / 2
    finally:
        pool.close()
    theirs = datetime.fromisoformat(moment).replace(tzinfo=timezone.utc).timestamp()
    return ServerFacts(
        version=version,
        encryption=states.get("Ssl_cipher", ""),
        more_rights=tuple(more_than_reading(granted)),
        ahead=theirs - ours,
        most_connections=int(variables.get("max_connections", 0)),
        connections=int(states.get("Threads_connected", 0)),
        lacks_for_a_feed=tuple(_lacks(variables, granted)),
    )


def more_than_reading(granted: Sequence[str]) -> Iterator[str]:
    """Of the lines of SHOW GRANTS what lets an account do more than read, without anything of its password.

    >>> list(more_than_reading(["GRANT SELECT, INSERT (a, b) ON `m`.`t` TO `j`@`%`", "GRANT USAGE ON *.* TO `j`@`%`"]))
    ['INSERT (a, b) ON `m`.`t`']
    >>> list(more_than_reading(["GRANT SELECT ON `m`.* TO `j`@`%` WITH GRANT OPTION", "GRANT `role` TO `j`@`%`"]))
    ['GRANT OPTION ON `m`.*']
    """
    for grant in filter(None, map(_GRANT.match, granted)):
        rights = re.split(r", (?![^(]*\))", grant["rights"])
        more = [right for right in rights if not _READS.fullmatch(right.upper())]
        if "WITH GRANT OPTION" in grant["rest"]:
            more.append("GRANT OPTION")
        if more:
            yield f"{', '.join(more)} ON {grant['on']}"


def _lacks(variables: dict[str, str], granted: Sequence[str]) -> Iterator[str]:
    for name, needed in (("log_bin", "ON"), ("binlog_format", "ROW"), ("binlog_row_image", "FULL")):
        has = variables.get(name, needed)  # what a server does not know has become the only way, as ROW has
        if has.upper() not in (needed, "1"):
            yield f"{name} = {needed} (it is {has})"
    everywhere = [grant["rights"].upper() for grant in filter(None, map(_GRANT.match, granted)) if grant["on"] == "*.*"]
    for needed, names in _FEEDS.items():
        if not any(name in rights for rights in everywhere for name in names):
            yield f"the right {needed}"
