"""With `master.tls_ca` the connection is encrypted, and no server is spoken to whose certificate that authority has not
signed for the host that was named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from pipeline.errors import MasterReadFailed
from pipeline.laptop.stack.database import Database
from pipeline.laptop.stack.stack import start_on_free_ports
from pipeline.master.mysql import drivers
from tests.kit.master_fixtures import Server, dimension
from tests.kit.mysql_server import asked_for

pytestmark = pytest.mark.mysql
# Two authorities, and two certificates that the first one has signed: `server` for 127.0.0.1, `elsewhere` for another
# host.
CERTIFICATES = Path(__file__).parent / "certificates"
CONTRACT = dimension({"n": "int64"})
KEYS = pa.array([1, 2, 3])


class SecureDatabase(Database):
    """The server with a certificate of its own."""

    certificate = "server"

    def command(self) -> list[str]:
        chosen = CERTIFICATES / self.certificate
        return [*super().command(), f"--ssl-cert={chosen}.pem", f"--ssl-key={chosen}.key"]


@pytest.fixture(scope="module")
def presenting(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Iterator[Server]]:
    database = SecureDatabase(tmp_path_factory.mktemp("secure"), supervised=True, program=asked_for)

    @contextmanager
    def started(certificate: str) -> Iterator[Server]:
        database.certificate = certificate
        start_on_free_ports(database)
        try:
            server = Server(SimpleNamespace(database=database), "master")
            if not server.execute("SHOW TABLES LIKE 't'"):
                server.table("n INT", [(1,), (2,)])
            yield server
        finally:
            database.stop()

    return started


def test_a_certificate_that_the_authority_signed_for_this_host_is_accepted(presenting):
    with presenting("server") as server:
        master = server.master(CONTRACT, tls_ca=str(CERTIFICATES / "authority.pem"))
        assert master.lookup(KEYS)["key"].to_pylist() == [1, 2]
        [(_, protocol)] = drivers.ask(server.opened[0], "SHOW SESSION STATUS LIKE 'Ssl_version'")
        assert protocol.startswith(b"TLSv1.")
        master.close()


@pytest.mark.parametrize(
    ("certificate", "authority", "said"),
    [
        ("server", "stranger", "certificate verify failed"),
        ("elsewhere", "authority", "IP address mismatch"),
    ],
    ids=["signed by another authority", "signed for another host"],
)
def test_any_other_certificate_is_refused_at_once_and_no_password_is_sent(presenting, certificate, authority, said):
    with presenting(certificate) as server:
        master = server.master(CONTRACT, tls_ca=str(CERTIFICATES / f"{authority}.pem"))
        with pytest.raises(MasterReadFailed, match=said) as refused:
            master.lookup(KEYS)
        assert master.reads.by_kind["lookup"].failures + master.reads.by_kind["describe"].failures == 1
        assert "tls_ca" in str(refused.value)
        master.close()
