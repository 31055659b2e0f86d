"""What makes a new session ready for the first read."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.master.mysql.drivers import Row

# The database is in others' production use: we only read, one statement at a time on a fresh snapshot.
_EVERY_SESSION = (
    "SET NAMES utf8mb4",
    "SET SESSION autocommit = 1, time_zone = '+00:00', sql_mode = ''",
    "SET SESSION TRANSACTION READ ONLY",
)
# Long IN lists must stay ranges over the index: no limit on their memory (MySQL), no rewriting as a join (MariaDB). The
# server gives up a statement when we do. Each server knows some of these, and older ones fewer.
_IF_KNOWN = (
    "range_optimizer_max_mem_size = 0",
    "information_schema_stats_expiry = 0",
    "max_execution_time = {milliseconds}",
    "in_predicate_conversion_threshold = 0",
    "optimizer_max_sel_arg_weight = 0",
    "max_statement_time = {seconds}",
)
_UNKNOWN_VARIABLE = 1193


def made_ready(ask: Callable[[str], list[Row]], timeout: float) -> int:
    """Asks what is to be asked first. Returns the longest packet that the server takes."""
    for statement in _EVERY_SESSION:
        ask(statement)
    for variable in _IF_KNOWN:
        _set_if_known(ask, variable.format(seconds=float(timeout), milliseconds=round(timeout * 1000)))
    [(largest,)] = ask("SELECT @@max_allowed_packet")
    return int(largest or 0)


def _set_if_known(ask: Callable[[str], list[Row]], variable: str) -> None:
    try:
        ask(f"SET SESSION {variable}")
    except Exception as error:
        if error.args[:1] != (_UNKNOWN_VARIABLE,):
            raise
