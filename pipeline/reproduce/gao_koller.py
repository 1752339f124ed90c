"""Gao & Koller, relaxed hierarchies: accuracy against relative complexity (Figures 2 to 4), what a hierarchy is like
(Figures 1 and 6), complexity against the number of classes (Figure 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pipeline.preset import MOST_PAIRED
from pipeline.report.figures import Scale, Series, line_plot
from pipeline.report.numbers import count, percent
from pipeline.report.plot import Plot
from pipeline.report.relaxed_lines import Spot, least_complexity, least_lead
from pipeline.reproduce.figure import (
    UNKNOWN,
    Cell,
    Claim,
    Part,
    Shown,
    Table,
    Verdict,
    number,
    share,
)
from pipeline.reproduce.found import Found, RunFound, mean
from pipeline.reproduce.judging import NOT_MEASURED, compared, every
from pipeline.reproduce.values import values_of

PAPER = "Gao & Koller, Discriminative Learning of Relaxed Hierarchy for Large-scale Visual Recognition"
VALUES = values_of("gao-koller")
FAMILIES = {  # kind -> what moves it, and what it is called
    "relaxed-hierarchy": ("rho", "relaxed hierarchy"),
    "spectral-tree": ("levels", "spectral tree"),
    "marszalek": ("alpha", "Marszalek & Schmid"),
    "ovr": ("", "one-vs-rest"),
    "ovo": ("", "one-vs-one"),
    "dag-svm": ("", "DAGSVM"),
}
OWN, RIVALS = "relaxed-hierarchy", ("spectral-tree", "marszalek")
ALIKE = 0.5  # points of accuracy that still count as the same
KERNEL_ROWS = 20_000  # training rows of a run with kernels
DATA = {
    2: "Caltech-256 (40 training and 40 test images of 256 classes): spatial histograms of visual words, chi2 kernel; "
    "the same mapped for a linear kernel.",
    4: "SUN-397 (50 training and 50 test images of 397 classes): GIST with an RBF kernel.",
    3: "SUN-397 (50 training and 50 test images of 397 classes): GIST with an RBF kernel, spatial HOG with histogram "
    "intersection, the same mapped for a linear kernel.",
}
WITHOUT_DOUBT = (
    "Compared are the models without doubt (doubt = 0), which is the paper's walk; relaxed hierarchies with doubt, "
    "where rows near a split go both ways, are in the run's own page."
)
LEFT_ALONE = (
    "Nodes are made one-vs-all leaves by what they lose on held-out rows, too (`most_lost`, `leaf_classes`), which "
    'the paper leaves open ("hard to partition").'
)
OWN_KERNEL = "The kernel is one that the rows suit."
KERNEL_RANGES = "rho is 0.2 to 0.9, alpha 0.2 to 0.8; the paper's ranges are 0.5 to 0.9 and 0.1 to 0.8."
DIFFERS = (
    WITHOUT_DOUBT,
    LEFT_ALONE,
    f"{OWN_KERNEL[:-1]}; the linear part is on the rows themselves, not on a map of a kernel.",
    "rho is 0.05 to 0.8 (of kernels 0.2 to 0.9), alpha 0.2 to 0.8; the paper's ranges are 0.5 to 0.9 and 0.1 to 0.8.",
    f"One-vs-one and DAGSVM are trained of {MOST_PAIRED} classes or fewer.",
)


def spots_of(run: RunFound, kind: str, cost: str = "relative_complexity") -> list[Spot]:
    """The settings of a family without doubt: relative complexity, accuracy in per cent (mean over classes)."""
    key = FAMILIES[kind][0]
    found: list[Spot] = []
    for one in run.learners(kind):
        x, y = run.value(one.name, cost), run.value(one.name, "mean_per_class_top1")
        if (getattr(one, "doubt", 0.0) or 0.0) > 0 or getattr(one, "kernel", None) is None or x is None or y is None:
            continue
        value = getattr(one, key, None) if key else None
        found.append(Spot("" if value is None else f"{value:g}", x, 100 * y, (one.name,)))
    return found


def flat_of(run: RunFound) -> float:
    """Accuracy, per cent, of one-vs-rest of the same kernel; NaN where there is none."""
    return max((spot.y for spot in spots_of(run, "ovr")), default=math.nan)


# ---- Figures 2 to 4 ------------------------------------------------------------------------------------------------


def complexity_table(run: RunFound, title: str, cost: str = "relative_complexity", note: str = "") -> Table:
    rows: list[list[Cell]] = []
    for kind, (key, told) in FAMILIES.items():
        for spot in spots_of(run, kind, cost):
            setting = f"{key} {spot.name}" if spot.name else ""
            lost = flat_of(run) - spot.y
            rows.append([told, setting, number(spot.x), share(spot.y / 100), number(lost, 1)])
    heading = ["method", "setting", "relative complexity", "accuracy", "points below one-vs-rest"]
    return Table(title, heading, rows, note, 2)


def complexity_plot(run: RunFound, key: str, cost: str = "relative_complexity") -> list[Plot]:
    lines = []
    for kind, (_, told) in FAMILIES.items():
        spots = sorted(spots_of(run, kind, cost), key=lambda spot: spot.x)
        if spots:
            lines.append(Series(told, [spot.x for spot in spots], [spot.y for spot in spots]))
    if not lines:
        return []
    svg = line_plot(lines, {}, Scale("complexity relative to one-vs-rest", count), "accuracy (mean over classes), %")
    return [Plot(f"complexity-{key}", f"Accuracy against complexity here, {key}", "Upper left is better.", svg, "")]


NOTE = "The paper's points are plotted alone; what its text says of them stands in the claims."
PANELS = {"linear": "Linear", "kernel": "Kernel", "rbf": "RBF kernel", "intersection": "Histogram intersection kernel"}


def shows_panels(cost: str = "relative_complexity") -> Callable[[Found], Shown]:
    def show(found: Found) -> Shown:
        tables = [complexity_table(run, PANELS[key], cost, NOTE) for key, run in found.runs.items()]
        return Shown(tables, [plot for key, run in found.runs.items() for plot in complexity_plot(run, key, cost)])

    return show


def on_panel(key: str, judge: Callable[[RunFound], Verdict]) -> Callable[[Found], Verdict]:
    """The judge of one panel's run; where the panel was left out, why."""

    def judged(found: Found) -> Verdict:
        if key not in found.runs:
            return Verdict(UNKNOWN, found.left_out.get(key, "its panel was not run"))
        return judge(found.runs[key])

    return judged


