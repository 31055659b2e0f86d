"""Real disks that are small, full, read-only or closed: mounted in a namespace of their own, gone with the test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# Root passes every closed door; without these two capabilities even root is asked for the permission.
AS_ORDINARY_ROOT = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override"]


class Disk:
    """A file system in memory, mounted where only commands run through `command` see it under its name."""

    def __init__(self, folder: Path, holder: int) -> None:
        self.folder, self._holder = folder, holder

    def command(self, *words: str) -> list[str]:
        """The words as a command that sees the disk."""
        as_mapped_root = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", f"--target={self._holder}", "--mount", *as_mapped_root, *words]

    def python(self, code: str, *arguments: str, ordinary: bool = False) -> str:
        """What a Python program that sees the disk prints."""
        who = AS_ORDINARY_ROOT if ordinary else []
        command = self.command(*who, sys.executable, "-c", code, *arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def remount(self, options: str) -> None:
        # Spelt out: the options it has, which mount would repeat by itself, name an owner that a namespace may not.
        words = ["mount", "-i", "-n", "-t", "tmpfs", "-o", f"remount,{options}", "tmpfs", str(self.folder)]
        subprocess.run(self.command(*words), check=True)

    def seen(self, path: Path) -> Path:
        """The same file as this process can reach it."""
        return Path(f"/proc/{self._holder}/root{path}")


@contextmanager
def disk(folder: Path, options: str) -> Iterator[Disk]:
    """A disk mounted on the folder. As root, or as a user where the system lets users have namespaces."""
    folder.mkdir(parents=True, exist_ok=True)
    as_mapped_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    mounts = f"mount -t tmpfs -o {options} tmpfs '{folder}' && echo mounted && exec cat"
    command = ["unshare", *as_mapped_root, "--mount", "--propagation=private", "sh", "-c", mounts]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stderr
        if holder.stdout.readline() != b"mounted\n":
            pytest.fail(
                f"This test needs a small disk of its own and could not mount one: {holder.stderr.read().decode()}. "
                f"Run it as root, or where users may have namespaces (sysctl kernel.unprivileged_userns_clone=1)."
            )
        try:
            yield Disk(folder, holder.pid)
        finally:
            holder.stdin.close()  # the holder ends, and with it the mount
            holder.wait(30)
