"""model.json: what a model says about itself, and the digest of its content."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tasks.digest import combine, digest_arrays, digest_text
from tasks.models.base import Model
from tasks.models.encoder import Encoder
from tasks.models.errors import ModelFormat
from tasks.models.mapped import release
from tasks.models.sums import HEADER, WEIGHTS
from tasks.models.tensors import refuse_unsafe_name, shapes_of
from tasks.rows.base import Array

FORMAT, VERSION = "labelgrove.model", 1
MAX_HEADER_BYTES = 100 * 2**20
RESTORE = "restore the folder from where it came, or train again"
WRITTEN = ("digest", "metrics", "provenance", "name")  # by the folder, beside what makes up the content
NOT_CONTENT = (*WRITTEN, "beam")  # of model.json: differ between equal models


def make_header(
    model: Model, encoders: Sequence[Encoder], tensors: dict[str, Array], names: dict[str, str]
) -> dict[str, Any]:
    """model.json but for what is measured and where it comes from; names: the encodings it learnt from and predicts on.

    Raises ValueError when the model claims a field that the folder writes.
    """
    own = model.header()
    ours = {
        "format": FORMAT,
        "version": VERSION,
        "kind": model.kind,
        "n_features": model.n_features,
        "n_classes": model.n_classes,
        "weights": WEIGHTS,
        "encoders": [encoder.header() for encoder in encoders],
        "tensors": shapes_of(tensors),
        **names,
    }
    clash = {key for key in own if key in {*ours, *WRITTEN} and own[key] != ours.get(key)}
    if clash:
        raise ValueError(f"a model's header must not use {sorted(clash)}: the folder writes them")
    return {**own, **ours}


def content_digest(header: Mapping[str, Any], tensors: Mapping[str, Array], *texts: Sequence[str]) -> str:
    """One digest of what a model computes: definitions, tensors, texts (class ids, names); no times, no metrics."""
    content = {key: value for key, value in header.items() if key not in NOT_CONTENT}
    parts = [digest_text(json_text(content)), *(digest_text(*text) for text in texts)]
    for name in sorted(tensors):
        parts += [digest_text(name), digest_arrays(tensors[name])]
        release(tensors[name])
    return combine(parts)


def read_header(place: Path) -> dict[str, Any]:
    """model.json, checked for format, version and the fields that everything else relies on."""
    path = place / HEADER
    if path.stat().st_size > MAX_HEADER_BYTES:
        raise ModelFormat(f"model.json is larger than {MAX_HEADER_BYTES:,} bytes", str(path), RESTORE)
    try:
        header = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelFormat(f"model.json is no JSON ({error})", str(path), RESTORE) from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFormat(f"it is no {FORMAT}", str(path), "give the folder of a model that labelgrove wrote")
    _check_version(header.get("version"), str(path))
    weights = header.get("weights")
    refuse_unsafe_name(str(weights), str(path))
    if weights != WEIGHTS:
        raise ModelFormat(f"weights are in {WEIGHTS}, not in {weights!r}", str(path), RESTORE)
    expected = {"n_features": int, "n_classes": int, "tensors": dict, "encoders": list, "kind": str, "digest": str}
    wrong = [key for key, kind in expected.items() if type(header.get(key)) is not kind]
    if wrong or not all(isinstance(part, dict) and "kind" in part for part in header["encoders"]):
        raise ModelFormat(f"model.json lacks a proper {', '.join(wrong) or 'encoder kind'}", str(path), RESTORE)
    return header


def _check_version(version: object, where: str) -> None:
    if type(version) is not int or version < 1:
        raise ModelFormat(f"version {version!r} is no version", where, RESTORE)
    if version > VERSION:
        what = f"it is version {version} of {FORMAT}; this program reads up to version {VERSION}"
        raise ModelFormat(what, where, "use a newer labelgrove")


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON values only: NumPy numbers become Python's, not-a-number becomes null."""

    def one(value: Any) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {str(key): one(value) for key, value in sorted(values.items())}


def json_text(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=indent)
