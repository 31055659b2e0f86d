"""Where the files shipped beside the code lie: in a clone next to `pipeline/`, in a wheel inside it."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_SHIPPED = _PACKAGE / "_resources"


def schemas() -> Path:
    """The folder of the shipped contracts."""
    return _SHIPPED / "schemas" if _SHIPPED.is_dir() else _PACKAGE.parent / "schemas"


def job(name: str) -> Path:
    """A shipped program of `jobs/`, for spark-submit."""
    return (_SHIPPED if _SHIPPED.is_dir() else _PACKAGE.parent) / "jobs" / name


def deployed(name: str) -> Path:
    """A shipped file of `deploy/`: `reference.toml`, `jars.lock`, `spark/submit.sh`."""
    return _SHIPPED / name if _SHIPPED.is_dir() else _PACKAGE.parent / "deploy" / name
