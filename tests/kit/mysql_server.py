"""A real MySQL server for the tests: the one on the PATH, or Debian's own package."""

from __future__ import annotations

import os

from pipeline.laptop.stack import database_programs
from pipeline.laptop.stack.database_programs import DatabaseProgram, mysql
from tests.kit import debian

_REMEDY = "Install MySQL 8 or newer, so that `mysqld` is on the PATH."


def asked_for() -> DatabaseProgram:
    """What the embedded stack would run; a MySQL that is asked for and not installed is fetched."""
    return real_mysql() if os.environ.get(database_programs.CHOICE) == "mysql" else database_programs.choose()


def real_mysql() -> DatabaseProgram:
    installed = database_programs.on_path()
    return installed if installed and installed.kind == "mysql" else from_debian()


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
