"""The model card: README.md with a YAML head, written from the same numbers as metrics.json."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from tasks.models.certificate import certificate_line
from tasks.models.feature_names import ESTIMATOR, FEATURES, feature_names
from tasks.models.flat import PROBABILISTIC
from tasks.models.registry import config_word

METRIC_NAMES = {  # measure and unit
    "top1": ("accuracy", "share of test rows"),
    "top5": ("top-5 accuracy", "share of test rows"),
    "mean_per_class_top1": ("accuracy, mean of classes", "share of test rows"),
    "log_loss": ("log-loss", "mean of -ln of the probability of the true class"),
    "calibration_error": ("expected calibration error of the first class", "probability, 15 bins"),
    "hier_err": ("hier. error", "height of the lowest common ancestor, mean of test rows"),
    "test_ops_per_row": ("dot products per row", "products of n_features numbers"),
    "speedup": ("speed-up over one-vs-rest", "ratio of dot products per row"),
    "train_ops_per_row": ("training ops per row", "products of n_features numbers"),
    "model_bytes": ("parameters", "bytes"),
    "training_bytes": ("parameters while training", "bytes"),
    "train_seconds": ("training", "seconds"),
    "predict_us_per_row": ("prediction", "processor microseconds per row"),
    "peak_bytes": ("peak memory of a worker", "bytes"),
    "test_rows": ("test rows", "rows"),
    "nodes": ("nodes of the tree", "nodes"),
    "leaves": ("leaves of the tree", "leaves"),
    "beam": ("beam of the predictions", "nodes expanded a depth at most"),
}
QUALITY = ("top1", "top5", "mean_per_class_top1", "log_loss", "hier_err")  # what model hubs list
SETTINGS = "settings"  # in the provenance: the section of the config, but for what is None
TRAINED = {  # other facts of the provenance that the card has words for, in its order
    "seed": "seed",
    "dataset_name": "dataset",
    "train_rows": "training rows",
    "dataset": "digest of the dataset",
}
TREES = ("label-tree", "bengio-tree", "kmeans-tree", "tree-svm")  # their probabilities are of paths, not of log-odds
_MARKDOWN = re.compile(  # what may begin markup where it stands: "train_rows" and 0.5 hold none
    r"[\\`*\[\]#|~$@]|(?<![^\W_])_|_(?![^\W_])|:(?=//|[\w+-]+:)|(?<=www)\.|^[+-]",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"^([0-9]{1,9})([.)])(?=\s|$)")  # an item of a list
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")


def yaml_text(text: str) -> str:
    """A YAML double-quoted scalar: JSON's escapes, and no character that YAML does not print."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is: one line, no markup, no HTML, no control characters."""
    plain = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    safe = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _NUMBERED.sub(r"\1\\\2", _MARKDOWN.sub(r"\\\g<0>", safe))


def code_text(text: str) -> str:
    """Text as a span of code of Markdown, in which a backslash escapes nothing: within more backticks than it holds."""
    plain = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    fence = "`" * (1 + max(map(len, re.findall("`+", plain)), default=0))
    pad = " " if plain[:1] in "` " or plain[-1:] in "` " else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def number(value: Any) -> str:
    """Numbers as YAML and JSON both read them; not-a-number is null."""
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    return json.dumps(value)


def rounded(value: Any) -> str:
    """For people: whole numbers with their thousands, others with five digits."""
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return f"{int(value):,}"
    return f"{value:.5g}" if isinstance(value, float) and math.isfinite(value) else number(value)


def _head(header: Mapping[str, Any], name: str, dataset: str, metrics: Mapping[str, float]) -> list[str]:
    lines = ["---", "library_name: labelgrove", "tags:", f"- {yaml_text(config_word(str(header['kind'])))}"]
    lines += ["- many-class-classification", "model-index:", f"- name: {yaml_text(name)}", "  results:"]
    lines += ["  - task:", "      type: classification", "    dataset:"]
    lines += [f"      name: {yaml_text(dataset)}", f"      type: {yaml_text(dataset)}", "    metrics:"]
    measured = [key for key in QUALITY if key in metrics]
    for key in measured:
        lines += [f"    - type: {yaml_text(key)}", f"      value: {number(metrics[key])}"]
    if not measured:
        lines[-1] += " []"
    return [*lines, "---"]


