"""Which models of a config belong together: one system with one key changed, or trained and tested on other rows.

Found from the settings alone, so models that were written one by one make a line as well as those of a `sweep`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.config import MADE_FROM, OWN_ROWS, CodesEncoding, Encoding, Learner, RetrieveSection, RunConfig

REPEATS = ("seed", "draw")  # a key of this name repeats a setting: its models are averaged
Members = list[tuple[str, dict[str, Any]]]  # name and settings
PLACES = {"name", "rows", "test_rows"}  # what a model is called, learns from and is tested on
NOT_SETTINGS = PLACES | {"kind"}


@dataclass(frozen=True, slots=True)
class Line:
    """Models that differ in one number, and maybe in a seed.

    label   what they are: "ovr on dwta"
    key     the number that changes: "bits"
    names   value of the key -> names of its models, ascending
    """

    label: str
    key: str
    names: Mapping[float, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Repeats:
    """Retrievals that differ in a seed at most."""

    label: str
    names: tuple[str, ...]


FORMS = ("full", "PQ", "semi-PQ")  # trained and tested on: rows and rows, codes and codes, codes and rows


@dataclass(frozen=True, slots=True)
class Compression:
    """Models that differ only in being trained, or tested, on codes of the rows (Harchaoui et al., Figure 3).

    label  which they are; names  form -> name of its model, at least two forms, in the order of FORMS
    rows, codes  names of the rows, and of the encoding of them
    """

    label: str
    rows: str
    codes: str
    names: Mapping[str, str]


def lines_of(run: RunConfig) -> list[Line]:
    """The lines among the models; a system with several changing keys gives one for each value of the others."""
    return [line for system, members in _systems(run, run.train).items() for line in _lines(system, members)]


def _lines(system: str, members: Members) -> list[Line]:
    """Over the number that gives the longest line; models that have none there ("auto") make lines over others."""
    numeric = [key for key in sorted(_changing(members)) if not _is_seed(key)]
    ways = [(key, _lines_over(key, system, members)) for key in numeric]
    key, drawn = max(ways, key=lambda way: _longest(way[1]), default=("", []))
    if _longest(drawn) < 2:  # points alone, of models that differ in this and that, say nothing
        return []
    rest = [(name, one) for name, one in members if not _is_number(one[key])]
    return drawn + (_lines(system, rest) if rest else [])


def _longest(lines: Sequence[Line]) -> int:
    return max((len(line.names) for line in lines), default=0)


def _lines_over(key: str, system: str, members: Members) -> list[Line]:
    """The models that have a number there, one line for each value of the other keys that change among them."""
    found = [(name, one) for name, one in members if _is_number(one[key])]
    others = sorted(other for other in _changing(found) if other != key and not _is_seed(other)) if found else []
    parts: dict[tuple[Any, ...], list[tuple[str, float]]] = {}
    for name, one in found:
        parts.setdefault(tuple(one[other] for other in others), []).append((name, float(one[key])))
    lines: list[Line] = []
    for values, points in parts.items():
        label = ", ".join([system, *(f"{_short(o)} {value}" for o, value in zip(others, values, strict=True))])
        by_value = {x: tuple(name for name, at in points if at == x) for x in sorted({at for _, at in points})}
        lines.append(Line(label, _short(key), by_value))
    return lines


def compressions_of(run: RunConfig) -> list[Compression]:
    """For each learner, and each encoding whose rows stand for others column by column, the models of its forms."""
    stand_for = {one.name: one.rows for one in run.encode if one.keeps_columns}
    alike: dict[tuple[str, str], dict[tuple[str, str], str]] = {}  # settings, rows -> (trained on, tested on) -> name
    for learner in run.train:
        settings = {key: value for key, value in learner.model_dump(mode="json").items() if key not in PLACES}
        root = _root(learner.rows, stand_for)
        alike.setdefault((repr(settings), root), {}).setdefault((learner.rows, learner.tested_on), learner.name)
    groups = [
        (root, codes, names)
        for (_, root), found in alike.items()
        for codes in stand_for
        if len(names := _forms(found, root, codes)) > 1
    ]
    several = len({codes for _, codes, _ in groups}) > 1
    return [
        Compression(next(iter(names.values())) + (f", {codes}" if several else ""), root, codes, names)
        for root, codes, names in groups
    ]


def beams_of(run: RunConfig) -> list[tuple[str, ...]]:
    """Names of the trees that differ in their beam alone, two at least."""
    alike: dict[str, list[str]] = {}
    for learner in run.train:
        settings = learner.model_dump(mode="json")
        if settings.pop("beam", None) is not None:
            settings.pop("name")
            alike.setdefault(repr(settings), []).append(learner.name)
    return [tuple(names) for names in alike.values() if len(names) > 1]


def _root(rows: str, stand_for: Mapping[str, str]) -> str:
    while rows in stand_for:
        rows = stand_for[rows]
    return rows


def _forms(found: Mapping[tuple[str, str], str], root: str, codes: str) -> dict[str, str]:
    """The names of the models of each form, those without codes only beside others."""
    places = zip(FORMS, ((root, root), (codes, codes), (codes, root)), strict=True)
    names = {form: found[place] for form, place in places if place in found}
    return names if names.keys() - {"full"} else {}


def repeats_of(run: RunConfig) -> list[Repeats]:
    """Retrievals in groups of equal settings but for the seed, labelled by what tells the groups apart."""
    return _repeats(_systems(run, run.retrieve))


def code_repeats(run: RunConfig) -> list[Repeats]:
    """The same of encodings whose rows are codes."""
    return _repeats(_systems(run, [one for one in run.encode if isinstance(one, CodesEncoding)]))


def _repeats(systems: Mapping[str, Members]) -> list[Repeats]:
    groups: list[Repeats] = []
    for system, members in systems.items():
        telling = sorted(key for key in _changing(members) if not _is_seed(key))
        parts: dict[tuple[Any, ...], list[str]] = {}
        for name, one in members:
            parts.setdefault(tuple(one[key] for key in telling), []).append(name)
        for values, names in parts.items():
            said = [
                f"{'default' if value is None else value} {_short(key)}"
                for key, value in zip(telling, values, strict=True)
            ]
            label = names[0] if len(names) == 1 else ", ".join([system, *said])
            groups.append(Repeats(label, tuple(names)))
    return groups


def _systems(run: RunConfig, sections: Sequence[Learner | RetrieveSection | Encoding]) -> dict[str, Members]:
    """Sections by what they are: their kind, and the kinds of the encodings that they read."""
    encodings = {encoding.name: encoding for encoding in run.encode}
    systems: dict[str, Members] = {}
    for section in sections:
        chain = list(_chain(section.rows, encodings))
        kind = str(getattr(section, "kind", ""))
        kinds = [str(getattr(encoding, "kind", "")) for encoding in chain]
        system = " on ".join(filter(None, [kind, *kinds]))
        settings = {f"{kind}.{key}": value for key, value in _settings(section).items()}
        for encoding, its in zip(chain, kinds, strict=True):
            settings |= {f"{its}.{key}": value for key, value in _settings(encoding).items()}
        systems.setdefault(system, []).append((section.name, settings))
    return systems


def _chain(rows: str, encodings: Mapping[str, Encoding]) -> Iterator[Encoding]:
    while rows != OWN_ROWS and rows in encodings:
        yield encodings[rows]
        rows = encodings[rows].rows


def _settings(section: Any) -> dict[str, Any]:
    """What a section says of itself, and not which other models it is made from."""
    others, _ = MADE_FROM.get(type(section), ("", ""))
    return {key: value for key, value in section.model_dump(mode="json").items() if key not in {*NOT_SETTINGS, others}}


def _changing(members: Members) -> set[str]:
    keys = members[0][1].keys()
    return {key for key in keys if len({repr(one.get(key)) for _, one in members}) > 1}


def _is_seed(key: str) -> bool:
    return _short(key) in REPEATS


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(key: str) -> str:
    return key.rsplit(".", 1)[-1]
