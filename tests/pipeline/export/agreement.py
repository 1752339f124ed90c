"""What an exported graph ranks, held against the model itself; every difference must be one of rounding."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from pipeline.export.onnx_file import write_onnx
from tasks.models.folder import SavedModel, load_model, save_model
from tasks.rows import Dense
from tests.tasks.model_samples import class_table

NEAR = 2e-6  # scores this near, in parts of the larger one, may change places


@dataclass
class Agreement:
    """Of a graph and a model: places compared, those with another class, and the most that scores differ."""

    places: int = 0
    swapped: int = 0
    away: float = 0.0


def saved_model(folder: Path, model: object, encoders: tuple[object, ...] = ()) -> SavedModel:
    """Through its folder, as a user has it."""
    save_model(folder, model, class_table(model.n_classes), encoders=encoders)  # type: ignore[arg-type, attr-defined]
    return load_model(folder)


def session_of(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def agreement(
    saved: SavedModel, path: Path, values: np.ndarray, top: int, beam: int | None = None, batch: int = 2000
) -> Agreement:
    """Write the graph, run it, compare all places; classes may differ where scores are NEAR, nowhere else.

    All rows in batches, and one row, three, none. The graph holds nothing that it does not use.
    """
    write_onnx(saved, path, top, beam)
    assert unused_in(onnx.load(str(path)).graph) == set()
    session = session_of(path)
    none = session.run(None, {"rows": np.empty((0, saved.n_features), np.float32)})
    assert [one.shape for one in none] == [(0, top)] * len(none)
    found = Agreement()
    batches = [(start, min(start + batch, len(values))) for start in range(0, len(values), batch)]
    for start, stop in [(0, 1), (0, min(3, len(values))), *batches]:
        part = np.ascontiguousarray(values[start:stop], np.float32)
        labels = np.full(len(part), -1, np.int32) if saved.probabilistic else None
        ours = saved.rank(Dense(part), top, labels=labels, beam=beam)
        named = dict(zip([one.name for one in session.get_outputs()], session.run(None, {"rows": part}), strict=True))
        assert named["classes"].dtype == np.int64
        assert named["scores"].dtype == np.float32
        counted = found if (start, stop) in batches else Agreement()
        _compare(named["classes"], named["scores"], ours.classes, ours.scores, counted)
        assert ("probabilities" in named) == saved.probabilistic
        if ours.probabilities is not None:
            np.testing.assert_allclose(named["probabilities"], ours.probabilities.named, rtol=2e-5, atol=1e-7)
    return found


def unused_in(graph: Any) -> set[str]:
    """Constants and nodes, by what they give, that nothing in the graph and its bodies takes."""
    taken, given = {one.name for one in graph.output}, [[one.name] for one in graph.initializer]
    waiting = list(graph.node)
    while waiting:
        node = waiting.pop()
        taken |= set(node.input)
        given.append(list(node.output))
        for attribute in node.attribute:
            waiting += attribute.g.node
            taken |= {one.name for one in attribute.g.output}
    return {names[0] for names in given if taken.isdisjoint(names)}


def _compare(
    classes: np.ndarray, scores: np.ndarray, our_classes: np.ndarray, our_scores: np.ndarray, found: Agreement
) -> None:
    np.testing.assert_array_equal(classes < 0, our_classes < 0)
    largest = np.nanmax(np.abs(our_scores), initial=0.0)
    np.testing.assert_allclose(scores, our_scores, rtol=1e-5, atol=1e-5 * largest)
    found.places += classes.size
    found.away = max(found.away, float(np.nanmax(np.abs(scores - our_scores), initial=0.0)) / max(largest, 1e-30))
    for i, j in np.argwhere(classes != our_classes):
        mine = our_scores[i]
        beside = [k for k in range(mine.size) if k != j and abs(mine[k] - mine[j]) <= NEAR * max(largest, abs(mine[j]))]
        assert beside or j == mine.size - 1, (i, j, classes[i], our_classes[i], scores[i], mine)
        found.swapped += 1


def assert_same(found: Agreement) -> None:
    """No place differs at all."""
    assert found.places > 0
    assert found.swapped == 0, found