def _metric_rows(metrics: Mapping[str, float]) -> list[str]:
    order = [key for key in METRIC_NAMES if key in metrics] + sorted(set(metrics) - set(METRIC_NAMES))
    named = {key: METRIC_NAMES.get(key, (key, "")) for key in order}
    rows = [
        f"| {markdown_text(word)} | {rounded(metrics[key])} | {markdown_text(unit)} |"
        for key, (word, unit) in named.items()
    ]
    head = ["", "## Measured", "", "| measure | value | unit |", "|---|---|---|"]
    return [*head, *rows] if rows else []


def _brief(value: Any) -> str:
    """What a line has room for."""
    return f"{len(value):,} entries in model.json" if isinstance(value, list) else str(value)


def features_text(told: Mapping[str, Any]) -> str:
    """How many features have names, and the first and the last of these."""
    names = told.get("names")
    return f"{told.get('count')}" + (f", {names[0]!r} .. {names[-1]!r}" if isinstance(names, list) and names else "")


def _origin(provenance: Mapping[str, Any]) -> list[str]:
    """How it was trained: the data and the seed, what the fit has found, the settings."""
    known = [(word, provenance[key]) for key, word in TRAINED.items() if key in provenance]
    beside = (*TRAINED, SETTINGS, ESTIMATOR, FEATURES)
    rest = [(key, value) for key, value in sorted(provenance.items()) if key not in beside]
    lines = ["", "## How it was trained", ""]
    if note := _note(provenance):
        known = [(ESTIMATOR, f"{note.get('class', 'not recorded')}, its parameters are in model.json"), *known]
    if isinstance(features := provenance.get(FEATURES), Mapping):
        known.append(("named features", features_text(features)))
    lines += [f"- {markdown_text(key)}: {markdown_text(_brief(value))}" for key, value in [*known, *rest]]
    settings = provenance.get(SETTINGS)
    if isinstance(settings, Mapping) and settings:
        told = ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in sorted(settings.items()))
        lines += [f"- settings: {markdown_text(told)}"]
    return lines if len(lines) > 3 else [*lines, "Nothing is recorded."]


def raw_width(header: Mapping[str, Any]) -> int:
    """Columns of the rows that a model takes: those of its first encoder, if it carries any."""
    first: Mapping[str, Any] = next(iter(header.get("encoders", ())), {})
    if "subquantizers" in first:
        return int(first["subquantizers"]) * int(first["width"])
    return int(first.get("n_features", header["n_features"]))


def takes_images(header: Mapping[str, Any]) -> bool:
    return any(encoder["kind"] == "sift" for encoder in header.get("encoders", ()))


