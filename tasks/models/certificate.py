"""What a trace-norm model says about how good its weights are: kept in model.json, checked whenever it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tasks.models.errors import ModelFormat

TRACE_NORM = "trace-norm"  # the kind of the models that carry a certificate
NUMBERS = (
    "objective",
    "risk",
    "trace_norm",
    "lambda1",
    "lambda2",
    "lambda1_max",
    "gap",
    "relative_gap",
    "c1",
    "c2",
    "rank",
    "atoms",
    "epsilon",
)
SPECTRUM, SOLVER = "spectrum", "solver"
SENSE = {
    "objective": "lambda1 x trace norm + lambda2 x squared Frobenius norm + risk: what training minimises",
    "risk": "mean multinomial logistic loss of the training rows, natural log",
    "trace_norm": "sum of the singular values of the weights",
    "lambda1": "weight of the trace norm",
    "lambda2": "weight of the squared Frobenius norm",
    "lambda1_max": "from this lambda1 on all weights are zero",
    "gap": "duality gap: no weights at all have an objective lower than this one by more",
    "relative_gap": "the gap over the objective",
    "c1": "excess of the largest singular value of the smooth part's gradient G over lambda1: (C1) holds up to it",
    "c2": "largest |u'Gv + lambda1| over the singular vectors of the weights: (C2) holds up to it",
    "rank": "rank of the weights",
    "atoms": "rank-one terms that the weights are a sum of",
    "epsilon": "what both (C1) and (C2) hold up to",
    SPECTRUM: "singular values of the weights, largest first",
    SOLVER: "how the weights were found",
}


def checked_certificate(certificate: object) -> dict[str, Any]:
    """A copy: NUMBERS and any other entry are finite numbers, but for `spectrum` (list) and `solver` (text).

    Raises ModelFormat, also when an entry is missing or a singular value is negative.
    """
    if not isinstance(certificate, Mapping):
        raise ModelFormat(f"a {TRACE_NORM} model needs a certificate: a table of numbers")
    missing = [name for name in (*NUMBERS, SPECTRUM, SOLVER) if name not in certificate]
    if missing:
        raise ModelFormat(f"the certificate lacks {', '.join(missing)}")
    wrong = [str(name) for name, value in certificate.items() if not _allowed(name, value)]
    if wrong:
        raise ModelFormat(f"the certificate has no proper value of {', '.join(wrong)}: expected finite numbers")
    return {**certificate, SPECTRUM: [float(value) for value in certificate[SPECTRUM]]}


def _allowed(name: object, value: object) -> bool:
    if name == SOLVER:
        return isinstance(value, str)
    if name == SPECTRUM:
        return isinstance(value, list) and all(is_number(one) and one >= 0 for one in value)
    return isinstance(name, str) and is_number(value)


def plain_certificate(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and arrays of NumPy as Python's own numbers and lists, as JSON takes them."""
    return {
        str(name): value.tolist() if isinstance(value, np.generic | np.ndarray) else value
        for name, value in certificate.items()
    }


def is_number(value: object) -> bool:
    """A finite int or float of Python's own (what JSON holds): no truth value, no int that is too large for a float."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def certificate_line(certificate: Mapping[str, Any]) -> str:
    """The certificate in a line, for the model card."""
    return (
        f"rank {certificate['rank']:,}, duality gap {certificate['gap']:.3g} "
        f"({certificate['relative_gap']:.3g} of the objective {certificate['objective']:.6g}), "
        f"C1 {certificate['c1']:.3g}, C2 {certificate['c2']:.3g}, "
        f"lambda1 {certificate['lambda1']:.3g}, lambda2 {certificate['lambda2']:.3g}, by {certificate['solver']}"
    )
