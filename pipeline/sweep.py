"""Sweeps: a section of a config that stands for several, one for each value of the keys that it sweeps.

    [[train]]
    name = "heshing-{bits}"
    kind = "heshing"
    sweep = { bits = [12, 14, 16] }

Several keys give every combination. A section whose `rows` (or `test_rows`) are those of a swept encoding, braces and
all, is swept along with it. `rho = [0.5, 0.6]` is a sweep as well, of models called `NAME-0.5` and `NAME-0.6`: a curve.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.config_errors import ConfigError
from pipeline.overrides import Origins

SECTIONS = ("encode", "train", "retrieve")
MOST = 2000  # sections that one may stand for
READS = ("rows", "test_rows")
CURVES = ("rho", "alpha", "levels", "doubt")  # keys that may be a list of their own: a model for each
Combination = dict[str, Any]  # swept key -> value


def expand(values: dict[str, Any], where: str) -> tuple[dict[str, Any], Origins]:
    """The config without sweeps, and where each section comes from. Raises ConfigError."""
    expanded, origins = dict(values), dict[str, list[int]]()
    swept: dict[str, list[Combination]] = {}  # encodings, by the name that stands in the file
    for section in SECTIONS:
        entries = values.get(section)
        if not isinstance(entries, list):
            continue
        made: list[Any] = []
        origins[section] = []
        for place, entry in enumerate(_as_sweep(entry, where) for entry in entries):
            copies = [entry] if not isinstance(entry, dict) else list(_copies(entry, swept, section, where))
            if section == "encode" and isinstance(entry, dict) and copies != [entry]:
                swept[str(entry.get("name"))] = _combinations(entry, swept, section, where)
            made += copies
            origins[section] += [place] * len(copies)
        expanded[section] = made
    return expanded, origins


def _as_sweep(entry: Any, where: str) -> Any:
    """A section whose curve is written as a list, as the sweep that it stands for. Raises ConfigError."""
    curves = {key: entry[key] for key in CURVES if isinstance(entry.get(key), list)} if isinstance(entry, dict) else {}
    if not curves or not isinstance(own := entry.get("sweep", {}), dict):
        return entry
    for key, values in curves.items():
        if not values or any(value in values[:i] for i, value in enumerate(values)) or key in own:
            what = f"train {entry.get('name', '')!r}: {key} = {values!r}"
            raise ConfigError(what, where, f"write one number, or once several different ones: {key} = [0.3, 0.5]")
    rest = {key: value for key, value in entry.items() if key not in curves}
    name = str(entry.get("name", ""))
    name += "".join(f"-{{{key}}}" for key in curves if f"{{{key}}}" not in name)
    return rest | {"name": name, "sweep": {**own, **curves}}


def _copies(
    entry: dict[str, Any], swept: Mapping[str, list[Combination]], section: str, where: str
) -> Iterator[dict[str, Any]]:
    own = entry.get("sweep", {})
    combinations = _combinations(entry, swept, section, where)
    name = entry.get("name", "")
    for key in {key for one in combinations for key in one}:
        if f"{{{key}}}" not in str(name) and len({repr(one[key]) for one in combinations}) > 1:
            what = f"{section} {name!r} is swept over {key}: its name must say so"
            raise ConfigError(what, where, f'for example name = "{name}-{{{key}}}"')
    for one in combinations:
        copy = {key: _filled(value, one) for key, value in entry.items() if key != "sweep"}
        yield copy | {key: one[key] for key in own}


def _combinations(
    entry: dict[str, Any], swept: Mapping[str, list[Combination]], section: str, where: str
) -> list[Combination]:
    """Every combination of the entry's own keys with those of the encodings that it reads."""
    own = entry.get("sweep", {})
    name = entry.get("name", "")
    if not isinstance(own, dict) or not all(isinstance(found, list) and found for found in own.values()):
        what = f"{section} {name!r}: sweep is {own!r}"
        raise ConfigError(what, where, "write keys with lists of values: sweep = { bits = [12, 14, 16] }")
    ways: list[list[Combination]] = [[{key: value} for value in found] for key, found in own.items()]
    read = [rows for rows in dict.fromkeys(str(entry.get(key)) for key in READS) if rows in swept]
    for rows in read:
        if clash := own.keys() & swept[rows][0].keys():
            what = f"{section} {name!r} sweeps {', '.join(sorted(clash))}, and so does {rows!r}, which it reads"
            raise ConfigError(what, where, "a key can be swept in one of them: write the sections of the other")
    ways += [swept[rows] for rows in read]
    joined: list[Combination] = [{}]
    for way in ways:
        joined = [one | two for one, two in itertools.product(joined, way) if _agree(one, two)]
        if len(joined) > MOST:
            what = f"{section} {name!r} stands for more than {MOST:,} sections"
            raise ConfigError(what, where, "sweep fewer values")
    if not joined:
        what = f"{section} {name!r} reads {' and '.join(map(repr, read))}, swept over values that never agree"
        raise ConfigError(what, where, "sweep both over the same values")
    return joined


def _agree(one: Combination, two: Combination) -> bool:
    return all(one[key] == two[key] for key in one.keys() & two.keys())


def _filled(value: Any, one: Combination) -> Any:
    """Text with {key} replaced by the key's value; 1e+30 is no name."""
    if not isinstance(value, str):
        return value
    return re.sub(r"\{(\w+)\}", lambda found: str(one.get(found[1], found[0])).replace("e+", "e"), value)
