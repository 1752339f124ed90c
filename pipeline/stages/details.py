"""The lists of numbers behind the figures of models: what steps have measured, and the spectra of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.config import RunConfig
from pipeline.rows_facts import RowsFacts
from pipeline.stage import Work
from pipeline.stages.predict import BY_DEPTH, evaluate_step
from pipeline.stages.train import MODEL, PAIR_SECONDS, PATH, train_step
from pipeline.stages.tree_details import tree_details
from tasks.models.folder import load_model
from tasks.models.linear import LinearModel
from tasks.models.spectrum import singular_values, within_reach

TRAINED = ("spectrum", "path", "history", "hierarchy")  # results of a training step that are drawn
LISTED = (
    "spectrum",
    "path",
    "top_k",
    BY_DEPTH,
    "hierarchy",
)  # those that metrics.json has, too
SPECTRAL = ("ovr", "msvm", "multinomial")  # kinds with dense weights, a column per class
WEIGHT_BYTES = 8 * 20  # of a square of the shorter side, while a spectrum is computed


def model_details(config: RunConfig, facts: Mapping[str, RowsFacts], work: Work) -> dict[str, dict[str, Any]]:
    """Per model what `RunSummary.details` says; steps of older versions have less."""
    details: dict[str, dict[str, Any]] = {}
    for learner in config.train:
        trained = work.inputs[train_step(learner.name)].results
        found = {key: trained[key] for key in TRAINED if trained.get(key)}
        found |= _timed(found.get(PATH, ()), work.inputs[train_step(learner.name)].measured.get(PAIR_SECONDS, ()))
        if not found.get("path"):
            found.pop("history", None)  # that of rounds of SGD, which is not drawn
        if learner.kind in SPECTRAL and within_reach(facts[learner.rows].n_features, work.dataset.n_classes):
            found |= _spectrum(str(work.folders[train_step(learner.name)] / MODEL))
        if evaluate_step(learner.name) in work.inputs:
            for key, rows in work.inputs[evaluate_step(learner.name)].results["detail"].items():
                found[key] = rows if key == "top_k" else rows[: config.report.worst_classes]
        found |= tree_details(learner, config, work)
        details[learner.name] = found
    return details


def _timed(path: Sequence[Mapping[str, Any]], seconds: Sequence[float]) -> dict[str, Any]:
    """The pairs of a path with the time that each took, where that is known of all."""
    if not path or len(seconds) != len(path):
        return {}
    return {PATH: [{**pair, "seconds": took} for pair, took in zip(path, seconds, strict=True)]}


def _spectrum(folder: str) -> dict[str, Any]:
    model = load_model(folder).model
    return {"spectrum": singular_values(model.weights).tolist()} if isinstance(model, LinearModel) else {}


def listed(details: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The "details" of metrics.json: of every model that has any."""
    found = {name: {key: one[key] for key in LISTED if one.get(key)} for name, one in details.items()}
    return {name: one for name, one in found.items() if one}


def spectrum_bytes(config: RunConfig, facts: Mapping[str, RowsFacts], n_classes: int) -> int:
    """Memory of the largest spectrum that is computed."""
    shapes = [(facts[one.rows].n_features, n_classes) for one in config.train if one.kind in SPECTRAL]
    return max((WEIGHT_BYTES * min(shape) ** 2 for shape in shapes if within_reach(*shape)), default=0)


def row_bytes(
    facts: Mapping[str, RowsFacts], encodings: Mapping[str, Mapping[str, float | None]], block_rows: int
) -> dict[str, float]:
    """Name of rows -> bytes of one of them: as encodings have measured it, or of dense rows."""
    known = {name: float(nbytes) for name, one in encodings.items() if (nbytes := one.get("bytes_per_row"))}
    dense = {name: one.block_bytes / block_rows for name, one in facts.items() if one.body == "dense"}
    return dense | known
