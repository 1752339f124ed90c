"""docker-compose.yml as compose reads it: merges resolved, ${...} filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker-compose.yml"
WRITTEN = {  # as deploy/prepare writes them
    "LABELGROVE_SHARE": "/data/share",
    "LABELGROVE_CERTIFICATES": "/data/certificates",
    "LABELGROVE_UID": "1234",
    "LABELGROVE_GID": "1234",
}


def services(values: Mapping[str, str] = WRITTEN) -> dict[str, dict[str, Any]]:
    """The services with these variables; raises KeyError for one that must be set and is not."""
    found: dict[str, dict[str, Any]] = filled(yaml.safe_load(FILE.read_text(encoding="utf-8"))["services"], values)
    return found


def filled(value: Any, values: Mapping[str, str]) -> Any:
    """With ${NAME}, ${NAME:-default} and ${NAME:?error} replaced, and $$ as it is."""
    if isinstance(value, dict):
        return {key: filled(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, values) for inner in value]
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        return values[name] if default is None or default.startswith(":?") else values.get(name, default[2:])

    return re.sub(r"\$\{(\w+)(:[-?][^}]*)?\}", fill, value)