def without_loss(key: str, kept: str, source: str, most: float) -> Claim:
    """Complexity of relaxed hierarchies that are as accurate as one-vs-rest."""

    def judge(run: RunFound) -> Verdict:
        flat, spots = flat_of(run), spots_of(run, OWN)
        if math.isnan(flat) or not spots:
            return NOT_MEASURED
        least = least_complexity(spots, flat - ALIKE)
        if least is None:
            near = max(spots, key=lambda spot: spot.y)
            told = (
                f"none is; the most accurate has {percent(near.y / 100)} against {percent(flat / 100)}, "
                f"at {near.x:.2f} of the complexity"
            )
            return compared(False, told)
        told = f"{least:.2f} of one-vs-rest's complexity, within {ALIKE} points of its {percent(flat / 100)}"
        return compared(least <= most, told)

    text = f"without any sacrifice of accuracy, around {100 * float(kept):.3g} % of one-vs-rest's complexity ({key})"
    rule = f"at most {most:g} of it, within {ALIKE} points of accuracy"
    return Claim(text, source, rule, on_panel(key, judge))


def drop_at(run: RunFound, kind: str, complexity: float) -> float:
    """Points of accuracy below one-vs-rest of a family's best setting that is at most that complex; NaN of none."""
    best = max((spot.y for spot in spots_of(run, kind) if spot.x <= complexity), default=math.nan)
    return flat_of(run) - best


