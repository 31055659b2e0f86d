"""A real MySQL server for the tests, from Debian's own package."""

from __future__ import annotations

from pipeline.laptop.stack import debian
from pipeline.laptop.stack.database_programs import DatabaseProgram, mysql

_REMEDY = "Install MySQL 8 or newer, so that `mysqld` is on the PATH."


def from_debian() -> DatabaseProgram:
    """MySQL from Debian's archive, fetched and unpacked once."""
    package = debian.unpack(["mysql-server-core"], _REMEDY)
    share, plugins = package.root / "usr" / "share" / "mysql", package.root / "usr" / "lib" / "mysql" / "plugin"
    return mysql(
        package.started("usr/sbin/mysqld"),
        f"--basedir={package.root / 'usr'}",
        f"--lc-messages-dir={share}",
        f"--character-sets-dir={share / 'charsets'}",
        f"--plugin-dir={plugins}",
    )
