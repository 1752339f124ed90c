"""The model card: README.md with a YAML head, written from the same numbers as metrics.json."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from tasks.models.certificate import certificate_line
from tasks.models.flat import PROBABILISTIC
from tasks.models.registry import config_word

METRIC_NAMES = {
    "top1": "top-1 accuracy",
    "top5": "top-5 accuracy",
    "mean_per_class_top1": "mean per-class top-1 accuracy",
    "log_loss": "log-loss (mean of -log of the probability of the true class, natural log)",
    "calibration_error": "expected calibration error of the first class, 15 bins",
    "hier_err": "hierarchical error (height of the lowest common ancestor)",
    "test_ops_per_row": "vector operations per row when predicting",
    "speedup": "speed-up over one-vs-rest, in vector operations",
    "train_ops_per_row": "vector operations per training row",
    "model_bytes": "bytes of parameters",
    "training_bytes": "bytes of learnt numbers held while training",
    "train_seconds": "seconds of training",
    "predict_us_per_row": "microseconds of prediction per row",
    "peak_bytes": "peak memory of a worker, bytes",
}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~$:@])")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")


def yaml_text(text: str) -> str:
    """A YAML double-quoted scalar: JSON's escapes, and no character that YAML does not print."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is: one line, no markup, no HTML, no control characters."""
    plain = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    safe = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", safe)


def number(value: Any) -> str:
    """Numbers as YAML and JSON both read them; not-a-number is null."""
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    return json.dumps(value)


def _head(header: Mapping[str, Any], name: str, dataset: str, metrics: Mapping[str, float]) -> list[str]:
    lines = ["---", "library_name: labelgrove", "tags:", f"- {yaml_text(config_word(str(header['kind'])))}"]
    lines += ["- many-class-classification", "model-index:", f"- name: {yaml_text(name)}", "  results:"]
    lines += ["  - task:", "      type: classification", "    dataset:"]
    lines += [f"      name: {yaml_text(dataset)}", f"      type: {yaml_text(dataset)}", "    metrics:"]
    for key in sorted(metrics):
        lines += [f"    - type: {yaml_text(key)}", f"      value: {number(metrics[key])}"]
    if not metrics:
        lines[-1] += " []"
    return [*lines, "---"]


def _metric_rows(metrics: Mapping[str, float]) -> list[str]:
    order = [key for key in METRIC_NAMES if key in metrics] + sorted(set(metrics) - set(METRIC_NAMES))
    rows = [f"| {markdown_text(METRIC_NAMES.get(key, key))} | {number(metrics[key])} |" for key in order]
    return ["", "## Measured", "", "| measure | value |", "|---|---|", *rows] if rows else []


def _brief(value: Any) -> str:
    """What a line has room for."""
    return f"{len(value):,} entries in model.json" if isinstance(value, list) else str(value)


def model_card(
    header: Mapping[str, Any], name: str, provenance: Mapping[str, Any], metrics: Mapping[str, float]
) -> str:
    """README.md of a model folder.

    header      what model.json says (kind, n_features, n_classes, rows, test_rows, digest)
    provenance  where it comes from, plain JSON values; "dataset" names the data
    metrics     as in metrics.json, numbers only
    """
    dataset = str(provenance.get("dataset", "not recorded"))
    kind = markdown_text(config_word(str(header["kind"])))
    sizes = f"{header['n_classes']:,} classes, {header['n_features']:,} features"
    lines = [*_head(header, name, dataset, metrics), "", f"# {markdown_text(name)}", ""]
    lines += [
        f"{'An' if kind[:1] in 'aeio' else 'A'} {kind} classifier of {sizes}, written by labelgrove. Learnt from rows "
    ]
    lines[-1] += (
        f"`{markdown_text(str(header['rows']))}`, predicts on rows `{markdown_text(str(header['test_rows']))}`."
    )
    if "certificate" in header:
        lines += ["", f"Certificate: {markdown_text(certificate_line(header['certificate']))}."]
    if header.get(PROBABILISTIC):
        lines += ["", "Scores are log-odds: their softmax over all classes gives probabilities (`predict --proba`)."]
    lines += ["", f"Content digest: `{header['digest']}`"]
    lines += _metric_rows(metrics)
    lines += ["", "## Where it comes from", ""]
    lines += [f"- {markdown_text(key)}: {markdown_text(_brief(value))}" for key, value in sorted(provenance.items())]
    lines += ["", "## Files", ""]
    lines += ["- `model.json`: format, sizes and every definition needed to compute scores from the tensors"]
    lines += ["- `weights.safetensors`: the tensors", "- `classes.parquet`: class number, id and name"]
    lines += ["- `SHA256SUMS`: check with `sha256sum -c SHA256SUMS`", ""]
    lines += ["Predict: `labelgrove predict THIS_FOLDER DATA -o predictions.parquet`", ""]
    return "\n".join(lines)