def told_of(found: Mapping[str, float | None], form: str, none: str) -> str:
    """A number of each family in words; `none` where there is none (None or NaN)."""
    told = {kind: none if x is None or math.isnan(x) else form.format(x) for kind, x in found.items()}
    return ", ".join(f"{FAMILIES[kind][1]} {text}" for kind, text in told.items())


def less_than_all(own: float, others: Mapping[str, float | None]) -> bool:
    """Whether a number is below those of all others that have one."""
    return all(x is None or math.isnan(x) or x > own for x in others.values())


def faster(key: str, values: Mapping[str, Any]) -> Claim:
    """A drop of accuracy at a speed-up, and more of it in the rivals."""
    speed, drops = float(values["faster"]), values["drop"]

    def judge(run: RunFound) -> Verdict:
        own = drop_at(run, OWN, 1 / speed)
        others = {kind: drop_at(run, kind, 1 / speed) for kind in RIVALS}
        if math.isnan(own):
            fastest = min(spots_of(run, OWN), key=lambda spot: spot.x, default=None)
            told = "not measured" if fastest is None else f"the fastest setting is {1 / fastest.x:.1f} times as fast"
            return Verdict(UNKNOWN, f"no relaxed hierarchy is {speed:g} times as fast; {told}")
        holds = own <= float(drops["relaxed"]) + ALIKE and less_than_all(own, others)
        told = told_of(others, "{:.1f} points", "never so fast")
        return compared(holds, f"relaxed hierarchy loses {own:.1f} points, {told}")

    text = (
        f"with around {drops['relaxed']}% accuracy decrease {speed:g}x faster than one-vs-all; Marszalek lose around "
        f"{drops['marszalek']}%, tree-based hierarchies {drops['spectral']}% ({key})"
    )
    rule = f"at {speed:g} times the speed, at most {ALIKE} points more than that are lost, and more by the rivals"
    return Claim(text, values["source"], rule, on_panel(key, judge))


def rivals_costlier(key: str, values: Mapping[str, Any]) -> Claim:
    """Complexity of the rivals that are as accurate as one-vs-rest, against relaxed hierarchies'."""

    def judge(run: RunFound) -> Verdict:
        level = flat_of(run) - ALIKE
        least = {kind: least_complexity(spots_of(run, kind), level) for kind in (OWN, *RIVALS)}
        if math.isnan(level) or not all(spots_of(run, kind) for kind in least):
            return NOT_MEASURED
        own, others = least[OWN], {kind: least[kind] for kind in RIVALS}
        told = told_of(least, "{:.2f}", "never as accurate")
        return compared(own is not None and less_than_all(own, others), told)

    marszalek, tree = (f"{100 * float(values[kind]):.3g}" for kind in ("marszalek", "spectral"))
    text = (
        f"Marszalek only come down to {marszalek} % of one-vs-rest's complexity, tree-based hierarchies to {tree} % "
        f"with more loss of accuracy; ours to {100 * float(values['kept']):.3g} % ({key})"
    )
    rule = f"of the settings within {ALIKE} points of one-vs-rest's accuracy, its own is the cheapest"
    return Claim(text, values["source"], rule, on_panel(key, judge))


def never_so_fast(key: str, values: Mapping[str, Any]) -> Claim:
    """No setting of a rival comes down to the complexity of relaxed hierarchies that lose no accuracy."""

    def judge(run: RunFound) -> Verdict:
        fastest = {kind: min((spot.x for spot in spots_of(run, kind)), default=math.nan) for kind in RIVALS}
        told = told_of(fastest, "{:.2f} at the least", "not measured")
        return compared(all(x > float(values["kept"]) for x in fastest.values()), told, *fastest.values())

    text = f"the other two never met this speedup no matter which accuracy level ({key})"
    rule = f"no setting of theirs has {values['kept']} of one-vs-rest's complexity or less"
    return Claim(text, values["source"], rule, on_panel(key, judge))


