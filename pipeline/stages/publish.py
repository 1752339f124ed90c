"""What a user looks at: metrics.json, report.html, models/, predictions/, made from the finished steps."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from pipeline.config import OWN_ROWS, SVM_KEYS, KMeansTree, Learner, RunConfig, TreeLearner, is_svm
from pipeline.dataset import Dataset, taxonomy_digest
from pipeline.notes import learner_notes
from pipeline.published import MADE_FROM, METRICS, REPORT
from pipeline.report.class_facts import ClassFacts
from pipeline.report.classes import rows_text
from pipeline.report.first import advice_of
from pipeline.report.numbers import percent
from pipeline.report.relaxed_findings import nothing_gained
from pipeline.report.relaxed_members import models_of_all_classes
from pipeline.report.summary import RunSummary
from pipeline.report.sweeps import beams_of, compressions_of, lines_of, repeats_of
from pipeline.report.trees_order import class_order
from pipeline.rows_facts import RowsFacts, learnt_bytes, rows_facts
from pipeline.run_check import published_damage
from pipeline.stage import NEIGHBOURS, Asked, Estimate, Facts, Made, Stage, Work, encode_step, retrieve_step
from pipeline.stages.circumstances import commands_of, content_digests, machine_facts, origin_of, step_timings
from pipeline.stages.details import listed, model_details, row_bytes, spectrum_bytes
from pipeline.stages.outcomes import ROW_BYTES, class_facts, outcomes_by_model, paired_errors
from pipeline.stages.predict import (
    PREDICTIONS,
    beam_of,
    compared,
    evaluate_step,
    model_bytes,
    predict_step,
    predictions_bytes,
)
from pipeline.stages.train import MEGABYTE, MODEL, TRAIN_SECONDS, saved_bytes, train_step
from pipeline.store import Done, described, write_json
from tasks.digest import combine
from tasks.files import NO_ROOM, beside, disk_room, replace_file, sync_path
from tasks.io import nonzeros_of
from tasks.models.folder import publish_model
from tasks.models.outcomes import Outcomes
from tasks.places import at, copy_file, is_remote, remove_at
from tasks.taxonomy import Taxonomy
from tasks.worker import versions

Metrics = dict[str, float | None]
PAGE = "report.html"
CLASS_BYTES, CELL_BYTES, NUMBER = 256, 8, 8  # of classes.csv: of a class, and of each model's accuracy; of a number
LINE_BYTES = 512  # of a class or a pair of classes on the page
TREE_BYTES, TREE_CLASS_BYTES = 256 << 10, 128  # of a tree's part of the page and its CSV: at all, and for each class
PAGE_BYTES = 512 << 10  # the page without these lines, its figures, events and the table of tasks


@dataclass(frozen=True)
class PublishStage(Stage):
    """The last step: everything that is shown, from everything that was measured."""

    version: ClassVar[int] = 7

    config: RunConfig
    tested: bool
    asked: Asked  # its overrides are shown and do not decide the content
    taxonomy: Taxonomy | None = None  # hierarchical error is measured on it, and it groups the siblings that are shown

    @property
    def name(self) -> str:
        return REPORT

    def settings(self) -> dict[str, Any]:
        left_out = {"left_out": list(self.asked.left_out)} if self.asked.left_out else {}
        return {
            **self.config.report.model_dump(mode="json"),
            "models": [learner.name for learner in self.config.train],
            **({"retrievals": [one.name for one in self.config.retrieve]} if self.config.retrieve else {}),
            **left_out,
            **({"taxonomy": taxonomy_digest(self.taxonomy)} if self.config.evaluate.taxonomy else {}),
        }

    @property
    def inputs(self) -> tuple[str, ...]:
        steps = [train_step(learner.name) for learner in self.config.train]
        if self.tested:
            for learner in self.config.train:
                steps += [predict_step(learner.name), evaluate_step(learner.name)]
        return (*steps, *encode_steps(self.config).values(), *retrieve_steps(self.config).values())

    def estimate(self, facts: Facts) -> Estimate:
        train, predict = self.config.train, self.config.predict
        models = [saved_bytes(learner, model_bytes(learner, facts), facts) for learner in train]
        shown = 2 * LINE_BYTES * self.config.report.worst_classes * len(train)
        shown += sum(isinstance(learner, TreeLearner) for learner in train) * (
            TREE_BYTES + TREE_CLASS_BYTES * facts.dataset.n_classes
        )
        copies = [predictions_bytes(learner, predict, facts) for learner in train if self.tested]
        shown += CLASS_BYTES * facts.dataset.n_classes + CELL_BYTES * facts.dataset.n_classes * len(train)
        task = MEGABYTE + spectrum_bytes(self.config, facts.rows, facts.dataset.n_classes)
        if self.tested:
            task += ROW_BYTES * facts.dataset.split_counts["test"] + 4 * NUMBER * facts.dataset.n_classes
        disk = sum(models) + sum(copies) + shown + PAGE_BYTES
        return Estimate(task, disk, len(train) if self.tested else 0, max(models, default=0))

    def run(self, work: Work) -> Made:
        from pipeline.report.page import write_report  # with what draws, which a plan does without

        run_folder = work.folder.parent.parent
        outcomes = outcomes_by_model(self.config, work, self.taxonomy, self.name) if self.tested else {}
        summary = summary_of(self.config, work, self.asked, outcomes, self.taxonomy)
        summary = replace(summary, findings=[*summary.findings, *nothing_gained(summary)])
        paired = paired_errors(outcomes, list(models_of_all_classes(summary)))
        summary = replace(summary, advice=advice_of(replace(summary, paired=paired)))
        for name in (METRICS, PAGE):  # a kill from here on leaves no results rather than those of two configs
            remove_at(run_folder / name)
        digests = []
        for learner in self.config.train:
            metrics = {key: value for key, value in summary.models[learner.name].items() if value is not None}
            source = work.folders[train_step(learner.name)] / MODEL
            digests.append(publish_model(source, run_folder / "models" / learner.name, metrics, beam_of(learner)))
            if self.tested:
                source = work.folders[predict_step(learner.name)] / PREDICTIONS
                link_file(source, run_folder / "predictions" / f"{learner.name}.parquet")
        neighbours = []
        for one in self.config.retrieve:
            source = work.folders[retrieve_step(one.name)] / NEIGHBOURS
            if source.exists():  # of top = 0 there are none
                neighbours.append(run_folder / "neighbours" / f"{one.name}.parquet")
                link_file(source, neighbours[-1])
        results: dict[str, Any] = {"models": summary.models, "run": run_facts(self.config, work, self.asked)}
        found = {"encodings": encode_steps(self.config), "retrievals": retrieve_steps(self.config)}
        results |= {key: numbers_by_name(steps, work) for key, steps in found.items() if steps}
        details = listed(summary.details)
        results |= {"details": details} if details else {}
        results |= {"findings": list(summary.findings)} if summary.findings else {}
        results |= {"tables": [table.as_json() for table in summary.tables]} if summary.tables else {}
        results |= {"advice": asdict(summary.advice)} if summary.advice and summary.advice.lines else {}
        write_json(run_folder / METRICS, {**results, MADE_FROM: self._made_from(work)})
        pages = write_report(run_folder / PAGE, summary)
        published = [run_folder / METRICS, *pages, *neighbours]
        for learner in self.config.train:
            published += sorted((run_folder / "models" / learner.name).iterdir())
            if self.tested:
                published.append(run_folder / "predictions" / f"{learner.name}.parquet")
        told = {path.relative_to(run_folder).as_posix(): described(path) for path in map(at, published)}
        measured: dict[str, Any] = {"published": {name: [size, digest] for name, (size, digest, _) in told.items()}}
        if is_remote(run_folder):
            measured["published_told"] = {name: version for name, (*_, version) in told.items()}
        return Made(combine([*digests, repr(deterministic(summary.models))]), {}, measured)

    def _made_from(self, work: Work) -> dict[str, Any]:
        """What tells these results from those of another config."""
        return {
            "overrides": list(self.asked.overrides),
            "report": self.settings(),
            "steps": {name: done.fingerprint for name, done in work.inputs.items()},
        }

    def outputs_hold(self, run_folder: Path, done: Done) -> str:
        found = list(published_damage(run_folder, done))
        return "; ".join(f"{name} {why}" for name, why in found[:1]) + (
            f" and {len(found) - 1} more" if len(found) > 1 else ""
        )


def encode_steps(config: RunConfig) -> dict[str, str]:
    """The step of each encoding, by its name."""
    return {encoding.name: encode_step(encoding.name) for encoding in config.encode}


def retrieve_steps(config: RunConfig) -> dict[str, str]:
    """The step of each retrieval, by its name."""
    return {retrieval.name: retrieve_step(retrieval.name) for retrieval in config.retrieve}


TIMES = ("train_seconds", "predict_us_per_row", "peak_bytes")


def deterministic(models: Mapping[str, Mapping[str, float | None]]) -> dict[str, Any]:
    """The metrics without those that differ from run to run."""
    return {name: {k: v for k, v in sorted(m.items()) if k not in TIMES} for name, m in sorted(models.items())}


def link_file(source: Path, target: Path) -> None:
    """The same file under a second name, or a copy where the file system has no links; whole or not at all."""
    if is_remote(target):
        copy_file(source, target)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not target.is_symlink() and os.path.samefile(source, target):
        return  # of two names of one file a rename would do nothing, and leave both
    spare = beside(target)
    with disk_room(str(target), source.stat().st_size):
        try:
            os.link(source, spare)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            shutil.copyfile(source, spare)
        replace_file(spare, target)
        sync_path(str(target.parent))


def numbers_of(done: Done) -> Metrics:
    """The plain numbers among a step's results."""
    numbers = {key: value for key, value in done.results.items() if isinstance(value, int | float)}
    return {key: value for key, value in numbers.items() if not isinstance(value, bool)}


