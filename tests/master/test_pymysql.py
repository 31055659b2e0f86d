"""What is used of pymysql without being documented, each named here: another version may have changed it.

All of it stands in `pipeline/master/mysql/session.py`; that the socket is the encrypted one, if the session is, is
shown by test_master_tls.py.
"""

from __future__ import annotations

import ast
import socket
import time
from importlib.metadata import version
from pathlib import Path

import pymysql
import pymysql.connections
import pytest
from pymysql.constants import CLIENT

from pipeline.laptop.stack import ports
from pipeline.master.mysql import drivers
from pipeline.master.mysql.session import Address, Session, beneath, lacks_rsa, refusal
from pipeline.master.mysql.wire import Wire
from tests.kit.master_fixtures import Server

PIPELINE = Path(__file__).parents[2] / "pipeline"
SESSION = PIPELINE / "master" / "mysql" / "session.py"
DOCUMENTED = {"constants", "cursors"}  # modules of pymysql beside its top level
# Bits by which a client asks for answers of another form than wire.py reads.
OTHER_ANSWERS = {
    "COMPRESS": 5,
    "DEPRECATE_EOF": 24,
    "OPTIONAL_RESULTSET_METADATA": 25,
    "ZSTD": 26,
    "QUERY_ATTRIBUTES": 27,
}


def still(holds: object, what: str, why: str) -> None:
    if not holds:
        pytest.fail(f"pymysql {version('pymysql')}: {what} is not as it was. {why} Mend {SESSION.name} for it.")


def address(port: int, user: str = "", password: str = "", database: str = "") -> Address:
    return Address("127.0.0.1", port, user, password, database, None, connect_timeout=5, read_timeout=5)


@pytest.fixture
def session(stack, master_database):
    at = Server(stack, master_database).settings
    opened = Session(address(at.port, at.user, str(at.password), at.database))
    yield opened
    opened.close()


def sessions(stack) -> set[int]:
    with stack.database.connect("admin", None) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT ID FROM information_schema.PROCESSLIST")
        return {int(number) for (number,) in cursor.fetchall()}


@pytest.mark.mysql
def test_connection_sock_is_the_socket_to_the_server(session, stack):
    connected = getattr(session._session, "_sock", None)
    still(isinstance(connected, socket.socket), "Connection._sock", "Reads go over this socket, without pymysql.")
    still(
        connected.getpeername() == ("127.0.0.1", stack.database.port),
        "Connection._sock",
        "It must be connected to the server itself.",
    )
    assert session.socket is connected


@pytest.mark.mysql
def test_after_the_log_in_nothing_is_under_way_and_answers_have_the_form_that_is_read(session):
    wire = Wire(session.socket, timeout=5)
    for number in range(3):
        wire.send(f"SELECT {number}, NULL UNION ALL SELECT 7, 'x' ORDER BY 1")
        still(
            sorted(drivers.as_rows(wire.receive())) == sorted([(b"%d" % number, None), (b"7", b"x")]),
            "the session after the log-in",
            "The first statement's answer must be the first thing to be read, in the text protocol with its end marks.",
        )


@pytest.mark.mysql
def test_close_ends_a_session_whose_socket_was_used_by_somebody_else(stack, master_database):
    at = Server(stack, master_database).settings
    driver = drivers.SocketDriver(address(at.port, at.user, str(at.password), at.database))
    [(number,)] = drivers.ask(driver, "SELECT CONNECTION_ID()")
    assert int(number) in sessions(stack)
    driver.close()
    deadline = time.monotonic() + 30
    while int(number) in sessions(stack):
        still(time.monotonic() < deadline, "Connection.close()", "The server's session must end with ours.")


def test_an_error_at_connecting_has_a_number_and_knows_what_is_beneath_it():
    [nobody] = ports.choose(1)
    with pytest.raises(pymysql.OperationalError) as refused:
        Session(address(nobody))
    error = refused.value
    still(error.args[0] == 2003, "the number of an error", "By it is told which faults pass.")
    still(
        isinstance(beneath(error), ConnectionRefusedError),
        "OperationalError.original_exception",
        "By it is told that a server's certificate is not trusted, which no patience mends.",
    )


def test_a_log_in_without_the_package_for_rsa_is_told_by_the_packages_name(monkeypatch):
    from pymysql import _auth

    still(
        hasattr(_auth, "_have_cryptography") and hasattr(_auth, "sha2_rsa_encrypt"),
        "the log-in with RSA",
        "Where the package for it is missing, a session is opened with TLS instead.",
    )
    monkeypatch.setattr(_auth, "_have_cryptography", False)
    with pytest.raises(Exception) as missing:  # noqa: PT011 which one is what is asked
        _auth.sha2_rsa_encrypt(b"secret", b"salt", b"key")
    still(lacks_rsa(missing.value), "the error without 'cryptography'", "It is known by that word.")


@pytest.mark.parametrize("form", OTHER_ANSWERS)
def test_no_answers_of_another_form_are_asked_for(form):
    still(
        not CLIENT.CAPABILITIES & 1 << OTHER_ANSWERS[form],
        f"CLIENT.CAPABILITIES ({form})",
        "wire.py reads the plain text protocol, in which an end mark stands behind columns and rows.",
    )


@pytest.mark.parametrize(
    ("packet", "number", "text"),
    [
        (b"\xff\x28\x04#42000You have an error", 1064, "You have an error"),
        (b"\xff\xd0\xfeToo many of \xff", 65232, "Too many of \ufffd"),
    ],
)
def test_a_servers_refusal_is_an_error_of_pymysql_with_number_and_text(packet, number, text):
    error = refusal(packet)
    assert isinstance(error, pymysql.MySQLError)
    assert error.args == (number, text)


def test_nothing_else_of_pymysql_is_used_that_is_not_documented():
    hidden = {name for name in vars(pymysql.connections.Connection) if name[0] == "_" and name[1] != "_"}
    hidden |= {name for name in vars(pymysql.connections.Connection(defer_connect=True)) if name[0] == "_"}
    assert {"_rfile", "_sock"} <= hidden
    found = []
    for file in PIPELINE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            used = None
            if isinstance(node, ast.Attribute) and not _is_own(node):
                used = node.attr if node.attr in hidden else None
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pymysql."):
                used = None if node.module.split(".")[1] in DOCUMENTED else node.module
            elif isinstance(node, ast.Import):
                names = [name.name for name in node.names if name.name.startswith("pymysql.")]
                used = next((name for name in names if name.split(".")[1] not in DOCUMENTED), None)
            elif isinstance(node, ast.Constant) and node.value == "original_exception":
                used = node.value
            if used:
                found.append((file.name, used))
    assert sorted(found) == [(SESSION.name, "_sock"), (SESSION.name, "original_exception")]


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