def better_everywhere(key: str) -> Claim:
    def judge(run: RunFound) -> Verdict:
        own = spots_of(run, OWN)
        parts = []
        for kind in RIVALS:
            lead = least_lead(own, spots_of(run, kind))
            if lead is not None:
                parts.append((lead >= -ALIKE, f"against {FAMILIES[kind][1]}: {lead:+.1f} points at the worst"))
        if not parts and own and any(spots_of(run, kind) for kind in RIVALS):
            return Verdict(UNKNOWN, "no relaxed hierarchy is as fast as a setting of a rival")
        return every(parts)

    text = f"much better performance than the other methods at the same complexity ({key})"
    rule = f"at no setting of a rival more than {ALIKE} points below it"
    return Claim(text, "section 5", rule, on_panel(key, judge))


def all_pairs(key: str, values: Mapping[str, Any]) -> Claim:
    def judge(run: RunFound) -> Verdict:
        spots = spots_of(run, "ovo")
        if not spots:
            return Verdict(UNKNOWN, "one-vs-one was not trained: there are too many classes for it in the preset")
        k = int(run.metrics["run"]["n_classes"])
        return compared(
            math.isclose(spots[0].x, (k - 1) / 2, rel_tol=0.01),
            f"{spots[0].x:g} with {k} classes; (K - 1) / 2 is {(k - 1) / 2:g}",
        )

    text = (
        f"one-vs-one with a linear kernel has a relative complexity of {values['ovo']} with {values['classes']} classes"
    )
    return Claim(text, values["source"], "(K - 1) / 2", on_panel(key, judge))


FIRST, SECOND = VALUES["figure-2"], VALUES["figure-3"]
LINEAR = Part("linear", "relaxed")
FIGURE_2 = (
    better_everywhere("linear"),
    better_everywhere("kernel"),
    without_loss("linear", FIRST["linear"]["kept"], FIRST["linear"]["source"], 0.6),
    faster("linear", FIRST["linear"]),
    all_pairs("linear", FIRST["linear"]),
)
FIGURE_3 = (
    better_everywhere("rbf"),
    better_everywhere("intersection"),
    better_everywhere("linear"),
    without_loss("rbf", SECOND["rbf"]["kept"], SECOND["rbf"]["source"], 0.6),
    rivals_costlier("rbf", SECOND["rbf"]),
    without_loss("intersection", SECOND["intersection"]["kept"], SECOND["intersection"]["source"], 0.6),
    never_so_fast("intersection", SECOND["intersection"]),
    without_loss("linear", SECOND["linear"]["kept"], SECOND["linear"]["source"], 0.3),
    faster("linear", SECOND["linear"]),
    all_pairs("linear", SECOND["linear"]),
)


def judge_underestimated(run: RunFound) -> Verdict:
    parts = []
    for kind in (OWN, *RIVALS):
        right = {spot.models: spot.x for spot in spots_of(run, kind)}
        wrong = {spot.models: spot.x for spot in spots_of(run, kind, "relative_classifiers")}
        both = [(wrong[name], right[name]) for name in right.keys() & wrong.keys()]
        if both:
            by_number, by_value = (mean(values) for values in zip(*both, strict=True))
            told = f"{FAMILIES[kind][1]}: {by_number:.2f} by classifiers, {by_value:.2f} by kernel values"
            parts.append((all(w < r for w, r in both), told))
    return every(parts)


def judge_overestimated(run: RunFound) -> Verdict:
    right, wrong = spots_of(run, "ovo"), spots_of(run, "ovo", "relative_classifiers")
    if not right or not wrong:
        return Verdict(UNKNOWN, "one-vs-one was not trained: there are too many classes for it in the preset")
    told = f"{wrong[0].x:.1f} by classifiers, {right[0].x:.2f} by kernel values"
    return compared(wrong[0].x > right[0].x and right[0].x < 1.1, told)


FIGURE_4 = (
    Claim(
        "by classifier evaluations the complexity of hierarchical methods is heavily underestimated",
        "section 5",
        "of every setting it is the smaller number",
        on_panel("kernel", judge_underestimated),
    ),
    Claim(
        "one-vs-one is overestimated: by kernel values it has the complexity of one-vs-all",
        "section 5",
        "at most 1.1 by kernel values, and more by classifiers",
        on_panel("kernel", judge_overestimated),
    ),
)
