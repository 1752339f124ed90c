"""What the page says of a model that is a tree: measured by depth, its sizes, nodes, root and some rows' ways down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.config import RunConfig, Training
from pipeline.stage import Work
from pipeline.stages.predict import BY_DEPTH, PREDICTIONS, evaluate_step, predict_step
from pipeline.stages.train import MODEL, train_step
from pipeline.stages.tree_walks import chosen_rows, row_at, walk_record
from tasks.models.folder import load_model
from tasks.trees.measures import partition, sizes_by_depth, unreachable
from tasks.trees.tree import GIVEN, LabelTree

KINDS = ("label-tree", "bengio-tree", "kmeans-tree", "tree-svm")  # that may be one tree


def tree_details(learner: Training, config: RunConfig, work: Work) -> dict[str, Any]:
    """Of a learner's model, for `RunSummary.details`: "tree" and, for metrics.json, by_depth; {} unless it is one tree.

    by_depth    records of `measures.by_depth` on test rows      sizes        records of `measures.sizes_by_depth`
    judged      loss and ambiguity by depth while it grew        unreachable  classes that no leaf holds
    nodes       the record of each learnt node                   loss_cap     what its loss was held below, if that was
    root        the classes of the root's children, where it was learnt which these are
    probabilistic  True where the scores of the walks are probabilities
    walks       records of `tree_walks.walk_record`              not_found    rows asked for that are no test rows
    """
    if learner.kind not in KINDS:
        return {}
    model = load_model(work.folders[train_step(learner.name)] / MODEL).model
    if not isinstance(model, LabelTree):
        return {}
    found: dict[str, Any] = {
        BY_DEPTH: depths_of(learner, work),
        "sizes": sizes_by_depth(model),
        "unreachable": unreachable(model).tolist(),
        "judged": model.facts.get("judged", []),
        "nodes": model.facts.get("nodes", []),
        "loss_cap": model.facts.get("loss"),
        "root": root_of(model),
        "probabilistic": model.probabilistic or None,
        "walks": (walks := walks_of(learner, config, work, model)),
        "not_found": sorted(set(config.report.rows) - {walk["row"] for walk in walks}),
    }
    found = {key: value for key, value in found.items() if value not in ([], None)}
    return {"tree": found} | ({BY_DEPTH: found[BY_DEPTH]} if BY_DEPTH in found else {})


def depths_of(learner: Training, work: Work) -> list[dict[str, Any]]:
    """Records by depth; of evaluations that keep none, loss and ambiguity out of their metrics."""
    if evaluate_step(learner.name) not in work.inputs:
        return []
    results = work.inputs[evaluate_step(learner.name)].results
    kept: list[dict[str, Any]] | None = results.get(BY_DEPTH)
    return depths_of_metrics(results["metrics"]) if kept is None else kept


def depths_of_metrics(metrics: Mapping[str, float]) -> list[dict[str, Any]]:
    """loss_depth_0, ambiguity_depth_0, ... as records."""
    found: list[dict[str, Any]] = []
    kept = 1.0
    while (loss := metrics.get(f"loss_depth_{len(found)}")) is not None:
        kept *= 1 - loss
        depth = len(found)
        found.append({"depth": depth, "loss": loss, "ambiguity": metrics[f"ambiguity_depth_{depth}"], "kept": kept})
    return found


def root_of(tree: LabelTree) -> list[list[int]] | None:
    """The classes of each child of the root; None where every child has one class at most, or a taxonomy says which."""
    if tree.kind == GIVEN or tree.n_children[0] == 0:
        return None
    classes, children = partition(tree)
    return [classes[held].tolist() for held in children] if (children.sum(axis=1) > 1).any() else None


def walks_of(learner: Training, config: RunConfig, work: Work, tree: LabelTree) -> list[dict[str, Any]]:
    """The ways of the rows that the config asks for, or of some of all kinds."""
    if predict_step(learner.name) not in work.folders or tree.n_children[0] == 0:
        return []
    predictions = work.folders[predict_step(learner.name)] / PREDICTIONS
    chosen = chosen_rows(predictions, tree, work.seed, config.report.rows)
    blocks = work.blocks(learner.tested_on)
    first = work.dataset.n_rows - work.dataset.split_counts["test"]  # ingest puts test rows last
    return [walk_record(one, row_at(blocks, first + one.place), tree, work.seed) for one in chosen]