def numbers_by_name(steps: Mapping[str, str], work: Work) -> dict[str, Metrics]:
    """Of encodings or retrievals: the numbers of each one's step."""
    return {name: numbers_of(work.inputs[step]) for name, step in steps.items()}


def metrics_of(learner: Learner, config: RunConfig, facts: Mapping[str, RowsFacts], work: Work) -> Metrics:
    """The numbers of metrics.json of one model; its bytes with those of the encodings that it reads or carries."""
    trained = work.inputs[train_step(learner.name)]
    metrics: Metrics = numbers_of(trained)
    for key, rows in (("model_bytes", learner.tested_on), ("training_bytes", learner.rows)):
        if (own := metrics.get(key)) is not None:
            metrics[key] = own + learnt_bytes(config, facts, rows)
    metrics["train_seconds"] = trained.measured.get(TRAIN_SECONDS, trained.measured.get("seconds"))
    metrics["peak_bytes"] = trained.measured.get("peak_bytes")
    if predict_step(learner.name) in work.inputs:
        metrics["predict_us_per_row"] = work.inputs[predict_step(learner.name)].measured.get("predict_us_per_row")
        metrics |= work.inputs[evaluate_step(learner.name)].results["metrics"]
        if isinstance(learner, TreeLearner):
            metrics["beam"] = learner.beam  # of the predictions, not of the model
        if isinstance(learner, KMeansTree) and learner.trees > 1:
            metrics["trees"] = learner.trees
    return metrics


