"""The models that no other beats, and the words below the table that say what is compared."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.report.metrics import Metrics, known
from pipeline.report.relaxed_members import LINEAR, Sample, relaxed_members, supposed, supposed_text
from pipeline.report.summary import RunSummary, non_dominated

Group = tuple[str, Sample | None]  # kernel, or "linear", and classes


def marked_models(run: RunSummary) -> set[str]:
    """Those that no other of their kernel and classes beats in accuracy and cost: kernel values are no dot products,
    and accuracies on other classes compare with nothing."""
    members = {one.name: (one.kernel, one.sample) for one in relaxed_members(run)}
    groups: dict[Group, dict[str, Metrics]] = {}
    for name, metrics in run.models.items():
        groups.setdefault(members.get(name, (LINEAR, None)), {})[name] = metrics
    return {name for group in groups.values() for name in non_dominated(group)}


def legend(run: RunSummary) -> str:
    """What the mark means, and what speed-ups are over; "" when nothing was tested."""
    members = [one for one in relaxed_members(run) if one.complexity is not None]
    kernels = {one.name for one in members if one.kernel != LINEAR}
    linear = {name for name in run.models if name not in kernels and _tested(run.models, name)}
    sampled = any(one.sample is not None for one in members)
    parts = []
    if marked_models(run):
        parts.append(_mark_text(bool(linear), bool(kernels), sampled))
    if any(known(run.models[name], "speedup") is not None for name in linear):
        own = "one-vs-rest evaluates as many dot products as a model has learnt classes"
        parts.append(own if sampled else f"one-vs-rest evaluates {run.n_classes:,} classes")
    if any(known(run.models[name], "speedup") is not None for name in kernels):
        parts.append(("speed-ups of kernels" if linear else "speed-ups") + " compare kernel values")
        text = supposed_text(supposed(members)).removesuffix(".")
        parts += [text[:1].lower() + text[1:]] if text else []
    if any(known(metrics, "ovr_ops_per_row") is not None for metrics in run.models.values()):
        parts.append("training ops of a bengio-tree are without those of the one-vs-rest classifiers before it")
    return "; ".join(parts)


def _tested(models: Mapping[str, Metrics], name: str) -> bool:
    return known(models[name], "test_ops_per_row") is not None


def _mark_text(linear: bool, kernels: bool, sampled: bool) -> str:
    fewer = ["evaluates fewer dot products"] * linear + ["computes fewer kernel values"] * kernels
    text = f"no other model {'of the same classes ' * sampled}is both more accurate and {' or '.join(fewer)}"
    return text + ", each kernel by itself" * (linear and kernels)
