"""inspect DATASET: what a dataset is like, in text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.byte_sizes import human_bytes
from pipeline.commands.looking import clean
from pipeline.dataset import SPLITS
from pipeline.dataset_facts import FEW_ROWS, TOP_SHARE
from pipeline.fields import fields_text, fit
from pipeline.outputs import NAME_CELLS, cut_to, text_table
from pipeline.report.numbers import percent
from tasks.io import FEATURES

SPREAD = ("least", "median", "mean", "most")


def is_dataset(path: Path) -> bool:
    """Whether this is meant for a dataset, as far as its files tell; a model has a card."""
    return not (path / "model.json").is_file() and ((path / "zarr.json").is_file() or (path / FEATURES).is_dir())


def dataset_text(found: dict[str, Any]) -> str:
    """Facts, then how rows and classes are spread, then notes."""
    parts = ", ".join(f"{found['split_counts'][name]:,} {name}" for name in SPLITS)
    taxonomy, where = found["taxonomy"], found["made_from"]
    lines = [
        ("dataset", found["dataset"]),
        ("rows", f"{found['n_rows']:,} ({parts})"),
        *([("features", f"{found['n_features']:,}")] if found["n_features"] else []),
        ("classes", f"{found['n_classes']:,}"),
        ("body", f"{found['body']} {found['dtype']}"),
        *([("encoding", _encoding_text(found["encoding"]))] if found["encoding"] else []),
        ("blocks", f"{found['blocks']:,} of {found['block_rows']:,} rows"),
        ("on disk", f"{human_bytes(found['disk_bytes'])}, {human_bytes(found['rows_disk_bytes'])} of them rows"),
        *_value_lines(found),
        ("taxonomy", "none" if taxonomy is None else _taxonomy_text(taxonomy)),
        *((f"  {key}", json.dumps(value, ensure_ascii=False)) for key, value in where.items()),
        ("digest", found["digests"]["content"]),
        *((f"  {name}", found["digests"][name]) for name in ("classes", "taxonomy")),
    ]
    text = fields_text(lines)
    told = (f"{note['level']}: {note['code']}: {note['text']}" for note in found["notes"])
    notes = "".join(f"{fit(line)}\n" for line in told)
    tables = [table for table in (_spread_table(found), _class_table(found["classes"]), notes) if table]
    return clean(text + "".join(f"\n{table}" for table in tables))


def _encoding_text(told: dict[str, Any]) -> str:
    settings = ", ".join(f"{key} {told[key]}" for key in ("subquantizers", "bits", "sample", "iterations", "seed"))
    return f"{told['kind']}, {settings}; squared error {told['relative_error']:.4g} of the squared norm"


def _value_lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    values = found.get("values")
    if values is None:
        return []
    wrong = f"{values['not_finite']:,} not finite" if values["not_finite"] else "all finite"
    zero = f", {found['zero_rows']:,} rows hold only zeros" if found["zero_rows"] else ""
    return [
        ("values", f"{_number(values['least'])} to {_number(values['most'])}, {wrong}"),
        ("not zero", f"{percent(found['density'])} of the values{zero}"),
    ]


def _spread_table(found: dict[str, Any]) -> str:
    """Of what a row has: numbers that are not zero, its norm; or the bytes of its file."""
    kinds = (("non-zeros a row", "nonzeros"), ("norm of a row", "norms"), ("bytes of a row", "item_bytes"))
    lines = [
        [name, *(_number(found[key][word]) for word in SPREAD)] for name, key in kinds if found.get(key) is not None
    ]
    return text_table([["", *SPREAD], *lines]) if lines else ""


def _class_table(classes: dict[str, dict[str, Any]]) -> str:
    head = ["rows a class", *SPLITS]
    named = [one for one in classes.values() if one["rows"]]
    if not named:
        return ""
    rows = [
        ["largest", *(f"{one['largest']:,}" for one in classes.values())],
        ["median", *(_number(one["median"]) for one in classes.values())],
        ["smallest", *(f"{one['smallest']:,}" for one in classes.values())],
        [f"classes with 1 to {FEW_ROWS - 1}", *(f"{one['few']:,}" for one in classes.values())],
        ["classes without any", *(f"{one['empty']:,}" for one in classes.values())],
        [f"rows of the largest {percent(TOP_SHARE)}", *(percent(one["top_share"]) for one in classes.values())],
        ["Gini coefficient", *(f"{one['gini']:.3f}" for one in classes.values())],
    ]
    first = named[0]
    largest, smallest = (cut_to(repr(first[key]), NAME_CELLS) for key in ("largest_class", "smallest_class"))
    return text_table([head, *rows]) + f"{fit(f'largest: {largest}; smallest: {smallest}')}\n"


def _taxonomy_text(found: dict[str, Any]) -> str:
    depth = found["depth"]
    deep = f"{depth['least']} to {depth['most']} (mean {depth['mean']:.3g})"
    single = f"; {found['single_child']:,} nodes have one child" if found["single_child"] else ""
    return (
        f"{found['nodes']:,} nodes, {found['leaves']:,} of them leaves, at depth "
        f"{depth['most'] if depth['least'] == depth['most'] else deep}; at most {found['widest']:,} children "
        f"({cut_to(found['widest_node'], NAME_CELLS)}){single}"
    )


def _number(value: float) -> str:
    """Whole numbers whole, thousands marked; four digits of others."""
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"
