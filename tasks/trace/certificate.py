"""How near the optimum weights are, computed from the weights alone (SPECS section 3, "Certificates").

Duality. The loss of row i is the largest of q.z - H*(q) over probabilities q, H the entropy: logsumexp(z) - z_y =
max over q of H(q) + (q - e_y).z. So for any q_i, writing G = (1/n) sum of x_i (q_i - e_y)',

    J(W, b) >= D = (1/n) sum H(q_i) - Omega*(G),
    Omega*(G) = sum over j of max(0, sigma_j(G) - lambda1)^2 / (4 lambda2),

where Omega* is the conjugate of lambda1 |.|_* + lambda2 |.|_F^2; with lambda2 = 0 it is 0 if sigma_max(G) <= lambda1,
else infinite. With a free bias, sum of (q_i - e_y) must vanish too (`tasks.trace.balance`). The points tried are
q_i = e_y + t s_y (p_i - e_y), t in [0, 1], for which G is t times one matrix and each H(q_i) is concave in t: the chord
between two values of t at which entropies were summed bounds them from below between, so D is a true bound for any t.
At t = 0, D = 0: the gap is never more than J.
"""

from __future__ import annotations

import numpy as np

from tasks.rows.base import Array
from tasks.trace.balance import balanced_scale, log_shares, missed_by_bias, without_empty
from tasks.trace.objective import penalty_of, point_of, weights_of
from tasks.trace.point import Basis, Point
from tasks.trace.risk import SHRINK, Risk, RiskSums
from tasks.trace.singular import values_above
from tasks.trace.solution import Certificate, Factors, Penalty

GRID = np.ascontiguousarray(SHRINK[::-1])  # rising from 0 to 1
ZOOMS, CUTS = 8, 16  # the search for the best t: each zoom keeps 2 of CUTS parts


def certify(risk: Risk, factors: Factors, bias: Array | None, penalty: Penalty) -> Certificate:
    """The certificate of W = u diag(theta) v' and the bias, whoever found them.

    factors.u joins the risk's groups, rounded to its floats: the certificate is of these weights. Costs one pass over
    the rows, two with a bias: the dual point needs a gradient of its own there.
    """
    point = point_of(risk, factors, bias)
    here = risk.gradient(point)
    dual = here if bias is None else balanced_sums(risk, point)
    objective = penalty_of(factors.theta, penalty) + here.loss
    gap = gap_of(dual, objective, penalty)
    smooth = here.gradient + 2 * penalty.lambda2 * weights_of(factors)
    slopes = np.einsum("dr,dr->r", factors.u, smooth @ factors.v)
    return Certificate(
        objective=objective,
        risk=here.loss,
        trace_norm=float(factors.theta.sum()),
        gap=gap,
        relative_gap=relative(gap, objective),
        c1=max(0.0, float(values_above(smooth, 0.0).max(initial=0.0)) - penalty.lambda1),
        c2=float(np.abs(slopes + penalty.lambda1).max(initial=0.0)),
        rank=factors.rank,
    )


def balanced_sums(risk: Risk, point: Point) -> RiskSums:
    """Gradient and entropies of a dual point that is feasible with a free bias: one pass over X, one over projections.

    Any p serves for a dual point; that of classes without rows must be zero.
    """
    at = without_empty(point, risk.counts)
    return risk.gradient(at, balanced_scale(risk.confusion(at), risk.counts))


def gap_of(sums: RiskSums, objective: float, penalty: Penalty, counts: Array | None = None) -> float:
    """J - D, not below 0, for the dual points that `sums` (of `Risk.gradient`, any point) can offer.

    With a free bias it is a bound only if sums.bias is zero. Elsewhere it indicates the gap, with what the best bias
    would gain for the rows' `counts` of each class.
    """
    missed = 0.0 if counts is None else missed_by_bias(sums.bias, counts)
    return max(0.0, objective - dual_value(sums, penalty) + missed)


def relative(gap: float, objective: float) -> float:
    """The gap as a share of the objective; 0 where both are."""
    return gap / objective if gap > 0 else 0.0


def dual_value(sums: RiskSums, penalty: Penalty) -> float:
    """The largest D over t: a concave function of it, in pieces between the grid points."""
    values = values_above(sums.gradient, penalty.lambda1)
    entropies = sums.entropies[::-1]
    if penalty.lambda2 == 0:
        limit = penalty.lambda1 / values[0] if values.size else 1.0
        tried = np.append(GRID[limit >= GRID], limit)
        return float(np.interp(tried, GRID, entropies).max())
    low, high, best = 0.0, 1.0, 0.0
    tried = GRID
    for _ in range(ZOOMS):
        bounds = np.interp(tried, GRID, entropies) - _conjugate(tried, values, penalty)
        at = int(np.argmax(bounds))
        best = max(best, float(bounds[at]))
        low, high = tried[max(0, at - 1)], tried[min(tried.size - 1, at + 1)]
        tried = np.linspace(low, high, CUTS + 1)
    return best


def _conjugate(shrink: Array, values: Array, penalty: Penalty) -> Array:
    """Omega*(t G) for each t, lambda2 > 0; values: the singular values of G above lambda1."""
    over = np.maximum(0.0, np.outer(shrink, values) - penalty.lambda1)
    return np.asarray(np.square(over).sum(axis=1) / (4 * penalty.lambda2))


def lambda1_max(risk: Risk, bias: bool) -> float:
    """|gradient of R_n at W = 0|_2, with the best bias for it, if any: W = 0 is optimal iff lambda1 is at least it."""
    start = Point(Basis(risk.n_features), np.zeros((0, risk.n_classes)), log_shares(risk.counts) if bias else None)
    return float(values_above(risk.gradient(start).gradient, 0.0).max(initial=0.0))
