"""What the page says of relaxed hierarchies in a part of its own (Gao & Koller 2011: Figures 2 to 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.report.plot import Plot
from pipeline.report.relaxed_curves import complexity_plots
from pipeline.report.relaxed_descent import descent_plot
from pipeline.report.relaxed_growth import growth_plots
from pipeline.report.relaxed_levels import NOTE, Hierarchy, levels_csv, levels_of
from pipeline.report.relaxed_members import relaxed_members
from pipeline.report.relaxed_tables import relaxed_tables
from pipeline.report.summary import RunSummary
from pipeline.report.trees_tables import TreeTable


@dataclass(frozen=True)
class RelaxedPart:
    """Figures, tables, first levels of hierarchies; empty for a run without any such model."""

    plots: Sequence[Plot]
    tables: Sequence[TreeTable]
    levels: Sequence[Hierarchy]
    levels_text: str | None  # the color of every class in these nodes, as CSV
    note: str = NOTE

    def __bool__(self) -> bool:
        return bool(self.plots or self.tables or self.levels)

    def csvs(self) -> Iterator[tuple[str, str]]:
        """(name, text) of every file beside the page."""
        yield from ((one.name, one.csv) for one in self.tables)
        yield from ((plot.name, plot.csv) for plot in self.plots)
        if self.levels_text is not None:
            yield "relaxed-levels", self.levels_text


def relaxed_part(run: RunSummary) -> RelaxedPart:
    """All that a run's models allow; figures of the wrong measure where `run.wrong_metric` asks for them."""
    members = relaxed_members(run)
    descent = descent_plot(members)
    plots = [*complexity_plots(run, members, run.wrong_metric), *growth_plots(members)]
    plots += [descent] if descent is not None else []
    return RelaxedPart(plots, relaxed_tables(run, members), levels_of(run, members), levels_csv(run, members))
