"""inspect: what a model is, what its hashing costs, and how near the optimum its weights are; or what a dataset is."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.accuracy import NONE, class_map
from pipeline.byte_sizes import human_bytes
from pipeline.commands.certifying import certificate_text, certified
from pipeline.commands.inspecting_dataset import dataset_text, is_dataset
from pipeline.commands.inspecting_svm import kind_of, learnt_text, svm_facts, svm_lines
from pipeline.commands.looking import clean
from pipeline.commands.model_folders import refuse_other_folder
from pipeline.dataset import SPLITS, Dataset
from pipeline.dataset_facts import dataset_facts
from pipeline.fields import fields_text
from pipeline.ingest.feature_order import refuse_other_features
from pipeline.outputs import text_table
from pipeline.report.numbers import percent
from pipeline.report.path_tables import path_table
from pipeline.report.table import MARK, NOTE_WIDTH
from pipeline.stages.train import PATH, STRUCTURE
from tasks.errors import UsageError
from tasks.hashing.explain import explain_hash, explain_rows
from tasks.io import read_labels, read_rows, read_split
from tasks.models.base import Model
from tasks.models.card import features_text
from tasks.models.encoder import encode_all
from tasks.models.errors import ColumnMismatch
from tasks.models.feature_names import FEATURES
from tasks.models.folder import SavedModel, load_model
from tasks.models.hashed import HashedModel
from tasks.rows import Rows
from tasks.rows.base import Array
from tasks.trees.kmeans.forest import Forest
from tasks.trees.measures import unreachable
from tasks.trees.tree import GIVEN, LabelTree

SAMPLE_ROWS, SAMPLE_BLOCKS = 1000, 16  # of the test rows, evenly spaced
TEST = SPLITS.index("test")
SVM = "support_vector_machines"
MANY, MANY_KEYS = 8, 64  # entries of a list, keys of a mapping, that text shows: a learner has some 30 settings


class NotHashed(UsageError):
    """A model that hashes nothing was to be explained."""


def inspect(
    model: Path, *, hash: bool = False, certify: bool = False, data: Path | None = None, as_json: bool = False
) -> dict[str, Any]:
    """Print what a model folder says, with `hash` also collisions and lost features; returns the same as plain values.

    model    or a dataset store, of which nothing else can be asked
    certify  make the certificate of a trace-norm model anew, from its weights and the training rows of `data`
    data     a dataset store; with `hash`: lost features on its test rows, too
    raises   NotHashed, NoCertificate, the errors of the model folder and of the dataset, ColumnMismatch
    """
    if is_dataset(model):
        if hash or certify or data is not None:
            hint = "name a model (runs/NAME/models/MODEL), or leave the options out"
            raise UsageError("--hash, --certify and --data are of models, and this is a dataset", str(model), hint)
        return _show(dataset_facts(Dataset.open(model)), dataset_text, as_json)
    if data is not None and not (hash or certify):
        raise UsageError("--data has no meaning without --hash or --certify", "--data", "add one, or leave it out")
    if certify and data is None:
        raise UsageError("--certify needs the rows that the model learnt from", "--certify", "add --data DATASET")
    refuse_other_folder(model, "labelgrove inspect MODEL --data DATASET")
    saved = load_model(model)
    found = facts_of(saved)
    if hash:
        found["hash"] = explained(saved, data)
    if certify and data is not None:
        found["certified"] = certified(saved, data)
    return _show(found, text_of, as_json)


def _show(found: dict[str, Any], text: Callable[[dict[str, Any]], str], as_json: bool) -> dict[str, Any]:
    sys.stdout.write(json.dumps(found, indent=1, ensure_ascii=False) + "\n" if as_json else text(found))
    return found


def facts_of(saved: SavedModel) -> dict[str, Any]:
    """What the folder says of the model: plain values."""
    header = saved.header
    origin = dict(header.get("provenance", {}))
    path = origin.pop(PATH, None)
    learnt = {name: values for name, values in saved.model.tensors().items() if name not in STRUCTURE}
    return {
        "model": saved.folder,
        "kind": kind_of(saved.model),
        "n_classes": saved.model.n_classes,
        "n_features": saved.model.n_features,
        "parameters": sum(int(values.size) for values in learnt.values()),
        "parameter_bytes": sum(int(values.nbytes) for values in learnt.values()),
        "tensors": header["tensors"],
        "rows": header.get("rows"),
        "test_rows": header.get("test_rows"),
        "encoders": [encoder.header() for encoder in saved.encoders],
        "raw_features": saved.n_features,
        "probabilistic": saved.probabilistic,
        **({"tree": found} if (found := tree_facts(saved.model)) else {}),
        **({SVM: machines} if (machines := svm_facts(saved.model)) else {}),
        **({"certificate": header["certificate"]} if "certificate" in header else {}),
        "digest": saved.digest,
        "provenance": origin,
        **({PATH: path} if path else {}),
        "metrics": dict(header.get("metrics", {})),
    }


def tree_facts(model: Model) -> dict[str, Any]:
    """Of a tree, or of the first of a forest's, what it is like; {} of other models."""
    trees = list(model.trees) if isinstance(model, Forest) else [model]
    first = trees[0]
    if not isinstance(first, LabelTree):
        return {}
    return {
        "trees": len(trees),
        "nodes": first.n_nodes,
        "leaves": int((first.n_children == 0).sum()),
        "depth": int(first.depth_of.max()),
        "widest": int(first.n_children.max()),
        "beam": first.beam,
        "never_answered": int(unreachable(first).size),
    }


