"""Of a graph in which nodes have several parents (WordNet) to a tree, by a stated rule; and whether it is one already.

Hierarchical hashing needs one path from the root to each class (Zhao & Xing 2012, section 2), and the height of the
lowest common ancestor is only defined where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.dataset import Note
from pipeline.ingest.errors import TaxonomyCycle, TaxonomyMultiParent
from pipeline.ingest.taxonomy_file import NO_PARENT, TaxonomyNodes
from tasks.errors import ParamError

REFUSE, FIRST, SHORTEST, LONGEST = RULES = ("refuse", "first", "shortest", "longest")
MEANING = {
    FIRST: "the parent named first",
    SHORTEST: "the parent on its shortest path from the root",
    LONGEST: "the parent on its longest path from the root",
}
CHOICE_HINT = (
    "a taxonomy is a tree: keep one parent of each node, or choose one by a rule "
    "(labelgrove ingest --several-parents first, shortest or longest)"
)


def check_rule(rule: str) -> None:
    """Raises ParamError for a word that is none of RULES."""
    if rule not in RULES:
        raise ParamError("several_parents", rule, "refuse, first, shortest or longest", "a taxonomy is a tree")


def one_parent_each(nodes: TaxonomyNodes, rule: str) -> tuple[list[int], list[int]]:
    """The parent that each node keeps (NO_PARENT at a root), and its depth under that choice.

    Choosing for the upper nodes first makes every path as short (long) as any: the depth of a node is one more than
    that of the parent it keeps. Equal depths: the parent named first. Raises TaxonomyCycle, also where the rule would
    not have followed the cycle, and TaxonomyMultiParent under the rule "refuse".
    """
    order = _top_down(nodes)
    if rule == REFUSE:
        _refuse_several(nodes)
    kept, depth = [NO_PARENT] * len(order), [0] * len(order)
    for place in order:
        if nodes.parents[place]:
            kept[place] = chosen(nodes.parents[place], depth, rule)
            depth[place] = depth[kept[place]] + 1
    return kept, depth


def chosen(places: Sequence[int], depth: Sequence[int], rule: str) -> int:
    """The one of `places` that the rule takes; where several lie at that depth, the first."""
    if rule == SHORTEST:
        return min(places, key=depth.__getitem__)
    return max(places, key=depth.__getitem__) if rule == LONGEST else places[0]


def parents_note(nodes: TaxonomyNodes, rule: str) -> Note:
    """How many nodes had several parents, and which of them counts."""
    several = sum(len(above) > 1 for above in nodes.parents)
    if not several:
        return Note("SeveralParents", f"no node of {nodes.source} has several parents")
    text = f"{several:,} of {len(nodes.keys):,} nodes of {nodes.source} have several parents: each stands under"
    return Note("SeveralParents", f"{text} {MEANING[rule]} (--several-parents {rule})")


def _top_down(nodes: TaxonomyNodes) -> list[int]:
    """All nodes, each after all of its parents. Raises TaxonomyCycle."""
    children: list[list[int]] = [[] for _ in nodes.keys]
    waits = [len(above) for above in nodes.parents]
    for place, above in enumerate(nodes.parents):
        for parent in above:
            children[parent].append(place)
    order = [place for place, count in enumerate(waits) if not count]
    for place in order:  # grows while it is walked
        for child in children[place]:
            waits[child] -= 1
            if not waits[child]:
                order.append(child)
    if len(order) < len(nodes.keys):
        raise TaxonomyCycle(f"a node is its own ancestor: {_cycle(nodes, waits)}", nodes.source, "cut the cycle")
    return order


def _cycle(nodes: TaxonomyNodes, waits: Sequence[int]) -> str:
    """Names around a cycle: a node that still waits has a parent that still waits, so walking up ends in a circle."""
    place = next(place for place, count in enumerate(waits) if count)
    walk: list[int] = []
    while place not in walk:
        walk.append(place)
        place = next(parent for parent in nodes.parents[place] if waits[parent])
    around = [*walk[walk.index(place) :], place]
    return " -> ".join(repr(nodes.names[place]) for place in reversed(around))


def _refuse_several(nodes: TaxonomyNodes) -> None:
    several = [place for place, above in enumerate(nodes.parents) if len(above) > 1]
    if several:
        child = several[0]
        first, second = (nodes.names[parent] for parent in nodes.parents[child][:2])
        what = f"{nodes.names[child]!r} stands under {first!r} and under {second!r}"
        more = f", and {len(several) - 1:,} more nodes have several parents" if len(several) > 1 else ""
        hint = f"{CHOICE_HINT}; a file of child and parent says so in its first line: child, tab, parent"
        raise TaxonomyMultiParent(f"{what}{more}", nodes.source, hint)