def add_kernel_costs(models: Mapping[str, Metrics], config: RunConfig, work: Work) -> None:
    """Of kernels the cost relative to one-vs-rest: of the config's own of the same options, or, where there is none, of
    one that has every training row for a support vector, as nearly all have."""
    kernels = {one.name: one for one in config.train if is_svm(one) and getattr(one, "kernel", None) != "linear"}
    asked = {name: ops for name in kernels if (ops := models[name].get("test_ops_per_row")) is not None}
    known = {same_options(one): asked[name] for name, one in kernels.items() if one.kind == "ovr" and name in asked}
    for name, one in kernels.items():
        if name in asked:
            rows = float(work.inputs[train_step(name)].results["hierarchy"]["n_rows"])
            models[name].update(
                compared({"test_ops_per_row": asked[name] or 0.0}, known.get(same_options(one)) or rows)
            )


def same_options(learner: Any) -> tuple[Any, ...]:
    """What models must share to be compared in kernel values."""
    return tuple(getattr(learner, key) for key in ("rows", "test_rows", *SVM_KEYS))


def kind_of(learner: Any) -> str:
    """label-tree on pq, tested on x."""
    text = str(learner.kind)
    if learner.rows != OWN_ROWS:
        text += f" on {learner.rows}"
    if learner.tested_on != learner.rows:
        text += f", tested on {learner.tested_on}"
    if getattr(learner, "taxonomy", None):
        text += f", taxonomy {learner.taxonomy}"
    return text


def summary_of(
    config: RunConfig, work: Work, asked: Asked, outcomes: Mapping[str, Outcomes], taxonomy: Taxonomy | None
) -> RunSummary:
    """What the page shows.

    outcomes  of the models that were tested
    taxonomy  what names the parents of classes
    """
    from pipeline.report.small_tables import small_tables  # with what draws, which a plan does without

    dataset = work.dataset
    known, rows = [*dataset.notes, *learner_notes(config.train, dataset)], rows_facts(config, dataset)
    models = {learner.name: metrics_of(learner, config, rows, work) for learner in config.train}
    add_kernel_costs(models, config, work)
    encodings = numbers_by_name(encode_steps(config), work)
    run_folder = work.folder.parent.parent
    classes = class_facts(dataset, outcomes, taxonomy)
    return RunSummary(
        name=config.report.title or config.name,
        models=models,
        n_classes=dataset.n_classes,
        kinds={learner.name: kind_of(learner) for learner in config.train},
        dataset=data_facts(config, dataset, classes),
        class_ids=dataset.classes.ids,
        class_names=dataset.classes.names,
        details=model_details(config, rows, work),
        notes=[note.text for note in known if note.level == "info"],
        warnings=[f"{note.code}: {note.text}" for note in known if note.level == "warning"],
        findings=[
            text for one in config.train for text in work.inputs[train_step(one.name)].results.get("findings", ())
        ],
        left_out=asked.left_out,
        lines=lines_of(config),
        retrievals={one.name: work.inputs[retrieve_step(one.name)].results["curve"] for one in config.retrieve},
        repeats=repeats_of(config),
        tables=small_tables(
            config,
            models,
            encodings,
            numbers_by_name(retrieve_steps(config), work),
            row_bytes(rows, encodings, dataset.block_rows),
            {name: work.inputs[step].measured for name, step in encode_steps(config).items()},
        ),
        compressions=compressions_of(config),
        class_order=class_order(dataset.taxonomy, dataset.n_classes),
        beams=beams_of(config),
        wrong_metric=config.report.wrong_metric,
        overrides=asked.overrides,
        timings=step_timings(work, run_folder),
        environment={**machine_facts(work), **environment()},
        commands=commands_of(config.name, dataset, asked),
        config=config_text(run_folder),
        digests=content_digests(dataset, work.inputs, digest_steps(config)),
        class_facts=classes,
    )


