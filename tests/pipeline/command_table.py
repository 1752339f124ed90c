"""REFERENCE's commands and options, made from the help texts: `python -m tests.pipeline.command_table`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from typer.main import get_command

from pipeline.cli import app


@dataclass(frozen=True, slots=True)
class Option:
    """One meaning of one option, and the commands that have it with this meaning."""

    names: tuple[str, ...]
    value: str
    default: str
    meaning: str
    commands: list[str] = field(default_factory=list, compare=False)

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (" ".join(self.names), self.value, self.default, self.meaning)


def commands() -> dict[str, Any]:
    """Every command by name, in the order of --help; its parameters as typer has made them."""
    return dict(get_command(app).commands)  # type: ignore[attr-defined]


def arguments(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "argument"]


def usage(name: str, command: Any) -> str:
    """The line as it is typed, with its arguments and the options that must be given: `labelgrove run CONFIG`."""
    words = [shown if one.required else f"[{shown}]" for one in arguments(command) for shown in [metavar(one)]]
    needed = [one for one in command.params if one not in arguments(command) and one.required]
    words += [word for one in needed for word in (one.opts[0], value_of(one))]
    return " ".join(["labelgrove", name, *words])


def usual(one: Any) -> str:
    """What an argument is when it is left out."""
    return f" (default: {one.default})" if not one.required and one.default is not None else ""


def metavar(one: Any) -> str:
    """What it is called, without the brackets of what may be left out, which `usage` puts around it."""
    return str(one.metavar or one.name.upper()).strip("[]") + ("..." if one.nargs == -1 or one.multiple else "")


def options() -> list[Option]:
    """Every option in the order of first use: one entry for each meaning that it has."""
    found: dict[tuple[str, str, str, str], Option] = {}
    for name, command in commands().items():
        for one in command.params:
            if one.opts[0].startswith("-"):
                made = Option((*one.opts, *one.secondary_opts), value_of(one), default_of(one), text_of(one.help))
                found.setdefault(made.key, made).commands.append(name)
    return list(found.values())


def value_of(one: Any) -> str:
    if one.is_flag:
        return ""
    named = {"str": "TEXT", "int": "N", "float": "NUMBER", "Path": "PATH"}
    kind = one.type_descriptor.annotation
    inner = kind.__args__[0] if hasattr(kind, "__args__") else kind
    return str(one.metavar or named[inner.__name__])


def default_of(one: Any) -> str:
    if one.required:
        return "must be given"
    if one.default is None or one.default is False or one.default == "":
        return ""
    return f"`{json.dumps(one.default, default=str)}`"


def text_of(text: str | None) -> str:
    """A help text on one line, for a cell of a table."""
    return " ".join((text or "").split()).replace("|", "\\|").replace("*", "\\*")


def paragraphs(command: Any) -> str:
    """What a command says of itself: its sentences, the lines of one paragraph joined."""
    parts = (command.help or "").split("\n\n")
    return " ".join(text_of(part) for part in parts)


def commands_table() -> str:
    rows = ["| command | what it does |", "|---|---|"]
    for name, command in commands().items():
        told = "; ".join(f"{metavar(one)}: {text_of(one.help)}{usual(one)}" for one in arguments(command))
        rows.append(f"| `{usage(name, command)}` | {paragraphs(command)}{f' *{told}.*' if told else ''} |")
    return "".join(f"{row}\n" for row in rows)


def options_table() -> str:
    rows = ["| option | value | default | of | meaning |", "|---|---|---|---|---|"]
    for one in sorted(options(), key=lambda one: max(one.names, key=len)):
        names, found = " ".join(f"`{name}`" for name in one.names), " ".join(one.commands)
        rows.append(f"| {names} | {one.value} | {one.default} | {found} | {one.meaning} |")
    return "".join(f"{row}\n" for row in rows)


if __name__ == "__main__":
    print(commands_table(), options_table(), sep="\n", end="")
