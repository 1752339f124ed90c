"""The README's table of the config's keys, made from the schema: `python -m tests.pipeline.config_table`."""

from __future__ import annotations

import json
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from pipeline.config import (
    AdditiveMap,
    BengioTree,
    CodesEncoding,
    DataSection,
    Dwta,
    Encoding,
    EvaluateSection,
    HashLearner,
    Heshing,
    KMeansTree,
    LabelTree,
    Learner,
    MarszalekTree,
    MultiSvm,
    NearestClassMean,
    Normalize,
    OneVsRest,
    PcaEncoding,
    PqEncoding,
    PredictSection,
    RelaxedHierarchy,
    ReportSection,
    RetrieveSection,
    RivalHierarchy,
    RunConfig,
    Section,
    SgdLearner,
    SpectralTree,
    SplitLearner,
    SvmKeys,
    SvmLearner,
    TaxonomyLearner,
    TraceNorm,
    TreeLearner,
    TreeSvm,
    Wta,
)
from pipeline.image_encodings import FisherEncoding, LlcEncoding, LocalEncoding, SiftEncoding, WordsEncoding

SVM_KINDS = ("relaxed-hierarchy", "spectral-tree", "marszalek", "ovo", "dag-svm")


def repr_of(kind: str) -> str:
    return f"`{kind}`"


SECTIONS: tuple[tuple[str, tuple[type[Section], ...]], ...] = (
    ("at the top", (RunConfig,)),
    ("`[data]`", (DataSection,)),
    ("`[[encode]]` of any kind", (Encoding,)),
    ("... `pq`", (PqEncoding,)),
    ("... `pca`", (PcaEncoding,)),
    ("... `sift`", (SiftEncoding,)),
    ("... `bow` `llc` `fisher`", (LocalEncoding,)),
    ("... `bow` `llc`", (WordsEncoding,)),
    ("... `llc`", (LlcEncoding,)),
    ("... `fisher`", (FisherEncoding,)),
    ("... `wta` `dwta`", (CodesEncoding,)),
    ("... `wta`", (Wta,)),
    ("... `dwta`", (Dwta,)),
    ("... `chi2-map` `hi-map`", (AdditiveMap,)),
    ("... `normalize`", (Normalize,)),
    ("`[[train]]` of any kind", (Learner,)),
    ("... learnt by SGD: `ovr` to `kmeans-tree`", (SgdLearner,)),
    ("... `ovr`", (OneVsRest,)),
    ("... `msvm`", (MultiSvm,)),
    ("... `heshing` `hie-svm` `tree-svm`", (TaxonomyLearner,)),
    ("... `tree-svm`", (TreeSvm,)),
    ("... `heshing` `flat-hash`", (HashLearner,)),
    ("... `heshing`", (Heshing,)),
    ("... `label-tree` `bengio-tree` `kmeans-tree`", (TreeLearner,)),
    ("... `label-tree`", (LabelTree,)),
    ("... `bengio-tree`", (BengioTree,)),
    ("... `kmeans-tree`", (KMeansTree,)),
    ("... `trace-norm`", (TraceNorm,)),
    ("... `nearest-class-mean`", (NearestClassMean,)),
    (f"... {' '.join(map(repr_of, SVM_KINDS))}, `ovr` with a kernel", (SvmKeys,)),
    (f"... {' '.join(map(repr_of, SVM_KINDS))}", (SvmLearner,)),
    (f"... {' '.join(map(repr_of, SVM_KINDS[:3]))}", (SplitLearner,)),
    ("... `relaxed-hierarchy`", (RelaxedHierarchy,)),
    ("... `spectral-tree` `marszalek`", (RivalHierarchy,)),
    ("... `spectral-tree`", (SpectralTree,)),
    ("... `marszalek`", (MarszalekTree,)),
    ("`[[retrieve]]`", (RetrieveSection,)),
    ("`[predict]`", (PredictSection,)),
    ("`[evaluate]`", (EvaluateSection,)),
    ("`[report]`", (ReportSection,)),
)
NOT_KEYS = {
    "kind",
    "keeps_columns",
    "data",
    "encode",
    "train",
    "retrieve",
    "predict",
    "evaluate",
    "report",
}  # sections, and what tells them apart


def rows() -> list[tuple[str, str, str, str]]:
    """(section, key, default, meaning) of every key, as the schema has them."""
    found = []
    for section, kinds in SECTIONS:
        for kind in kinds:
            own = [key for key in kind.__annotations__ if key in kind.model_fields and key not in NOT_KEYS]
            fields = {key: kind.model_fields[key] for key in own}
            found += [(section, f"`{key}`", default_of(field), meaning_of(field)) for key, field in fields.items()]
    return found


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    return "-" if field.default in (None, "") else f"`{json.dumps(field.default)}`"


def meaning_of(field: FieldInfo) -> str:
    others = [f"`{json.dumps(choice)}`" for choice in choices(field.annotation) if choice != field.default]
    listed = f"; or {', '.join(others)}" if others else ""
    return f"{field.description}{listed}".replace("|", "\\|")


def choices(annotation: Any) -> list[Any]:
    """The values that a type lists, unless it allows others as well."""
    return list(get_args(annotation)) if get_origin(annotation) is Literal else []


def table() -> str:
    lines = ["| where | key | default | meaning |", "|---|---|---|---|"]
    before = ""
    for section, key, default, meaning in rows():
        lines.append(f"| {section if section != before else ''} | {key} | {default} | {meaning} |")
        before = section
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    print(table(), end="")
