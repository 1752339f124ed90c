"""REFERENCE's table of errors, made from the error classes: `python -m tests.pipeline.error_table`."""

from __future__ import annotations

import importlib
import pkgutil

import pipeline
import tasks
from tasks.errors import LabelgroveError


def errors() -> list[tuple[int, str, str]]:
    """(exit code, name, first sentences of the docstring) of all error classes, by code and name.

    Two classes of one name and code (of `tasks` and of `pipeline`) are one line, with what both say.
    """
    for package in (pipeline, tasks):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found: dict[tuple[int, str], list[str]] = {}
    waiting: list[type[LabelgroveError]] = list(LabelgroveError.__subclasses__())
    for kind in waiting:
        waiting += [one for one in kind.__subclasses__() if one not in waiting]
    for kind in sorted(waiting, key=lambda kind: kind.__module__):
        if kind.__module__.split(".")[0] in ("pipeline", "tasks"):
            said = found.setdefault((kind.exit_code, kind.__name__), [])
            said += [text for text in [meaning(kind)] if text not in said]
    return [(code, name, "; or: ".join(said)) for (code, name), said in sorted(found.items())]


def meaning(kind: type[LabelgroveError]) -> str:
    """The first paragraph of an error's own docstring, on one line, without its full stop."""
    text = (kind.__dict__.get("__doc__") or "").strip().split("\n\n")[0]
    return " ".join(text.split()).rstrip(".").replace("|", "\\|")


def table() -> str:
    lines = ["| code | error | meaning |", "|---|---|---|"]
    lines += [f"| {code} | `{name}` | {said} |" for code, name, said in errors()]
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    print(table(), end="")
