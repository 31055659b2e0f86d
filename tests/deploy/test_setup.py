"""Set-up on a machine that lacks something: one sentence, the remedy in it, and nothing half done."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_TOOLS = ("sh", "cat", "cksum", "dirname", "grep", "head", "mkdir", "mv", "rm", "sed", "tr")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files set-up reads, and a folder `bin` that is the whole PATH."""
    (tmp_path / "bin").mkdir()
    for tool in _TOOLS:
        found = shutil.which(tool)
        assert found, tool
        (tmp_path / "bin" / tool).symlink_to(found)
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def _python_that(clone: Path, *lines: str) -> None:
    program = clone / "bin" / "python3"
    program.write_text("\n".join(["#!/bin/sh", *lines, "exit 0", ""]))
    program.chmod(0o755)


def _set_up(clone: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(clone / "bin"), "HOME": str(clone), "MILLRACE_CACHE": str(clone / "cache")}
    return subprocess.run(
        ["sh", str(clone / "deploy" / "setup.sh")], env=environment, capture_output=True, text=True, check=False
    )


def test_a_python_that_is_too_old_is_named_with_what_is_needed(clone: Path) -> None:
    _python_that(clone, 'case "$1" in --version) echo "Python 3.9.18";; -c) exit 1;; esac')
    done = _set_up(clone)
    assert done.returncode == 1
    assert re.fullmatch(r"millrace: Python 3\.10 or newer is needed and Python 3\.9\.18 was found; .+\n", done.stderr)


def test_no_python_at_all_is_said_in_the_same_sentence(clone: Path) -> None:
    done = _set_up(clone)
    assert done.returncode == 1
    assert re.fullmatch(r"millrace: Python 3\.10 or newer is needed and no Python 3 was found; .+\n", done.stderr)


def test_a_python_without_venv_is_answered_with_how_to_get_it(clone: Path) -> None:
    _python_that(clone, 'case "$*" in --version) echo "Python 3.12.1";; *ensurepip*) exit 1;; esac')
    done = _set_up(clone)
    assert done.returncode == 1
    assert (
        "has no venv module; install it (Debian and Ubuntu: apt install python3-venv)" in done.stderr.splitlines()[-1]
    )
    assert not (clone / ".venv").exists()


@pytest.mark.slow
def test_a_new_clone_is_set_up_from_the_cache_without_a_network_wherever_it_lies(tmp_path: Path) -> None:
    clone = tmp_path / "Zoé's clone, 5"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    for folder in ("deploy", "pipeline"):  # as they are here, committed or not
        shutil.copytree(ROOT / folder, clone / folder, dirs_exist_ok=True)
    nowhere = "http://127.0.0.1:9"  # the port that discards: nobody listens
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
    environment = {**os.environ, **dict.fromkeys(proxies, nowhere), "NO_PROXY": "", "no_proxy": ""}
    done = subprocess.run([str(clone / "deploy" / "setup.sh")], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for locale in ("C", "C.UTF-8"):
        program = [str(clone / ".venv" / "bin" / "millrace"), "explain", "--offline"]
        said = subprocess.run(program, env={**os.environ, "LC_ALL": locale}, capture_output=True, text=True, cwd=clone)
        assert said.returncode == 0, said.stderr
        assert f"{clone}/.millrace/warehouse" in said.stdout


def test_help_lists_every_target() -> None:
    listed = subprocess.run(["make", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True).stdout
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"make ([a-z-]+) ", listed)) == set(targets)
    assert {"demo", "test", "test-mysql", "bench", "lint", "setup", "clean"} <= set(targets)
