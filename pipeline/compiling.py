"""How the inner loops are compiled, and where what was compiled is kept."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

_HERE = Path(__file__).parent
_SHIPPED = _HERE / "compiled"


def _place() -> Path | None:
    """Where what was compiled is kept, if not beside this file."""
    if os.access(_SHIPPED if _SHIPPED.is_dir() else _HERE, os.W_OK):
        return _SHIPPED if _SHIPPED.is_dir() else None
    # What lies there is run: it must be a folder of ours, closed to others, and whole as soon as it is there.
    own = Path(tempfile.gettempdir()) / f"millrace-compiled-{os.getuid()}"
    with contextlib.suppress(OSError):
        if not own.exists():
            unfinished = Path(tempfile.mkdtemp(prefix=f"{own.name}-"))
            try:
                if _SHIPPED.is_dir():
                    shutil.copytree(_SHIPPED, unfinished, dirs_exist_ok=True)
                    unfinished.chmod(0o700)
                unfinished.rename(own)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)  # where another process was first
    known = own.is_dir() and own.lstat().st_uid == os.getuid() and stat.S_IMODE(own.lstat().st_mode) == 0o700
    return own if known else None


os.environ.setdefault("NUMBA_CPU_NAME", "generic")
if "NUMBA_CACHE_DIR" not in os.environ and (_own := _place()) is not None:
    os.environ["NUMBA_CACHE_DIR"] = str(_own)

import numba as numba  # noqa: E402  # it reads its settings when it is loaded, so it is had from here

# No place to keep it, or what is kept there is cut off or spoilt.
_NOT_KEPT = (OSError, RuntimeError, EOFError, pickle.UnpicklingError, ValueError, AttributeError, ImportError)

F = TypeVar("F", bound=Callable[..., Any])


def compiled(signature: Any) -> Callable[[F], F]:
    """A loop for arguments of these types, compiled when it is defined."""

    def compile(function: F) -> F:
        loop: F
        try:
            loop = numba.njit(signature, cache=True, nogil=True)(function)
        except _NOT_KEPT:
            loop = numba.njit(signature, nogil=True)(function)
        return loop

    return compile


def part(function: F) -> F:
    """A piece of the others. Indices are made numbers without a sign: else each is asked whether it is negative."""
    inlined: F = numba.njit(function, inline="always")
    return inlined


def piece(function: F) -> F:
    """A piece of the others that is compiled once, with each of them, and called or not as the compiler finds best."""
    bare: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # nobody calls it from Python
    one: F = numba.njit(function, error_model="numpy", **bare)
    return one
