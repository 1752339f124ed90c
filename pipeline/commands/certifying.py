"""What a trace-norm model is worth: the certificate that it carries, in words, and one made anew from its weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from pipeline.accuracy import NONE, class_map
from pipeline.config import OWN_ROWS
from pipeline.dataset import Dataset
from pipeline.ingest.feature_order import refuse_other_features
from pipeline.last_resort import say_line
from pipeline.outputs import text_table
from pipeline.published import made_from
from pipeline.stage import encode_step
from pipeline.stages.train import encoder_of, train_step
from pipeline.store import RunFolder
from tasks.errors import UsageError
from tasks.fit.targets import SplitTargets
from tasks.io import Block, read_rows
from tasks.models.certificate import NUMBERS, SENSE, SOLVER, SPECTRUM
from tasks.models.encoder import Encoder
from tasks.models.errors import ColumnMismatch
from tasks.models.factored import FactoredModel
from tasks.models.folder import SavedModel
from tasks.models.linear import LinearModel
from tasks.places import at
from tasks.rows.base import Array, Rows
from tasks.trace.certificate import certify
from tasks.trace.objective import factors_of
from tasks.trace.point import Basis, Group, Point
from tasks.trace.risk import Chunk, Risk, RiskSums, confusion_chunk, gradient_chunk, project
from tasks.trace.solution import Factors, Penalty

SHOWN_VALUES = 8  # of the spectrum, as text
AGAIN = "again"  # heading of the numbers made anew
Part = tuple[Rows, Array]  # rows of a block and their classes


class NoCertificate(UsageError):
    """A model without a certificate was to be certified."""


# ---- as text -----------------------------------------------------------------------------------------------------


def certificate_text(kept: dict[str, Any], again: dict[str, Any] | None = None) -> str:
    """A line a number, with its meaning, beside it the number made anew; then the spectrum."""
    lines = [["certificate", "kept", *([AGAIN] if again else [])]]
    extra = sorted(set(kept) - {*NUMBERS, SPECTRUM, SOLVER})
    for name in (*NUMBERS, *extra):
        cells = [name, number(kept[name])]
        lines.append([*cells, number(again.get(name))] if again else cells)
    senses = ["", *(SENSE.get(name, "") for name in (*NUMBERS, *extra))]
    table = text_table(lines).splitlines()
    width = max(map(len, table))
    text = "".join(f"{f'{line:<{width}}  {sense}'.rstrip()}\n" for line, sense in zip(table, senses, strict=True))
    values = kept[SPECTRUM]
    shown = " ".join(f"{value:.4g}" for value in values[:SHOWN_VALUES]) + (" ..." if len(values) > SHOWN_VALUES else "")
    text += f"spectrum: {len(values):,} {SENSE[SPECTRUM]}{': ' + shown if values else ''}\n"
    text += f"solver: {kept[SOLVER]}\n"
    if again:
        text += f"{AGAIN}: from the weights alone, on the {again['rows']:,} training rows of {again['data']}\n"
    return f"\n{text}"


def number(value: float | None) -> str:
    """Whole numbers as they are, others with six digits; nothing where there is none."""
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


# ---- made anew ---------------------------------------------------------------------------------------------------


def certified(saved: SavedModel, data: Path) -> dict[str, Any]:
    """The certificate of a model's weights on the training rows of a dataset, for the penalties that it was made with.

    Reads the rows block by block, at most three times. Raises NoCertificate, UsageError when the model cannot make the
    rows that it learnt from, or there are none; ColumnMismatch and the errors of reading the dataset.
    """
    kept = getattr(saved.model, "certificate", None)
    if kept is None or not isinstance(saved.model, FactoredModel | LinearModel):
        hint = "trace-norm models carry one"
        raise NoCertificate(
            f"a model of kind {saved.model.kind} has no certificate", f"--certify, {saved.folder}", hint
        )
    risk = BlockRisk(saved, Dataset.open(str(data)))
    penalty = Penalty(kept["lambda1"], kept["lambda2"])
    bias = None if saved.model.bias is None else saved.model.bias.astype(np.float64)
    found = certify(cast(Risk, risk), factors_of_model(saved.model), bias, penalty)  # all that it asks is answered
    return {"data": str(data), "rows": risk.n_rows, "lambda1": penalty.lambda1, "lambda2": penalty.lambda2} | (
        found.as_json()
    )


def factors_of_model(model: FactoredModel | LinearModel) -> Factors:
    """The singular value decomposition of the weights in float64, without what is but rounding of float32."""
    if isinstance(model, FactoredModel):
        columns, core = model.u, model.theta[:, None].astype(np.float64) * model.v.T
    elif model.n_classes <= model.n_features:
        columns, core = model.weights, np.eye(model.n_classes)
    else:
        columns, core = np.eye(model.n_features), model.weights.astype(np.float64)
    group = Group("weights", columns.astype(np.float64), columns.shape[1])
    return factors_of(Point(Basis(model.n_features).with_group(group), core))


def encoders_of_its_run(saved: SavedModel) -> tuple[Encoder, ...] | None:
    """What the run that a model still lies in has made its training rows with; None when there is no such run.

    Only of the very run that trained it: its step of this name has come to the same content.
    """
    place = at(saved.folder).absolute()
    folder = RunFolder(place.parents[1])
    done = {name: folder.done(name, str(mark)) for name, mark in made_from(folder).get("steps", {}).items()}
    trained = done.get(train_step(place.name))
    if trained is None or trained.digest != saved.digest:
        return None
    chain: list[Encoder] = []
    rows = str(saved.header["rows"])
    while rows != OWN_ROWS:
        step = done.get(encode_step(rows))
        if step is None:
            return None
        chain.insert(0, encoder_of(folder.step_folder(step.step, step.fingerprint)))
        rows = str(step.settings["rows"])
    return tuple(chain)


class BlockRisk:
    """The mean loss of a dataset's training rows, read block by block in this process: what `certify` asks of a Risk.

    Rows of a class that the model does not know are left out, as in prediction.
    """

    def __init__(self, saved: SavedModel, dataset: Dataset) -> None:
        self.saved, self.dataset = saved, dataset
        self.n_features, self.n_classes = saved.model.n_features, saved.model.n_classes
        self.encoders = self._encoders()
        if dataset.n_features != (self.encoders[0].n_features if self.encoders else self.n_features):
            what = f"{dataset.n_features} columns are not those that the model learnt from"
            raise ColumnMismatch(what, dataset.path, "give the dataset that the model was trained on")
        refuse_other_features(dataset, saved.feature_names)
        self.mapped = class_map(dataset.classes, saved.classes)
        self.targets = SplitTargets(dataset.path)
        last = dataset.split_counts["train"]
        self.blocks = [block for block in dataset.blocks() if block.start < last]
        self.counts = np.zeros(self.n_classes, np.int64)
        for block in self.blocks:
            self.counts += np.bincount(self._labelled(block)[1], minlength=self.n_classes)
        self.n_rows = int(self.counts.sum())
        if not self.n_rows:
            raise UsageError("the dataset has no training rows of the model's classes", dataset.path)
        if saved.header.get("provenance", {}).get("dataset") != dataset.digest:
            say_line(f"warning: the model learnt from other data than {dataset.path}")

    def _encoders(self) -> tuple[Encoder, ...]:
        """What turns raw rows into those that the model learnt from."""
        header = self.saved.header
        if header["rows"] == OWN_ROWS:
            return ()
        if header["rows"] == header["test_rows"]:
            return self.saved.encoders
        found = encoders_of_its_run(self.saved)
        if found is None:
            what = f"the model learnt from rows {header['rows']!r}, and carries no encoder that makes them"
            hint = "give the model where its run has put it, runs/NAME/models/NAME: the run's encodings make them"
            raise UsageError(what, f"--certify, {self.saved.folder}", hint)
        return found

    def _labelled(self, block: Block) -> tuple[Array, Array]:
        """Training rows of a block whose class the model knows: places (n,), classes (n,) of the model."""
        index, labels = self.targets.of(block)
        if self.mapped is not None:
            labels = self.mapped[labels]
        return index[labels != NONE], labels[labels != NONE]

    def parts(self) -> Iterator[Part]:
        """Block by block, the rows as the model learnt from them."""
        for block in self.blocks:
            index, labels = self._labelled(block)
            rows = read_rows(block)
            rows = rows if index.size == rows.n_rows else rows.take(index)
            for encoder in self.encoders:
                rows = encoder.encode(rows)
            yield rows, labels

    def group(self, columns: Array) -> Group:
        return Group("certified", columns, columns.shape[1])

    def gradient(self, point: Point, scale: Array | None = None) -> RiskSums:
        sums: RiskSums = self._sum(point, lambda chunk: gradient_chunk(chunk, point.core, point.bias, scale))
        return sums.mean()

    def confusion(self, point: Point) -> Array:
        sums: Array = self._sum(point, lambda chunk: confusion_chunk(chunk, point.core, point.bias))
        return np.asarray(sums / self.n_rows)

    def _sum(self, point: Point, of: Callable[[Chunk], Any]) -> Any:
        """Over all parts, in their order; products in float64."""
        total = None
        for rows, labels in self.parts():
            part = of(Chunk(rows, labels, project(rows, point.basis, np.float64)))
            total = part if total is None else total + part
        return total
