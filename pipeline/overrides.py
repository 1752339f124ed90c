"""`-s key=value`: one value of the config, by its dotted path."""

from __future__ import annotations

import tomllib
from typing import Any

from pipeline.config_errors import ConfigError

PLAIN, NAMED = ("data", "predict", "evaluate", "report"), ("encode", "train", "retrieve")  # sections


def apply_overrides(values: dict[str, Any], overrides: tuple[str, ...]) -> None:
    """Set each `path=value` in place; an encoding or a model is named by its name (`tree.depth=3`).

    Raises ConfigError when there is no `=`, or the path names nothing of the config. A key that no section knows is
    found later, with the rest of the config.
    """
    for override in overrides:
        path, equals, literal = override.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise ConfigError(f"-s {override}: expected path=value", "-s", "for example -s tree.depth=3")
        target, key = _place(values, keys, override)
        target[key] = _value(literal.strip())


def _place(values: dict[str, Any], keys: list[str], override: str) -> tuple[dict[str, Any], str]:
    named = {
        str(entry["name"]): entry
        for section in NAMED
        for entry in _listed(values.get(section))
        if isinstance(entry, dict) and "name" in entry
    }
    if keys[0] in NAMED and len(keys) == 3:
        keys = keys[1:]
    if len(keys) == 1:
        return values, keys[0]
    if len(keys) == 2 and keys[0] in named:
        return named[keys[0]], keys[1]
    if len(keys) == 2 and keys[0] in PLAIN:
        section = values.setdefault(keys[0], {})
        if not isinstance(section, dict):
            raise ConfigError(f"-s {override}: {keys[0]} is {section!r}, no section", "-s", f"write it as [{keys[0]}]")
        return section, keys[1]
    known = ", ".join([*PLAIN, *named])
    raise ConfigError(f"-s {override}: {keys[0]!r} names no part of the config", "-s", f"known parts: {known}")


def _listed(section: Any) -> list[Any]:
    return section if isinstance(section, list) else []


def _value(literal: str) -> Any:
    try:
        return tomllib.loads(f"value = {literal}")["value"]
    except tomllib.TOMLDecodeError:
        return literal  # a bare word is a string