# ---- the hash ----------------------------------------------------------------------------------------------------


def explained(saved: SavedModel, data: Path | None) -> dict[str, Any]:
    """Collisions and lost features; with `data` also on rows of its test part. Raises NotHashed."""
    model = saved.model
    if not isinstance(model, HashedModel):
        hint = "models of kind heshing and flat-hash hash their features"
        raise NotHashed(f"a model of kind {kind_of(model)} hashes nothing", f"--hash, {saved.folder}", hint)
    found = explain_hash(model.scorer)
    if data is not None:
        found["rows"] = {"data": str(data), "split": "test", **explain_rows(model.scorer, test_rows(saved, data))}
    return found


def test_rows(saved: SavedModel, data: Path) -> Iterator[tuple[Rows, Array]]:
    """Evenly spaced labelled test rows, as the model is given them, with their classes, block by block."""
    dataset = Dataset.open(data)
    if dataset.n_features != saved.n_features:
        what = f"{dataset.n_features} columns where {saved.n_features} are expected"
        raise ColumnMismatch(what, str(data), "give rows with the columns of the training rows, in the same order")
    refuse_other_features(dataset, saved.feature_names)
    mapped = class_map(dataset.classes, saved.classes)
    first = dataset.n_rows - dataset.split_counts["test"]
    blocks = [block for block in dataset.blocks() if block.stop > first]
    if not dataset.split_counts["test"]:
        raise UsageError("the dataset has no test rows", str(data), "ingest with some: --split or --test-source")
    chosen = [blocks[int(i)] for i in _spaced(len(blocks), SAMPLE_BLOCKS)]
    for block in chosen:
        split = read_split(dataset.path, block.start, block.stop)
        classes = read_labels(dataset.path, block.start, block.stop)
        if mapped is not None:
            classes = np.where(classes < 0, NONE, mapped[classes])
        index = np.flatnonzero((split == TEST) & (classes >= 0))
        index = index[_spaced(index.size, SAMPLE_ROWS // len(chosen))]
        yield encode_all(read_rows(block).take(index), saved.encoders), classes[index]


def _spaced(count: int, most: int) -> Array:
    """At most `most` of the places 0..count-1, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


# ---- as text -----------------------------------------------------------------------------------------------------


def _origin_text(key: str, value: Any) -> str:
    return features_text(value) if key == FEATURES else json.dumps(shortened(value), ensure_ascii=False)


def shortened(value: Any) -> Any:
    """Plain values without long lists and mappings: of these how many there are, the first and the last."""
    if isinstance(value, dict):
        found = {key: shortened(one) for key, one in value.items()}
        return found if len(found) <= MANY_KEYS else _ends(list(found), "keys")
    if isinstance(value, list):
        return [shortened(one) for one in value] if len(value) <= MANY else _ends(value, "entries")
    return value


def _ends(values: list[Any], what: str) -> str:
    ends = (value if isinstance(value, str) else json.dumps(shortened(value)) for value in (values[0], values[-1]))
    return f"{len(values):,} {what}: {' .. '.join(ends)}"


def text_of(found: dict[str, Any]) -> str:
    """A short table, and what the hash costs below it."""
    names = [f"{part['kind']} ({_sizes(part)})" for part in found["encoders"]]
    tested = f", tested on {found['test_rows']}" if found["test_rows"] != found["rows"] else ""
    lines = [
        ("kind", found["kind"]),
        ("classes", learnt_text(found["n_classes"], found.get(SVM))),
        ("features", f"{found['n_features']:,}"),
        ("parameters", f"{found['parameters']:,} ({human_bytes(found['parameter_bytes'])})"),
        ("rows", f"{found['rows']}{tested}"),
        ("encoders", ", ".join(names) or "none"),
        *([("tree", tree_text(found["tree"]))] if "tree" in found else []),
        *(svm_lines(found[SVM]) if SVM in found else []),
        ("scores", scores_text(found)),
        ("digest", found["digest"]),
        *((f"  {key}", _origin_text(key, value)) for key, value in found["provenance"].items()),
    ]
    text = fields_text(lines)
    text += hash_text(found["hash"]) if "hash" in found else ""
    if "certificate" in found:
        text += certificate_text(found["certificate"], found.get("certified"))
    text += path_text(found[PATH]) if PATH in found else ""
    return clean(text)


def tree_text(tree: dict[str, Any]) -> str:
    """Its size and shape, how it is searched, and classes that it has given up."""
    many = f"{tree['trees']} trees, the first of " if tree["trees"] > 1 else ""
    lost = f"; {tree['never_answered']:,} classes are in no leaf" if tree["never_answered"] else ""
    size = f"{tree['nodes']:,} nodes, {tree['leaves']:,} of them leaves"
    return f"{many}{size}, depth {tree['depth']}, at most {tree['widest']:,} children; beam {tree['beam']}{lost}"


def scores_text(found: dict[str, Any]) -> str:
    """What scores are, and whether they can be made probabilities."""
    if SVM in found:
        return str(found[SVM]["scores"])
    if not found["probabilistic"]:
        wider = "; with a wider beam what its scales make of them, the more the likelier"
        return "margins" + wider * ("tree" in found and found["kind"] != GIVEN)
    of_tree = "what the nodes tell of a class, the more the likelier" if "tree" in found else "log-odds"
    return f"{of_tree}: predict --proba gives probabilities"


def path_text(pairs: list[dict[str, Any]]) -> str:
    """A line for each pair of penalties that was solved."""
    table = path_table("", pairs)
    marks = ["", *(f" {MARK}" if place in table.chosen else "" for place in range(len(pairs)))]
    lines = [[row[0] + mark, *row[1:]] for row, mark in zip([table.heading, *table.rows], marks, strict=True)]
    chosen = [f"{MARK} the pair that was chosen."] if table.chosen else []
    note = "".join(f"{line}\n" for line in textwrap.wrap(" ".join([*chosen, table.note]), NOTE_WIDTH))
    return f"\npath: {table.title}\n" + text_table(lines) + note


def _sizes(part: dict[str, Any]) -> str:
    sizes = [f"{key} {value:,}" for key, value in part.items() if type(value) is int]
    sizes += [f"{key} {value}" for key, value in part.items() if isinstance(value, list)]
    sizes += [f"norm {part['norm']}"] if "norm" in part else []
    sizes += [key for key, value in part.items() if value is True]
    return ", ".join(sizes)


def hash_text(found: dict[str, Any]) -> str:
    """Three tables: by level, over the classes, by length of path; and a line on real rows."""
    levels = [["level", "nodes", "share a bucket", "expected", "pairs per bucket"]]
    for level in found["levels"]:
        load = "not scored" if level["load"] is None else _number(level["load"])
        shares = (percent(level["shared"]), percent(level["shared_expected"]))
        levels.append([str(level["level"]), f"{level['nodes']:,}", *shares, load])
    lost = [["lost features", "least", "mean", "most", "expected", "bound (20)"]]
    for name, key in (("root..leaf", "lost"), ("without root", "lost_without_root")):
        numbers = found[key]
        bound = _number(numbers["bound"]) if numbers["bound_says_something"] else "says nothing"
        counts = (f"{numbers['least']:,}", _number(numbers["mean"]), f"{numbers['most']:,}")
        lost.append([name, *counts, _number(numbers["expected"]), bound])
    paths = [["nodes on the path", "classes", "lost, sum", "expected", "without root", "expected"]]
    for entry in found["paths"]:
        sums = (f"{entry['lost']:,}", _number(entry["expected"]), f"{entry['lost_without_root']:,}")
        paths.append([str(entry["path"]), f"{entry['classes']:,}", *sums, _number(entry["expected_without_root"])])
    each = " a level" if found["n_tables"] > 1 else ""
    size = f"{found['n_features']:,} features in {found['n_buckets']:,} buckets{each}\n"
    said = "pairs of a node and a feature share the numbers of the table: the more per bucket, the more they blur\n"
    tables = [size + text_table(levels) + said, text_table(lost), text_table(paths)]
    return "\n" + "\n".join(tables) + (_rows_text(found["rows"]) if "rows" in found else "")


def _rows_text(found: dict[str, Any]) -> str:
    size, lost, expected = (_number(found[key]) for key in ("support", "lost", "expected"))
    unrooted, expected_unrooted = (_number(found[f"{key}_without_root"]) for key in ("lost", "expected"))
    return (
        f"\n{found['rows']:,} test rows, evenly drawn, each under the path of its own class: {size} features not zero;"
        f" of these {lost} lost ({expected} expected), without the root {unrooted} ({expected_unrooted})\n"
    )


def _number(value: float) -> str:
    """Three digits where a number is small, thousands marked where it is large."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
