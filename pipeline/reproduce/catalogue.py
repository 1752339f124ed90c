"""All tables and figures by name, and what `--list` says of them."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from difflib import get_close_matches

from pipeline.dataset import Dataset
from pipeline.fields import LEAST, fit
from pipeline.reproduce import (
    chen_shrivastava,
    deng_trees,
    gao_koller_nodes,
    harchaoui,
    harchaoui_timings,
    worked,
    zhao_xing,
)
from pipeline.reproduce.figure import NEEDS, PaperFigure
from pipeline.reproduce.needs import why_not
from tasks.errors import UsageError

WIDTH = 118


def catalogue() -> dict[str, PaperFigure]:
    """Name -> figure, those of a paper together."""
    modules = (zhao_xing, chen_shrivastava, worked, harchaoui, harchaoui_timings, gao_koller_nodes, deng_trees)
    found = {figure.name: figure for module in modules for figure in module.FIGURES}
    papers = [figure.paper for figure in found.values()]
    return dict(sorted(found.items(), key=lambda item: (papers.index(item[1].paper), _place(item[0]))))


def _place(name: str) -> tuple[bool, str]:
    return "figure" in name, name


def figure_of(name: str) -> PaperFigure:
    """The figure of a name. Raises UsageError with the nearest names."""
    known = catalogue()
    if name in known:
        return known[name]
    near = get_close_matches(name.lower(), known, n=3, cutoff=0.5) or [one for one in known if name.lower() in one][:5]
    told = f"perhaps {', '.join(near)}; " if near else ""
    raise UsageError(f"there is no table or figure {name!r}", name, f"{told}`labelgrove reproduce --list` names all")


def needs_text(figure: PaperFigure) -> str:
    """What data it needs: "dense rows, a taxonomy"."""
    needs = [NEEDS[need] for need in figure.needs if need in NEEDS]
    classes = [f"{figure.least_classes} classes or more"] if figure.least_classes > 2 else []
    return ", ".join(needs + classes)


def list_text(dataset: Dataset | None = None) -> str:
    """A line for each: name, what it shows, the data it needs, how long; of a dataset also why it does not allow it."""
    lines: list[str] = []
    paper = ""
    wide = max(map(len, catalogue()))
    for figure in catalogue().values():
        if figure.paper != paper:
            paper = figure.paper
            lines += ["", fit(paper)] if lines else [fit(paper)]
        told = f"  {figure.name:<{wide}}  {figure.shows}; {needs_text(figure)}; {figure.takes}"
        why = why_not(figure, dataset) if dataset is not None and figure.needs_data else ""
        lines.append(fit(f"{told}; not of this dataset: it {why}" if why else told, wide + 4))
    return "\n".join(lines) + "\n"


def details_text(figure: PaperFigure, dataset: Dataset | None = None) -> str:
    """Everything that is known of a figure before it is run; of a dataset also whether it allows it."""
    return "\n".join(_details(figure, dataset)) + "\n"


def _details(figure: PaperFigure, dataset: Dataset | None) -> Iterator[str]:
    yield fit(f"{figure.name}: {figure.shows}")
    why = why_not(figure, dataset) if dataset is not None and figure.needs_data else ""
    facts = {
        "paper": figure.paper,
        "place": figure.place,
        "needs": needs_text(figure),
        "takes": figure.takes,
        "your dataset": "" if dataset is None else f"does not allow it: {figure.name} {why}" if why else "allows it",
        "paper's data": figure.data,
        "runs": ", ".join(" ".join(filter(None, (part.template, part.kernel))) for part in figure.parts),
    }
    yield from _listed([f"{key}: {text}" for key, text in facts.items() if text])
    if figure.claims:
        yield "claims of the paper, and how each is judged"
    for claim in figure.claims:
        yield from _listed([f"{claim.text} ({claim.source})" + (f" - {claim.rule}" if claim.rule else "")])
    if figure.differs:
        yield "what differs here"
    yield from _listed(figure.differs)


def _listed(texts: list[str] | tuple[str, ...]) -> Iterator[str]:
    width = min(WIDTH, max(LEAST, shutil.get_terminal_size((WIDTH, 0)).columns))
    for text in texts:
        yield from textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
