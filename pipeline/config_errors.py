"""Findings in a config: dotted path, line, value, accepted range, nearest known key; all of them at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel, ValidationError

from tasks.errors import UsageError


@dataclass(frozen=True)
class Finding:
    """One thing wrong: `path` as in train[0].depth, `line` of the TOML file or 0, and what is expected."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line else ""
        return f"{place}{self.path}: {self.message}"


class ConfigError(UsageError):
    """The config cannot be used; every finding is listed."""

    @classmethod
    def of(cls, findings: Sequence[Finding], file: str) -> Self:
        lines = "".join(f"\n  {finding}" for finding in findings)
        count = f"{len(findings)} finding" + ("s" if len(findings) > 1 else "")
        return cls(f"{count}{lines}", file, "`labelgrove schema` lists every key")


def findings_of(
    error: ValidationError,
    model: type[BaseModel],
    values: dict[str, Any],
    text: str,
    origins: Mapping[str, Sequence[int]] | None = None,
) -> list[Finding]:
    """What pydantic found, with the line of each and the nearest key for a misspelt one.

    origins  of the entries of a swept section, the place in the text of the one that they come from
    """
    found = (_at_origin(one, text, origins or {}) for one in _findings(error, model, values, text))
    return list(dict.fromkeys(found))


def _at_origin(finding: Finding, text: str, origins: Mapping[str, Sequence[int]]) -> Finding:
    """The finding at the section of the text that its own comes from."""
    placed = re.match(r"(\w+)\[(\d+)\](.*)", finding.path)
    if placed is None or int(placed[2]) >= len(origins.get(placed[1], ())):
        return finding
    section, place = placed[1], origins[placed[1]][int(placed[2])]
    steps = [section, place, *filter(None, placed[3].split("."))]
    return Finding(f"{section}[{place}]{placed[3]}", _line(text, steps), finding.message)


def _findings(error: ValidationError, model: type[BaseModel], values: dict[str, Any], text: str) -> Iterator[Finding]:
    for detail in _of_one_value(error.errors(), values):
        steps = [step for step in detail["loc"] if not _is_tag(step, values, detail["loc"])]
        path = _dotted(steps)
        message = str(detail["msg"]).removeprefix("Value error, ")
        if detail["type"] == "extra_forbidden":
            message = "no such key" + _nearest(str(steps[-1]), _siblings(model, detail["loc"]))
        elif detail["type"] == "union_tag_invalid":
            context = detail.get("ctx", {})
            tags = re.findall(r"'([^']*)'", str(context.get("expected_tags", "")))
            path, steps = f"{path}.kind", [*steps, "kind"]
            message = f"no such kind {context.get('tag')!r}" + _nearest(str(context.get("tag")), tags)
        elif detail["type"] not in ("missing", "value_error"):
            message += f" (it is {detail['input']!r})"
        for one in message.splitlines() or [message]:
            yield Finding(path or "config", _line(text, steps), one)


def _of_one_value(details: Sequence[Mapping[str, Any]], values: dict[str, Any]) -> list[dict[str, Any]]:
    """The details, those of one value together: pydantic says of a number or "auto" why it is none of both."""
    joined: dict[tuple[Any, ...], dict[str, Any]] = {}
    for detail in details:
        loc = detail["loc"]
        if not _is_place(loc, values):
            loc = loc[:-1]  # behind the key, pydantic's name of one of the types that it may have
        before = joined.get(loc)
        if before is not None and detail["type"] not in ("missing", "extra_forbidden"):
            before["msg"] += " or " + str(detail["msg"]).removeprefix(SHOULD)
        else:
            joined[loc] = {**detail, "loc": loc}
    return list(joined.values())


SHOULD = "Input should be "


def _is_place(loc: tuple[Any, ...], values: dict[str, Any]) -> bool:
    """Whether there can be anything at `loc`: what is before its last step is no single value."""
    found: Any = values
    for step in loc[:-1]:
        if not _is_tag(step, values, loc):
            found = found[step] if isinstance(found, list) else found.get(step) if isinstance(found, dict) else None
        if not isinstance(found, dict | list):
            return False
    return True


def _is_tag(step: Any, values: dict[str, Any], loc: tuple[Any, ...]) -> bool:
    """Pydantic puts the kind of such a section into the path: ('train', 0, 'label-tree', 'depth')."""
    return (
        len(loc) > 2
        and loc[0] in ("encode", "train")
        and step is loc[2]
        and isinstance(step, str)
        and "kind" in _entry(values, loc)
    )


def _entry(values: dict[str, Any], loc: tuple[Any, ...]) -> dict[str, Any]:
    try:
        entry = values[loc[0]][loc[1]]
    except (KeyError, IndexError, TypeError):
        return {}
    return entry if isinstance(entry, dict) and entry.get("kind") == loc[2] else {}


def _dotted(steps: list[Any]) -> str:
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path


def _nearest(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.4)
    listed = ", ".join(known)
    return f": did you mean {close[0]!r}? (known: {listed})" if close else f" (known: {listed})"


def _siblings(model: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    """The keys that the section at `loc` knows."""
    from pipeline import sections

    named: dict[Any, type[BaseModel]] = {
        "data": sections.DataSection,
        "predict": sections.PredictSection,
        "evaluate": sections.EvaluateSection,
        "report": sections.ReportSection,
        "retrieve": sections.RetrieveSection,
        **sections.KINDS,
    }
    found = model
    for step in loc[:-1]:
        found = named.get(step, found)
    return list(found.model_fields)


def _line(text: str, steps: list[Any]) -> int:
    """The 1-based line of a key, or of its section's head, or 0."""
    lines = text.splitlines()
    start = 0
    if steps and len(steps) > 1 and isinstance(steps[1], int):
        heads = [i for i, line in enumerate(lines) if line.split("#")[0].replace(" ", "").startswith(f"[[{steps[0]}]]")]
        if steps[1] >= len(heads):
            return 0
        start = heads[steps[1]]
    elif len(steps) > 1:
        heads = [i for i, line in enumerate(lines) if line.split("#")[0].replace(" ", "").startswith(f"[{steps[0]}]")]
        start = heads[0] if heads else 0
    for i in range(start, len(lines)):
        if i > start and lines[i].lstrip().startswith("[") and len(steps) > 1:
            break
        if steps and re.match(rf"\s*\"?{re.escape(str(steps[-1]))}\"?\s*=", lines[i]):
            return i + 1
    return start + 1 if start else 0
