"""inspect of models made of support vector machines: their setting, kernel, shape, and what they are made of."""

from __future__ import annotations

import ast
from typing import Any

from tasks.models.base import Model
from tasks.models.registry import config_word
from tasks.relaxed.hierarchy import ONE_VS_ALL, Hierarchy
from tasks.relaxed.pairs import DAG, MAX_WINS, PairModel
from tasks.svm.bank import Bank
from tasks.svm.kernel_bank import KernelBank
from tasks.svm.kernels import OF_DISTANCES, Kernel

SHOWN = ("rho", "balance", "alpha", "levels")  # of a setting, in words
SCORES = {
    ONE_VS_ALL: "margins",
    MAX_WINS: "votes: of how many pairs a class is the winner",
    DAG: "rounds: how long a class has stayed in the list",
}
OF_JUDGES = "; of rows whose ways end at different classes those of the judges"
OF_LEAF = "margins of the leaf that a row comes to; in a leaf of one class those of the least sure split on the way"


def kind_of(model: Model) -> str:
    """The kind of a model as a config names it."""
    return config_word(model.kind)


def svm_facts(model: Model) -> dict[str, Any]:
    """Of a hierarchy of support vector machines or of their pairs what it is like, plain values; {} of other models.

    setting  keys of the rule that the nodes were learnt by; width: None where the kernel has none; classifiers: of all
             nodes, without judges
    """
    if not isinstance(model, Hierarchy | PairModel):
        return {}
    kernel = _kernel_of(model.bank)
    learnt = model.label_set(0) if isinstance(model, Hierarchy) else model.classes
    return {
        "kernel": kernel.kind,
        "width": kernel.width if kernel.kind in OF_DISTANCES else None,
        "C": model.facts.get("C"),
        "setting": setting_of(str(model.facts.get("rule", ""))),
        **_shape(model),
        "classifiers": model.bank.n_classifiers - _judges(model),
        "judges": _judges(model),
        "doubt": model.doubt if isinstance(model, Hierarchy) else 0.0,
        "support_vectors": model.n_support,
        "training_rows": model.facts.get("training_rows"),
        "classes": int(learnt.size),
        "drawn": "drawn" in model.facts,
        "scores": SCORES.get(model.kind, OF_LEAF) + (OF_JUDGES if _judges(model) else ""),
    }


def _kernel_of(bank: Bank) -> Kernel:
    return bank.kernel if isinstance(bank, KernelBank) else Kernel("linear")


def _judges(model: Hierarchy | PairModel) -> int:
    return model.n_judges if isinstance(model, Hierarchy) else 0


def _shape(model: Hierarchy | PairModel) -> dict[str, int]:
    """Of pairs how many a row is asked for, of a hierarchy its nodes; one-vs-rest has no shape."""
    if isinstance(model, PairModel):
        return {"asked": model.classifiers_per_row}
    if model.kind == ONE_VS_ALL:
        return {}
    splits, ovr_leaves = int(model.is_split.sum()), int(model.one_vs_all.sum())
    return {
        "nodes": model.n_nodes,
        "splits": splits,
        "single_leaves": model.n_nodes - splits - ovr_leaves,
        "ovr_leaves": ovr_leaves,
        "ovr_leaf_classes": int(model.sizes[model.one_vs_all].sum()),
        "depth": int(model.depth_of.max()),
    }


def setting_of(rule: str) -> dict[str, Any]:
    """The keys of what a model says of its rule: Rule(rho=0.5, balance=10) as a dict; {} where it says nothing."""
    try:
        call = ast.parse(rule, mode="eval").body
        keys = call.keywords if isinstance(call, ast.Call) else []
        return {key.arg: ast.literal_eval(key.value) for key in keys if key.arg}
    except (SyntaxError, ValueError):
        return {}


def svm_lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines of `inspect`'s table, from what `svm_facts` has given."""
    width = "" if found["width"] is None else f" of width {found['width']:.4g}"
    cost = "" if found["C"] is None else f"; C {found['C']:.4g}"
    setting = ", ".join(f"{key} {found['setting'][key]}" for key in SHOWN if key in found["setting"])
    setting += ", doubt 0" if "nodes" in found and not found["judges"] else ""
    asked = found.get("asked")
    told = "" if asked is None else f", {'all' if asked == found['classifiers'] else f'{asked:,}'} asked for a row"
    support = f" over {found['support_vectors']:,} support vectors" if found["kernel"] != "linear" else ""
    rows = "" if found["training_rows"] is None else f"; {found['training_rows']:,} training rows"
    return [
        ("kernel", f"{found['kernel']}{width}{cost}"),
        *([("setting", setting)] if setting else []),
        *([("hierarchy", _shape_text(found))] if "nodes" in found else []),
        *([("doubt", _doubt_text(found))] if found["judges"] else []),
        ("classifiers", f"{found['classifiers']:,}{support}{told}{rows}"),
    ]


def _doubt_text(found: dict[str, Any]) -> str:
    ways = f"{found['doubt']:g}: rows so near a split go both ways, and are judged by one-vs-rest"
    return f"{ways}: {found['judges']:,} judges"


def _shape_text(found: dict[str, Any]) -> str:
    held = f", one-vs-all leaves {found['ovr_leaves']:,} ({found['ovr_leaf_classes']:,} classes)"
    leaves = f"leaves of one class {found['single_leaves']:,}" + (held if found["ovr_leaves"] else "")
    return f"nodes {found['nodes']:,}: splits {found['splits']:,}, {leaves}; depth {found['depth']}"


def learnt_text(n_classes: int, found: dict[str, Any] | None) -> str:
    """Classes of the table, and how many were learnt where these are known to be fewer."""
    if found is None or found["classes"] == n_classes:
        return f"{n_classes:,}"
    return f"{n_classes:,}, {found['classes']:,} of them learnt" + (", drawn at random" if found["drawn"] else "")
