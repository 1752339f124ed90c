"""What the page says of label trees in a part of its own (Deng et al. 2011: Tables 1 and 2, Figures 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.report.plot import Plot
from pipeline.report.summary import RunSummary
from pipeline.report.trees_partition import partition_plots
from pipeline.report.trees_tables import TreeTable, tree_details, tree_tables
from pipeline.report.trees_walks import TreeWalks, walks_csv, walks_of

WALKS_NOTE = (
    "From the root down: some classes of every label set that the row came to, its own marked. Score or probability: "
    "what the node above tells of the child that it went to, by itself: not that of the way so far, which predictions "
    "have; ahead: by how much of the best of the others, or behind, where a wider beam looked at several."
)

MOST_MISSING = 5  # rows that were asked for in vain that are named


@dataclass(frozen=True)
class TreePart:
    """Tables, pictures of roots, ways of rows; empty for a run without trees."""

    tables: Sequence[TreeTable]
    partitions: Sequence[Plot]
    walks: Sequence[TreeWalks]
    walks_text: str | None  # all steps of all walks as CSV
    walks_note: str
    missing: Sequence[int]  # rows that were asked for, and are no test rows

    def __bool__(self) -> bool:
        return bool(self.tables or self.partitions or self.walks)

    def csvs(self) -> Iterator[tuple[str, str]]:
        """(name, text) of every file beside the page."""
        yield from ((one.name, one.csv) for one in self.tables)
        yield from ((plot.name, plot.csv) for plot in self.partitions)
        if self.walks_text is not None:
            yield "trees-paths", self.walks_text


def tree_part(run: RunSummary) -> TreePart:
    """All that a run's trees allow."""
    missing = sorted({row for tree in tree_details(run).values() for row in tree.get("not_found", ())})
    note = WALKS_NOTE + "".join(
        f" Asked for, but no test row has the number {row:,} in the source." for row in missing[:MOST_MISSING]
    )
    return TreePart(tree_tables(run), partition_plots(run), walks_of(run), walks_csv(run), note, missing)
