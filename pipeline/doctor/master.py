"""The database: who is let in and what for, what time it has, whether each master table fits contract and memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

from pipeline.advise.demand import Demand
from pipeline.doctor.findings import Check, Finding, Patient, is_here, not_checked, ok, warning
from pipeline.driver.preflight import check_dimension
from pipeline.errors import FeedRefused
from pipeline.master.feed import POLLED
from pipeline.master.open import look_at_server, open_feed, open_master
from pipeline.master.port import ServerFacts
from pipeline.master.share import Contract

_SKEW = 2.0  # seconds
SERVER = "master server"


def checks(patient: Patient) -> list[Check]:
    return [
        Check(SERVER, server),
        Check("master rights", rights, (SERVER,)),
        Check("master encryption", encryption, (SERVER,)),
        Check("master clock", clock, (SERVER,)),
        Check("master connections", connections, (SERVER,)),
        Check("master change feed", change_feed, (SERVER,)),
        *(Check(f"dimension {name}", partial(dimension, name), (SERVER,)) for name in patient.plan.dimensions),
    ]


def server(patient: Patient) -> Iterator[Finding]:
    patient.server = look_at_server(patient.master)
    master = patient.settings.master
    yield ok(f"{patient.server.version} at {master.host}:{master.port} lets {master.user} into {master.database}")


def rights(patient: Patient) -> Iterator[Finding]:
    """Reading is enough. That each table may be read is found by the check of its dimension."""
    more = _found(patient).more_rights
    tables = ", ".join(contract.table for contract in patient.plan.dimensions.values())
    if more:
        yield warning(
            f"{patient.settings.master.user} may do more than read: {'; '.join(more)}",
            f"Give the job an account that has SELECT on {tables} and nothing else.",
        )
    else:
        yield ok(f"{patient.settings.master.user} may read and change nothing")


def encryption(patient: Patient) -> Iterator[Finding]:
    master, cipher = patient.settings.master, _found(patient).encryption
    if cipher and master.tls_ca:
        yield ok(f"through TLS ({cipher}), and the server has proved its name")
    elif is_here(master.host):
        yield ok(f"{'through TLS' if cipher else 'in plain'}, which stays on this machine")
    elif cipher:
        yield warning(
            "through TLS, but nothing proves that it is the right server", "Name its authority in master.tls_ca."
        )
    else:
        yield warning(
            f"master data and log-in go in plain to {master.host}: who is on the way can read and change them",
            "Name the server's authority in master.tls_ca: then TLS is required.",
        )


def clock(patient: Patient) -> Iterator[Finding]:
    ahead = _found(patient).ahead
    if abs(ahead) > _SKEW:
        yield warning(
            f"the server's clock is {abs(ahead):,.1f} s {'ahead of' if ahead > 0 else 'behind'} this machine's",
            "Let both follow a time server: `updated_at` is the server's time, `processed_at` this machine's.",
        )
    else:
        yield ok(f"within {_SKEW:g} s of this machine's")


def connections(patient: Patient) -> Iterator[Finding]:
    """Of all workers, beside those that others have open."""
    found, contract = _found(patient), Contract.of(patient.settings.master)
    demand = Demand.of(patient.plan, 1.0)
    share = contract.deal(1, 1)[0].connections
    wanted = contract.connections or share * demand.workers
    if not (contract.connections or demand.counted):
        yield not_checked(
            f"each task opens {share}, of the {found.most_connections} that the server has; how many run at once, "
            "the cluster decides. master.connections caps them all"
        )
        return
    shown = f"master.connections = {wanted}"
    if not contract.connections:
        shown = f"{demand.workers} tasks with {share} each make {wanted}"
    shown += f"; the server has {found.most_connections}"
    if wanted + found.connections - 1 > found.most_connections:
        yield warning(
            f"{shown}, of which {found.connections - 1} are in use: workers would wait for one another",
            "Lower master.connections or the slots of spark.master, or raise max_connections on the server.",
        )
    else:
        yield ok(shown)


def change_feed(patient: Patient) -> Iterator[Finding]:
    """Without one a job is right, and rows in memory may be as old as `max_staleness` says; `run` refuses to start
    without one only where it is asked for by name."""
    wanted, lacks = patient.settings.master.feed, ", ".join(_found(patient).lacks_for_a_feed)
    if wanted == "off":
        yield ok("master.feed is off: a master row in memory may be as old as max_staleness says")
        return
    try:
        with closing(open_feed(patient.master, patient.plan.dimensions).follow()) as told:
            is_polled = next(told).place == POLLED
    except FeedRefused as error:
        if wanted != "auto":
            raise
        yield warning(f"{error} Until then a master row in memory may be as old as max_staleness says")
        return
    if is_polled:
        yield ok("update times are polled: rows that change are forgotten within seconds, rows that go are not seen")
    else:
        yield ok("the binary log can be followed: rows that change are forgotten at once")
    if lacks and wanted != "poll":
        yield warning(f"to be told of each changed key by the binary log it needs {lacks}")


def dimension(name: str, patient: Patient) -> Iterator[Finding]:
    """As `run` and `explain` ask it: the table against its contract, its indexes, and the memory of the join."""
    contract = patient.plan.dimensions[name]
    with open_master(patient.master, contract) as master:
        for remark in check_dimension(patient.plan, name, master):
            yield warning(remark)
        size = master.statistics()
        index = "a unique index on" if master.unique else "an index on" if master.indexed else "no index on"
        key = ", ".join(part.column for part in contract.natural_key)
        join, memory = patient.plan.join(name), patient.settings.dimensions[name].memory
        yield ok(f"{contract.table} has {size.rows:,} rows and {index} ({key}); {join} can work in {memory}")
        for column, collation in master.collations().items():
            yield ok(_compared(f"{contract.table}.{column}", collation))


def _compared(column: str, collation: str) -> str:
    if collation.endswith(("_bin", "binary")):
        return f"{column} is compared by its bytes, here and on the server"
    return f"{column}: keys are equal here if their bytes are; the server, by {collation}, takes others for equal too"


def _found(patient: Patient) -> ServerFacts:
    assert patient.server is not None, f"is asked only behind {SERVER!r}"
    return patient.server
