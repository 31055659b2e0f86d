"""Programs for the tests out of Debian's own packages, without root: unpacked into the cache.

A package comes with every library it needs down to the C library, and its programs are started through that C
library's loader, so the machine's own libraries do not matter. apt does the fetching and checks the signatures, in a
state folder of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pipeline.java import downloads
from pipeline.laptop.stack.process import ServerFailed

SUITE = "sid"  # the one suite that has them all: no stable Debian has MySQL, and bookworm's Prometheus is of 2023
_KEYRINGS = Path("/usr/share/keyrings")
_TOOLS = ("apt-get", "dpkg-deb", "dpkg")


@dataclass(frozen=True)
class Unpacked:
    """Packages in a folder of their own, which is to them what / is to installed ones."""

    root: Path

    def started(self, program: str) -> tuple[str, ...]:
        """The words that start one of their programs, such as `usr/bin/promtool`."""
        libraries = next((self.root / "usr" / "lib").glob("*-linux-gnu*"))
        loader = next(libraries.glob("ld-linux*.so.*"))
        # The loader takes the program and the place of its libraries as arguments; --argv0 would hide where it lies.
        return (str(loader), "--library-path", str(libraries), str(self.root / program))


def unpack(packages: Sequence[str], remedy: str) -> Unpacked:
    """These packages and all they need, fetched once. `remedy`: what the user can do if that is not possible."""
    name = packages[0]
    home = downloads.folder("servers") / f"{name}-{SUITE}"
    with downloads.locked("servers"):
        if not home.exists():
            try:
                _make(home, packages)
            except ServerFailed as error:
                raise ServerFailed(f"{name}: not on the PATH, and {error} {remedy}") from error
    return Unpacked(home)


def _make(home: Path, packages: Sequence[str]) -> None:
    if missing := [tool for tool in _TOOLS if not shutil.which(tool)]:
        raise ServerFailed(f"no {missing[0]} is here to fetch it with.")
    with downloads.scratch(home.parent) as folder:
        _fetch(folder, folder / "root", packages)
        (folder / "root").rename(home)


def _fetch(folder: Path, root: Path, packages: Sequence[str]) -> None:
    print(f"millrace: fetching {', '.join(packages)} from Debian {SUITE} ...", file=sys.stderr, flush=True)
    state, archives = folder / "state", folder / "archives"
    for made in (root, state / "lists" / "partial", archives / "partial"):
        made.mkdir(parents=True)
    (state / "status").touch()  # nothing is installed: so everything it needs is fetched
    keyring = next(iter(sorted(_KEYRINGS.glob("debian-archive-keyring.*"))), None)
    signed_by = f"[signed-by={keyring}] " if keyring else ""
    (state / "sources.list").write_text(f"deb {signed_by}{_mirror()} {SUITE} main\n")
    apt = ["apt-get", *_options(folder, state, archives)]
    _run([*apt, "update"])
    _run([*apt, "--yes", "--no-install-recommends", "--download-only", "install", *packages])
    for package in sorted(archives.glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(root)])


def _options(folder: Path, state: Path, archives: Path) -> list[str]:
    options: dict[str, object] = {
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": folder,
        "Dir::Cache::archives": archives,
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": state / "none",
        "Dir::Etc::preferencesparts": state / "none",
        "Acquire::Languages": "none",
        # A mirror that lags is good enough for a test server; its signatures are checked all the same.
        "Acquire::Check-Valid-Until": "false",
    }
    if os.geteuid() == 0:  # apt would drop to an account that may not enter the cache folder
        options["APT::Sandbox::User"] = "root"
    return [word for key, value in options.items() for word in ("-o", f"{key}={value}")]


def _mirror() -> str:
    """The machine's own Debian mirror, as apt is set up for it."""
    listed = _run(["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"])
    for line in listed.splitlines():
        origin, _, uri = line.rpartition(" ")
        path = urlsplit(uri).path.rstrip("/")
        if path.endswith("/debian") or (origin.strip() == "Debian" and "security" not in path):
            return uri
    raise ServerFailed("apt here has no Debian mirror to fetch it from.")


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise ServerFailed(f"it could not be fetched ({command[0]} failed). It said:\n{said}\n")
    return done.stdout
