"""The models of a run that relaxed hierarchies are compared with, and these, with what is said of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.report.metrics import Metrics, known
from pipeline.report.summary import RunSummary

Record = Mapping[str, Any]
Sample = tuple[int, int]
Basis = tuple[str, str, Sample | None]
LINEAR = "linear"
FLAT = "ovr"  # one-vs-rest: what complexities are relative to
SWEPT = {"relaxed-hierarchy": "rho", "spectral-tree": "levels", "marszalek": "alpha"}  # what moves a family's accuracy
DOUBT = "doubt"  # of a setting
FAMILIES = (*SWEPT, FLAT, "ovo", "dag-svm")
ALIASES = {"svm-ovr": FLAT}


@dataclass(frozen=True, slots=True)
class Member:
    """One model.

    family      the config's word for what it is
    kernel      "linear", or that of its classifiers
    rows        what it learns from and is tested on, where these are not the dataset's own: "on pq"
    setting     what of its family was set: {"rho": 0.7}
    n_classes   how many it has learnt, a sample of the dataset's or all
    sample      how many were drawn, and which draw it was; None where it has learnt all
    hierarchy   what was found out about its nodes; empty where it has none
    """

    name: str
    family: str
    kernel: str
    rows: str
    n_classes: int
    metrics: Metrics
    setting: Mapping[str, float] = field(default_factory=dict)
    hierarchy: Record = field(default_factory=dict)
    sample: Sample | None = None

    @property
    def accuracy(self) -> float | None:
        """Mean over classes of the share of their rows that are right."""
        return known(self.metrics, "mean_per_class_top1")

    @property
    def complexity(self) -> float | None:
        """Classifiers evaluated per row if linear, else kernel values: the union of their support vectors."""
        return known(self.metrics, "test_ops_per_row")

    @property
    def relative(self) -> float | None:
        """Complexity over that of one-vs-rest with the same kernel."""
        found = known(self.metrics, "relative_complexity")
        if found is None and self.kernel == LINEAR and self.complexity is not None:
            return self.complexity / self.n_classes
        return 1.0 if found is None and self.family == FLAT else found

    @property
    def relative_classifiers(self) -> float | None:
        """Classifiers evaluated over the number of classes: the wrong measure where kernels share support vectors."""
        found = known(self.metrics, "relative_classifiers")
        return 1.0 if found is None and self.family == FLAT else found

    @property
    def basis(self) -> Basis:
        """What models share that compare: kernel, rows, classes."""
        return self.kernel, self.rows, self.sample

    @property
    def swept(self) -> float | None:
        """The value of the key that moves this family."""
        value = self.setting.get(SWEPT.get(self.family, ""))
        return None if value is None else float(value)

    @property
    def draw(self) -> int | None:
        """Which sample of the classes it has learnt; None for all of them."""
        value = self.hierarchy.get("draw")
        return None if value is None else int(value)

    @property
    def what(self) -> str:
        """Family, rows and doubt: what the legend calls its line."""
        return f"{self.family} {self.rows}".strip() + (f", doubt {self.doubt:g}" if self.doubt else "")

    @property
    def doubt(self) -> float:
        """How near a split its rows go both ways."""
        return float(self.setting.get(DOUBT, 0))


def relaxed_members(run: RunSummary) -> list[Member]:
    """In the config's order; none where one-vs-rest has nobody to be compared with."""
    found = [member for name in run.models if (member := _member(run, name)) is not None]
    others = any(member.family != FLAT or member.hierarchy for member in found)
    return found if others else []


def kind_of(run: RunSummary, name: str) -> str:
    """The config's word for what a model is, its name where that is not told: "ovr" of "ovr, tested on pq"."""
    return run.kinds.get(name, name).partition(" ")[0].removesuffix(",")


def _member(run: RunSummary, name: str) -> Member | None:
    kind, rows = (kind_of(run, name), run.kinds[name].partition(" ")[2]) if name in run.kinds else ("", "")
    hierarchy = run.details.get(name, {}).get("hierarchy") or {}
    word = str(hierarchy.get("family") or kind)
    family = ALIASES.get(word, word)
    if family not in FAMILIES:
        return None
    n_classes, draw = int(hierarchy.get("n_classes") or run.n_classes), hierarchy.get("draw")
    return Member(
        name=name,
        family=family,
        kernel=str(hierarchy.get("kernel") or LINEAR),
        rows=rows,
        n_classes=n_classes,
        metrics=run.models[name],
        setting=hierarchy.get("setting") or {},
        hierarchy=hierarchy,
        sample=None if draw is None or n_classes >= run.n_classes else (n_classes, int(draw)),
    )


def apart_from_others(run: RunSummary) -> set[str]:
    """Models whose cost or accuracy is another thing than that of most: with kernels, or of samples of the classes."""
    return {one.name for one in relaxed_members(run) if one.kernel != LINEAR or one.sample is not None}


def models_of_all_classes(run: RunSummary) -> dict[str, Metrics]:
    """Without models of samples of the classes, which are right more often than they would be of all."""
    sampled = {one.name for one in relaxed_members(run) if one.sample is not None}
    return {name: metrics for name, metrics in run.models.items() if name not in sampled}


def one_vs_rest_of(members: Sequence[Member], one: Member) -> list[Member]:
    """Those of the same kernel, rows and classes as a model."""
    return [flat for flat in members if flat.family == FLAT and flat.basis == one.basis]


def supposed(members: Sequence[Member]) -> list[Member]:
    """With a kernel, and relative to no one-vs-rest of these models: to one with every training row for a support
    vector."""
    return [one for one in members if one.kernel != LINEAR and not _measured(members, one)]


def supposed_text(members: Sequence[Member]) -> str:
    """What the complexity of these is relative to; "" of none."""
    what = "Models without a one-vs-rest of the same rows, kernel and options in this run"
    return f"{what} are relative to one that has every training row for a support vector." if members else ""


def _measured(members: Sequence[Member], one: Member) -> bool:
    if one.complexity is None or not one.relative:
        return True
    base = one.complexity / one.relative
    costs = [flat.complexity for flat in one_vs_rest_of(members, one) if flat.complexity is not None]
    return any(math.isclose(base, cost, rel_tol=1e-6) for cost in costs)


def kernels_of(members: Sequence[Member]) -> list[str]:
    """Each once, in the order of the models."""
    return list(dict.fromkeys(member.kernel for member in members))


def setting_text(member: Member) -> str:
    """rho 0.7; the doubt stands in `Member.what`"""
    return ", ".join(f"{key} {value:g}" for key, value in member.setting.items() if key != DOUBT)


def whole_setting_text(member: Member) -> str:
    """rho 0.7, doubt 0.5"""
    return ", ".join(f"{key} {value:g}" for key, value in member.setting.items())


def apart(members: Sequence[Member], key: Callable[[Member], Hashable]) -> list[list[Member]]:
    """In groups in which each key is once: the first members of every key, then the second ones, ..."""
    groups: list[list[Member]] = []
    met: dict[Hashable, int] = {}
    for member in members:
        place = met.get(key(member), 0)
        met[key(member)] = place + 1
        if place == len(groups):
            groups.append([])
        groups[place].append(member)
    return groups


def full_size(members: Sequence[Member]) -> list[Member]:
    """Those of all classes, or else the most: accuracies on samples of classes compare with nothing else."""
    whole = [member for member in members if member.sample is None]
    most = max((member.n_classes for member in members), default=0)
    return whole or [member for member in members if member.n_classes == most]
