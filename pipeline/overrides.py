"""`-s key=value`: one value of the config, by its dotted path."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from pipeline.config_errors import ConfigError

Origins = Mapping[str, Sequence[int]]  # section -> for each of its entries, the place of the one that it comes from
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


def split_overrides(values: dict[str, Any], overrides: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those that name a section as it stands in the file, swept (`h-{bits}.rounds=2`) or not, and the others."""
    names = {str(entry.get("name")) for section in NAMED for entry in _listed(values.get(section)) if _is_table(entry)}
    before = tuple(override for override in overrides if _part(override) in names)
    return before, tuple(override for override in overrides if override not in before)


def refuse_swept(values: dict[str, Any], made: dict[str, Any], origins: Origins, overrides: tuple[str, ...]) -> None:
    """Raises ConfigError for an override of a key whose value the name of its section says.

    values, made  the config as in the file and without its sweeps; origins  where the sections of `made` come from
    """
    swept: dict[str, set[str]] = {}
    for section, places in origins.items():
        for entry, place in zip(made[section], places, strict=True):
            source = values[section][place]
            if isinstance(source, dict) and isinstance(own := source.get("sweep", {}), dict):
                curves = (key for key, value in source.items() if isinstance(value, list) and entry.get(key) != value)
                swept[str(entry.get("name"))] = {*own, *curves}
    for override in overrides:
        key = override.partition("=")[0].strip().rpartition(".")[2]
        if key in swept.get(_part(override), set()):
            what = f"-s {override}: {key} is swept, and the name says its value"
            raise ConfigError(what, "-s", "change the sweep in the file, or make a section of another name")


def _part(override: str) -> str:
    """The encoding or model that an override names."""
    path = override.partition("=")[0].strip().rpartition(".")[0]
    section, _, name = path.partition(".")
    return name if section in NAMED and name else path


def _place(values: dict[str, Any], keys: list[str], override: str) -> tuple[dict[str, Any], str]:
    named = {
        str(entry["name"]): entry
        for section in NAMED
        for entry in _listed(values.get(section))
        if _is_table(entry) and "name" in entry
    }
    part, key = _part(override), keys[-1]
    if len(keys) == 1:
        return values, key
    if part in named:
        return named[part], key
    if len(keys) == 2 and part in PLAIN:
        section = values.setdefault(part, {})
        if not isinstance(section, dict):
            raise ConfigError(f"-s {override}: {part} is {section!r}, no section", "-s", f"write it as [{part}]")
        return section, key
    known, first = ", ".join([*PLAIN, *named]), part.partition(".")[0]
    raise ConfigError(f"-s {override}: {first!r} names no part of the config", "-s", f"known parts: {known}")


def _is_table(entry: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(entry, dict)


def _listed(section: Any) -> list[Any]:
    return section if isinstance(section, list) else []


def _value(literal: str) -> Any:
    try:
        return tomllib.loads(f"value = {literal}")["value"]
    except tomllib.TOMLDecodeError:
        return literal  # a bare word is a string
