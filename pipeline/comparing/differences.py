"""What differs between runs: data, seed, settings of their steps, models that only some have, versions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pipeline.comparing.runs import ComparedRun
from pipeline.report.numbers import MISSING

FACTS = {
    "dataset": "dataset (digest)",
    "n_classes": "classes",
    "n_features": "features",
    "train_rows": "training rows",
    "validation_rows": "validation rows",
    "test_rows": "test rows",
    "seed": "seed",
}
LONGEST = 60  # characters of a value


def differences(runs: Sequence[ComparedRun]) -> list[tuple[str, ...]]:
    """(what, its value in each run) of everything that is not the same in all of them."""
    lines = [(told, *(_text(run.facts.get(key)) for run in runs)) for key, told in FACTS.items()]
    lines.append(("put over the config", *(" ".join(f"-s {one}" for one in run.overrides) or MISSING for run in runs)))
    steps = list(dict.fromkeys(step for run in runs for step in run.settings))
    for step in steps:
        lines += _of_step(step, [run.settings.get(step) for run in runs])
    lines += _by_key("", _keys(run.versions for run in runs), lambda key, i: runs[i].versions.get(key), len(runs))
    return [line for line in lines if len(set(line[1:])) > 1]


def _of_step(step: str, found: Sequence[Mapping[str, Any] | None]) -> list[tuple[str, ...]]:
    """Settings by key where every run has the step; else who has it."""
    name = step.replace("_", " ", 1)
    if step.startswith(("predict_", "evaluate_")) and None in found:
        return []  # of a model that the line of its training names
    if None in found:
        kinds = ("there" if one is None else str(one.get("kind") or "there") for one in found)
        return [(name, *(MISSING if one is None else kind for one, kind in zip(found, kinds, strict=True)))]
    known = [one for one in found if one is not None]
    return _by_key(f"{name}: ", _keys(known), lambda key, i: known[i].get(key), len(known))


def _keys(tables: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted({key for table in tables for key in table})


def _by_key(prefix: str, keys: Sequence[str], value: Callable[[str, int], Any], n: int) -> list[tuple[str, ...]]:
    return [(f"{prefix}{key}", *(_text(value(key, i)) for i in range(n))) for key in keys]


def _text(value: Any) -> str:
    """A value in so many characters, by which two of them can still be told apart."""
    if value is None:
        return MISSING
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    if len(text) <= LONGEST:
        return text
    from tasks.digest import digest_text

    return f"{text[: LONGEST - 12]}... ({digest_text(text)[:6]})"
