"""Names are data: whatever they hold, they arrive unchanged and are never paths."""

from __future__ import annotations

import numpy as np

from pipeline.ingest import ingest
from tests.pipeline.ingest.samples import X, at
from tests.strategies import NASTY_NAMES


def test_names_are_data_and_never_paths(tmp_path):
    """Any name survives unchanged (in form NFC), as label, class and node; no file is called by it."""
    names = [name for name in NASTY_NAMES if name] + ["e\u0301a"]
    matrix = np.random.default_rng(1).standard_normal((len(names), 2))
    taxonomy = {"root": {"[/x]/..": names[:5], "<b>": names[5:]}}
    tree = {"nodes": nodes_of(taxonomy), "leaves": [f"leaf {c}" for c in range(len(names))]}
    labels = np.arange(len(names))
    made = ingest(matrix, tmp_path / "d", classes=names, labels=labels, validation=0, test=0, taxonomy=tree)
    assert made.classes.names == (*names[:-1], "\u00e9a")
    assert made.taxonomy is not None
    assert {made.taxonomy.names[leaf] for leaf in made.taxonomy.leaf_of_class} == set(made.classes.names)
    files = {path.name for path in (tmp_path / "d").rglob("*")}
    known = {"zarr.json", "X", "c", "0", "y", "split", "row_id", "digests"}
    known |= {"classes", "taxonomy", "parent", "leaf_of_class"}
    assert files == known
    made.verify()


def nodes_of(taxonomy: dict) -> list[dict]:
    (root,) = taxonomy
    nodes, c = [{"id": "root", "name": root, "parent": None}], 0
    for i, (name, leaves) in enumerate(taxonomy[root].items()):
        nodes.append({"id": f"inner {i}", "name": name, "parent": "root"})
        for leaf in leaves:
            nodes.append({"id": f"leaf {c}", "name": leaf, "parent": f"inner {i}"})
            c += 1
    return nodes


def test_an_empty_name_is_a_name_where_the_table_lists_it(tmp_path):
    made = ingest(X, tmp_path / "d", labels=at(4, "", "cat"), classes=["cat", ""], validation=0, test=0)
    assert made.n_classes == 2


def test_accents_composed_either_way_are_one_name(tmp_path):
    labels = ["\u00e9"] * 5 + ["e\u0301"] * 5 + ["x"] * 2
    made = ingest(X, tmp_path / "d", labels=labels)
    assert made.classes.names == ("x", "\u00e9")
