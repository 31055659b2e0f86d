"""A real MySQL server for the tests, without root: Debian's own package, unpacked into the cache.

It comes with every library it needs down to the C library, and is started through that C library's loader, so the
machine's own libraries do not matter. apt does the fetching and checks the signatures, in a state folder of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from pipeline.local import cache
from pipeline.local.database_programs import DatabaseProgram, mysql
from pipeline.local.process import ServerFailed

_PACKAGE = "mysql-server-core"
_SUITE = "sid"  # no stable Debian has MySQL
_KEYRINGS = Path("/usr/share/keyrings")
_TOOLS = ("apt-get", "dpkg-deb", "dpkg")
_ELSE = "Install MySQL 8 or newer, so that `mysqld` is on the PATH."


def from_debian() -> DatabaseProgram:
    """MySQL from Debian's archive, fetched and unpacked once."""
    home = cache.folder("servers") / f"{_PACKAGE}-{_SUITE}"
    with cache.locked("servers"):
        if not home.exists():
            if missing := [tool for tool in _TOOLS if not shutil.which(tool)]:
                raise ServerFailed(f"mysql: no mysqld on the PATH, and no {missing[0]} to fetch one with. {_ELSE}")
            with cache.scratch(home.parent) as folder:
                _fetch(folder, folder / "root")
                (folder / "root").rename(home)
    return _program(home)


def _program(home: Path) -> DatabaseProgram:
    libraries = next((home / "usr" / "lib").glob("*-linux-gnu*"))
    loader = next(libraries.glob("ld-linux*.so.*"))
    server = home / "usr" / "sbin" / "mysqld"
    # The loader takes the program and the place of its libraries as arguments; --argv0 would hide where it lies.
    started = (str(loader), "--library-path", str(libraries), str(server))
    share, plugins = home / "usr" / "share" / "mysql", home / "usr" / "lib" / "mysql" / "plugin"
    return mysql(
        started,
        f"--basedir={home / 'usr'}",
        f"--lc-messages-dir={share}",
        f"--character-sets-dir={share / 'charsets'}",
        f"--plugin-dir={plugins}",
    )


def _fetch(folder: Path, root: Path) -> None:
    print(f"millrace: fetching {_PACKAGE} from Debian {_SUITE} ...", flush=True)
    state, archives = folder / "state", folder / "archives"
    for made in (root, state / "lists" / "partial", archives / "partial"):
        made.mkdir(parents=True)
    (state / "status").touch()  # nothing is installed: so everything it needs is fetched
    keyring = next(iter(sorted(_KEYRINGS.glob("debian-archive-keyring.*"))), None)
    signed_by = f"[signed-by={keyring}] " if keyring else ""
    (state / "sources.list").write_text(f"deb {signed_by}{_mirror()} {_SUITE} main\n")
    apt = [
        "apt-get",
        *_options(
            ("Dir::State", state),
            ("Dir::State::lists", state / "lists"),
            ("Dir::State::status", state / "status"),
            ("Dir::Cache", folder),
            ("Dir::Cache::archives", archives),
            ("Dir::Etc::sourcelist", state / "sources.list"),
            ("Dir::Etc::sourceparts", state / "none"),
            ("Dir::Etc::preferencesparts", state / "none"),
            ("Acquire::Languages", "none"),
            # A mirror that lags is good enough for a test server; its signatures are checked all the same.
            ("Acquire::Check-Valid-Until", "false"),
            # As root, apt would drop to an account that may not enter the cache folder.
            *([("APT::Sandbox::User", "root")] if os.geteuid() == 0 else []),
        ),
    ]
    _run([*apt, "update"])
    _run([*apt, "--yes", "--no-install-recommends", "--download-only", "install", _PACKAGE])
    for package in sorted(archives.glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(root)])


def _options(*pairs: tuple[str, object]) -> list[str]:
    return [word for key, value in pairs for word in ("-o", f"{key}={value}")]


def _mirror() -> str:
    """The machine's own Debian mirror, as apt is set up for it."""
    listed = _run(["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"])
    for line in listed.splitlines():
        origin, _, uri = line.rpartition(" ")
        path = urlsplit(uri).path.rstrip("/")
        if path.endswith("/debian") or (origin.strip() == "Debian" and "security" not in path):
            return uri
    raise ServerFailed(f"mysql: no mysqld on the PATH, and apt here has no Debian mirror to fetch one from. {_ELSE}")


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise ServerFailed(f"mysql: could not be fetched ({' '.join(command[:1])} failed). {_ELSE} It said:\n{said}")
    return done.stdout