def _note(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an estimator has noted; empty of models that a run has made."""
    note = provenance.get(ESTIMATOR)
    return note if isinstance(note, Mapping) else {}


def _use(header: Mapping[str, Any], provenance: Mapping[str, Any]) -> list[str]:
    """Lines to type; the last ones are of rows of numbers."""
    lines = ["", "## How to use it", "", "```sh", "labelgrove predict THIS_FOLDER DATA -o predictions.parquet"]
    lines += ["labelgrove export THIS_FOLDER --to npz -o model.npz", "```", ""]
    if takes_images(header):
        return [*lines, "DATA: a folder of images, or files of them."]
    return [*lines, *_use_in_python(header, provenance)]


def _use_in_python(header: Mapping[str, Any], provenance: Mapping[str, Any]) -> list[str]:
    """Lines that take any rows, sparse ones too; of a model that an estimator has saved, labels come back as given."""
    lines = ["```python", "from pipeline import TrainedClassifier", "", 'model = TrainedClassifier.load("THIS_FOLDER")']
    lines += [f"labels = model.predict(rows)  # (n,), of rows (n, {raw_width(header)})"]
    if header.get(PROBABILISTIC):
        lines += [f"shares = model.predict_proba(rows)  # (n, {header['n_classes']}), columns as in model.classes_"]
    takes = "Rows are numbers: a NumPy array, a SciPy sparse matrix, a zarr or Dask array"
    if (known := feature_names(provenance)) is not None and known.names and known.count == raw_width(header):
        takes += f", or a data frame with the {known.count:,} columns of the fit, in their order"
    return [*lines, "```", "", f"{takes}. They are used as float32."]


def _scores(header: Mapping[str, Any]) -> str:
    """What the scores of a ranking are."""
    if not header.get(PROBABILISTIC):
        return "Scores are margins: they rank the classes of a row, and are no probabilities."
    if header["kind"] in TREES:
        return "Scores are values of paths down the tree; probabilities are made of them (`predict --proba`)."
    if header["kind"] == "kmeans-forest":
        return "Scores are probabilities, means over the trees (`predict --proba`)."
    return "Scores are log-odds: their softmax over all classes gives probabilities (`predict --proba`)."


def _limits(header: Mapping[str, Any], measured: bool) -> list[str]:
    rows = "images" if takes_images(header) else f"rows of {raw_width(header):,} features"
    return [
        "",
        "## Limits",
        "",
        f"- {_scores(header)}",
        f"- It takes {rows}, made as those that it learnt from, and names none but its {header['n_classes']:,} "
        "classes: rows of anything else get one of these, too.",
        "- Scores have the same bits on CPUs of one family (the same vector instructions) with the same versions of "
        "the libraries; elsewhere the last bits may differ, and with them the order of classes whose scores are that "
        "near.",
        "- What it was measured on is one dataset; accuracy on other data is not known."
        if measured
        else "- Nothing was measured when it was written: `labelgrove evaluate` does it on rows with labels.",
    ]


def model_card(
    header: Mapping[str, Any], name: str, provenance: Mapping[str, Any], metrics: Mapping[str, float]
) -> str:
    """README.md of a model folder.

    header      what model.json says (kind, n_features, n_classes, rows, test_rows, encoders, digest)
    provenance  where it comes from, plain JSON values: TRAINED, SETTINGS and others
    metrics     as in metrics.json, numbers only
    """
    dataset = str(provenance.get("dataset_name", provenance.get("dataset", "not recorded")))
    kind = markdown_text(config_word(str(header["kind"])))
    article = "An" if kind[:1] in "aeio" else "A"
    rows, test_rows = (code_text(str(header[key])) for key in ("rows", "test_rows"))
    lines = [*_head(header, name, dataset, metrics), "", f"# {markdown_text(name)}", ""]
    lines += [
        f"{article} {kind} classifier of {header['n_classes']:,} classes, {header['n_features']:,} features, written "
        f"by labelgrove. Learnt from rows {rows}, predicts on rows {test_rows}."
    ]
    if header.get("encoders"):
        chain = ", ".join(markdown_text(str(encoder["kind"])) for encoder in header["encoders"])
        lines += ["", f"It carries what makes these of the rows that it is given: {chain}."]
    if "certificate" in header:
        lines += ["", f"Certificate: {markdown_text(certificate_line(header['certificate']))}."]
    lines += ["", f"Content digest: `{header['digest']}`"]
    lines += [*_metric_rows(metrics), *_origin(provenance), *_use(header, provenance), *_limits(header, bool(metrics))]
    lines += ["", "## Files", ""]
    lines += ["- `model.json`: format, sizes and every definition needed to compute scores from the tensors"]
    lines += ["- `weights.safetensors`: the tensors", "- `classes.parquet`: class number, id and name"]
    lines += ["- `SHA256SUMS`: check with `sha256sum -c SHA256SUMS`", ""]
    return "\n".join(lines)
