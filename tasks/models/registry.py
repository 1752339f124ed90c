"""Which class loads which kind of model: import names, so that only the kind at hand is imported."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tasks.models.errors import ModelFormat

MODELS = {
    "ovr": "tasks.models.class_ranges:FlatModels",
    "msvm": "tasks.models.linear:LinearModel",
    "hie-svm": "tasks.models.linear:LinearModel",
    "multinomial": "tasks.models.linear:LinearModel",
    "trace-norm": "tasks.models.factored:TraceNormModels",
    "nearest-class-mean": "tasks.models.class_ranges:FlatModels",
    "heshing": "tasks.models.hashed:HashedModel",
    "flat-hash": "tasks.models.hashed:HashedModel",
    "label-tree": "tasks.trees.tree:LabelTree",
    "bengio-tree": "tasks.trees.tree:LabelTree",
    "kmeans-tree": "tasks.trees.tree:LabelTree",
    "kmeans-forest": "tasks.trees.kmeans.forest:Forest",
    "tree-svm": "tasks.trees.tree:LabelTree",
    "relaxed-hierarchy": "tasks.relaxed.hierarchy:Hierarchy",
    "spectral-tree": "tasks.relaxed.hierarchy:Hierarchy",
    "marszalek": "tasks.relaxed.hierarchy:Hierarchy",
    "svm-ovr": "tasks.relaxed.hierarchy:Hierarchy",
    "ovo": "tasks.relaxed.pairs:PairModel",
    "dag-svm": "tasks.relaxed.pairs:PairModel",
}
ENCODERS = {
    "pq": "tasks.models.encoder:PqEncoder",
    "pca": "tasks.features.pca_encoder:PcaEncoder",
    "wta": "tasks.models.code_encoder:CodeEncoder",
    "dwta": "tasks.models.code_encoder:CodeEncoder",
    "chi2-map": "tasks.features.additive_encoder:AdditiveEncoder",
    "hi-map": "tasks.features.additive_encoder:AdditiveEncoder",
    "sift": "tasks.features.sift_encoder:SiftEncoder",
    "normalize": "tasks.features.normalize_encoder:NormalizeEncoder",
    "bow": "tasks.features.bow:BowEncoder",
    "llc": "tasks.features.llc_encoder:LlcEncoder",
    "fisher": "tasks.features.fisher_encoder:FisherEncoder",
}

OTHERWISE = {"svm-ovr": "ovr"}  # kinds of models that configs call by another word


def config_word(kind: str) -> str:
    """What a config calls the kind of a model."""
    return OTHERWISE.get(kind, kind)


def class_of(kind: object, table: dict[str, str], where: str) -> Any:
    """The class of a kind; raises ModelFormat for a kind that is not in the table (names never come from a file)."""
    target = table.get(kind) if isinstance(kind, str) else None
    if target is None:
        known = ", ".join(sorted(table))
        raise ModelFormat(f"unknown kind {kind!r}: this program knows {known}", where, "use the version that wrote it")
    module, name = target.split(":")
    return getattr(import_module(module), name)
