"""docker-compose.yml as its tests read it, and its health checks as commands to run here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def mounts(service: str) -> dict[str, str]:
    """Where in the container -> what of the clone, or the name of a volume."""
    parts = [volume.split(":") for volume in SERVICES[service].get("volumes", [])]
    return {part[1]: part[0] for part in parts}


def health_check(service: str) -> list[str]:
    """The command as the engine would run it: `$$` is Compose's way to write `$`."""
    kind, *command = SERVICES[service]["healthcheck"]["test"]
    words = [word.replace("$$", "$") for word in command]
    return ["sh", "-c", *words] if kind == "CMD-SHELL" else words
