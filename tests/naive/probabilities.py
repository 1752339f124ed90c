"""Slow, obvious twins: scores of factored weights, softmax, log-loss and calibration error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def factored_scores(row: Any, u: Any, theta: Any, v: Any, bias: Any) -> list[float]:
    """Entry by entry of W = sum over j of theta_j u_j v_j', in float64."""
    scores = []
    for c in range(len(v)):
        score = 0.0 if bias is None else float(bias[c])
        for i in range(len(row)):
            weight = sum(float(theta[j]) * float(u[i, j]) * float(v[c, j]) for j in range(len(theta)))
            score += float(row[i]) * weight
        scores.append(score)
    return scores


def softmax(scores: Sequence[float]) -> list[float]:
    """exp(z_c - max z) over their sum."""
    highest = max(float(score) for score in scores)
    powers = [math.exp(float(score) - highest) for score in scores]
    return [power / math.fsum(powers) for power in powers]


def log_probability(scores: Sequence[float], label: int) -> float:
    """z_label - log of the sum of exp(z_c)."""
    highest = max(float(score) for score in scores)
    return float(scores[label]) - highest - math.log(math.fsum(math.exp(float(z) - highest) for z in scores))


def calibration_error(confidence: Sequence[float], right: Sequence[bool], n_bins: int) -> float:
    """Guo et al. 2017, eq. 3: bin m holds the rows with (m - 1) / n_bins < confidence <= m / n_bins."""
    error = 0.0
    for m in range(1, n_bins + 1):
        inside = [
            i for i, p in enumerate(confidence) if (m - 1) / n_bins < p <= m / n_bins or (m == 1 and p <= 1 / n_bins)
        ]
        if inside:
            accuracy = sum(bool(right[i]) for i in inside) / len(inside)
            mean = math.fsum(float(confidence[i]) for i in inside) / len(inside)
            error += len(inside) / len(confidence) * abs(accuracy - mean)
    return error