def digest_steps(config: RunConfig) -> dict[str, str]:
    """What to call the content of steps whose digests must come out again, and these steps."""
    return {
        **{f"encoding {name}": step for name, step in encode_steps(config).items()},
        **{f"model {one.name}": train_step(one.name) for one in config.train},
        **{f"predictions {one.name}": predict_step(one.name) for one in config.train},
    }


def data_facts(config: RunConfig, dataset: Dataset, classes: ClassFacts) -> dict[str, Any]:
    """What the page says of the data."""
    taxonomy = dataset.taxonomy
    labels = [dataset.classes.label(c) for c in range(dataset.n_classes)]
    return {
        "training rows": dataset.split_counts["train"],
        "validation rows": dataset.split_counts["validation"],
        "test rows": dataset.split_counts["test"],
        **({} if dataset.body == "images" else {"features": dataset.n_features}),
        "classes": dataset.n_classes,
        **rows_text(classes.train_rows, labels, "training"),
        **rows_text(classes.test_rows, labels, "test"),
        "rows are": f"{dataset.body} {dataset.dtype}, blocks of {dataset.block_rows}",
        **zeros_of(dataset),
        **codes_of(dataset),
        "taxonomy levels": f"{taxonomy.n_levels} with the root, {taxonomy.n_nodes:,} nodes"
        if taxonomy
        else "no taxonomy",
        **({"hier. error is measured on": config.evaluate.taxonomy} if config.evaluate.taxonomy else {}),
        **origin_of(dataset),
        "digest": dataset.digest,
    }


def codes_of(dataset: Dataset) -> dict[str, str]:
    """Of rows that ingest has encoded, how small they are and what was lost."""
    told = dataset.encoding
    if told is None:
        return {}
    lost = percent(told["relative_error"], 2)
    return {"rows were encoded by ingest": f"{told['subquantizers']:,} bytes a row, squared error {lost} of the norm"}


def zeros_of(dataset: Dataset) -> dict[str, str]:
    """Of sparse rows, the share of their values that is zero; of others nobody has counted them."""
    if dataset.body != "csr":
        return {}
    stored = sum(nonzeros_of(dataset.rows_store))
    return {"zeros": percent(1 - stored / max(1, dataset.n_rows * dataset.n_features), 2)}


def config_text(run_folder: Path) -> str:
    path = run_folder / "config.toml"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def environment() -> dict[str, str]:
    """Versions and the kind of machine: no names of people or hosts, nothing of the process environment."""
    return {**versions(), "system": platform.system(), "machine": platform.machine(), "blas": blas()}


def blas() -> str:
    """The BLAS kernel in use: results are the same bits only on one of these."""
    from threadpoolctl import threadpool_info

    found = {
        f"{info.get('internal_api')} {info.get('version')} {info.get('architecture', '')}".strip()
        for info in threadpool_info()
        if info.get("user_api") == "blas"
    }
    return ", ".join(sorted(found))


def run_facts(config: RunConfig, work: Work, asked: Asked) -> dict[str, Any]:
    """The "run" part of metrics.json."""
    dataset = work.dataset
    return {
        "seed": work.seed,
        "dataset": dataset.digest,
        "n_rows": dataset.n_rows,
        "n_features": dataset.n_features,
        "n_classes": dataset.n_classes,
        "left_out": list(asked.left_out),
        "models": [learner.name for learner in config.train],  # in the config's order
        **{f"{name}_rows": count for name, count in dataset.split_counts.items()},
        "peak_bytes": max((done.measured.get("peak_bytes") or 0 for done in work.inputs.values()), default=0),
        "seconds": sum(done.measured.get("seconds") or 0.0 for done in work.inputs.values()),
    }
