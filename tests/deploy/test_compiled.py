"""The compiled loops where their own folder cannot be written: in an image, in an archive, without a home."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pipeline
from tests.kit.disks import disk

pytestmark = pytest.mark.slow  # to compile takes seconds

LOOPS = "import numpy as np; from pipeline.joins.parts import inner_loops; from pipeline.parse.loops import scan; "
SAY = LOOPS + "print(inner_loops.__file__, inner_loops.chain(1, np.array([-1, 0], np.int32)).tolist())"
CODE = Path(pipeline.__file__).parent


def loops(where: Path, temporary: Path, before: str = "") -> str:
    environment = {**os.environ, "PYTHONPATH": str(where), "HOME": "/nonexistent", "TMPDIR": str(temporary)}
    command = [sys.executable, "-P", "-c", before + SAY]
    return subprocess.run(command, env=environment, cwd="/", check=True, capture_output=True, text=True).stdout


def copy(into: Path) -> Path:
    return shutil.copytree(CODE, into / "pipeline", ignore=shutil.ignore_patterns("__pycache__", "compiled")).parent


def test_from_an_archive_without_a_home_they_are_compiled_anew(tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "millrace"), "zip", copy(tmp_path / "code"))
    assert loops(Path(archive), tmp_path).startswith(f"{archive}/pipeline/joins")


def test_what_was_kept_and_is_spoilt_is_compiled_anew(tmp_path: Path) -> None:
    code = copy(tmp_path / "code")
    loops(code, tmp_path)
    kept = [*(code / "pipeline").rglob("__pycache__/*.nb?")]
    assert {file.parents[1].name for file in kept} == {"parts", "loops"}
    for number, file in enumerate(sorted(kept)):  # of some loops index and code are cut off, of others nonsense
        file.write_bytes((b"", b"nonsense")[number // 2 % 2])
    assert loops(code, tmp_path).endswith("[1, 0]\n")


def test_a_read_only_image_brings_them_along_and_a_second_process_finds_them(tmp_path: Path) -> None:
    """Compiled at the build into `compiled/`, by the words of deploy/docker/build.sh."""
    code, temporary = tmp_path / "image", tmp_path / "tmp"
    temporary.mkdir()
    with disk(code, "size=64m") as image:
        copy(image.seen(code))
        compiled = code / "pipeline/compiled"
        image.seen(compiled).mkdir()
        built = f"import sys; sys.path.insert(0, {str(code)!r}); {LOOPS}"
        subprocess.run(
            image.command("env", f"NUMBA_CACHE_DIR={compiled}", sys.executable, "-P", "-c", built), check=True, cwd="/"
        )
        image.remount("ro")
        from_cache = "print(*[sum(loop.stats.cache_hits.values()) for loop in (inner_loops.find, scan.scan)])"
        say = f"import sys; sys.path.insert(0, {str(code)!r}); {SAY}; {from_cache}"
        for _ in range(2):
            words = ["env", f"TMPDIR={temporary}", "HOME=/nonexistent", sys.executable, "-P", "-c", say]
            done = subprocess.run(image.command(*words), capture_output=True, text=True, check=True, cwd="/")
            assert done.stdout == f"{code}/pipeline/joins/parts/inner_loops.py [1, 0]\n1 1\n", (
                "they were compiled again"
            )
        [kept] = temporary.iterdir()
        assert kept.stat().st_mode & 0o777 == 0o700
