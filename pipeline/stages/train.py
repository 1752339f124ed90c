"""Training stages: what all have in common, and that of the learners of one SGD. Each ends in `model/` of its step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from pipeline.class_ranges import fit_ranges
from pipeline.config import OWN_ROWS, SVM_KEYS, Learner, OneVsRest, SgdLearner, TaxonomyLearner
from pipeline.dataset import Dataset, taxonomy_digest
from pipeline.oracles import PoolOracle
from pipeline.stage import CARD_BYTES, ENCODER, ROWS_STORE, Estimate, Facts, Made, Stage, Work, encode_step
from pipeline.stage import train_step as train_step
from pipeline.stages.problems import (
    Fitted,
    FlatLearner,
    gives_probabilities,
    held_bytes,
    kept_bytes,
    nodes,
    parameter_bytes,
    plain_weight_bytes,
    ranges_of,
    taxonomy_of,
)
from pipeline.store import PROGRESS
from pipeline.watching.fit_watch import ToldRounds, tell_rounds
from tasks.fit.blocks import SAMPLE_BYTES
from tasks.fit.checkpoint import FileCheckpoint
from tasks.fit.class_ranges import MOST_ROWS
from tasks.fit.fit import NoTrainingRows, fit
from tasks.fit.problem import SgdProblem
from tasks.fit.sgd import SgdParams
from tasks.fit.targets import SplitTargets
from tasks.hashing.explain import sampled_collisions
from tasks.hashing.heshing import HashedScorer
from tasks.io import read_codebooks
from tasks.models.base import Model
from tasks.models.card import SETTINGS
from tasks.models.encoder import Encoder, PqEncoder
from tasks.models.encoder_folder import load_encoder
from tasks.models.feature_names import FEATURES
from tasks.models.folder import save_model
from tasks.models.header import plain_values
from tasks.places import at
from tasks.sums import FAN_IN
from tasks.taxonomy import Taxonomy

MODEL = "model"  # folder of the trained model within its step
PATH = "path"  # what a model says of the pairs of penalties that were solved
TRAIN_SECONDS = "train_seconds"  # measured where other steps did a part of the work: with their time
PAIR_SECONDS = "pair_seconds"  # measured of a path: of each of its pairs
MEGABYTE = 1 << 20
RANGE_COPIES = 6  # of a range's parameters, held at once while it is fitted: one in panels, where rows are dense


def sgd_params(learner: SgdLearner, **more: Any) -> SgdParams:
    """The parameters of the loop, of the keys that the learner's section has in common with them."""
    known = {field.name for field in fields(SgdParams)}
    return SgdParams(**{key: value for key, value in learner.model_dump().items() if key in known}, **more)


def check_rows(learner: Learner, dataset: Dataset) -> None:
    """Raises NoTrainingRows."""
    if not dataset.split_counts["train"]:
        raise NoTrainingRows(f"the dataset has no training rows for {learner.name}", dataset.path, "ingest with some")


def encoders_of(chain: Sequence[str], work: Work) -> list[Encoder]:
    """What turns raw rows into those that a learner is tested on, first to last: what ingest has encoded the dataset
    with, where it has, and the encodings of `chain`."""
    return [*own_encoders(work.dataset), *(encoder_of(work.folders[encode_step(name)]) for name in chain)]


def own_encoders(dataset: Dataset) -> list[Encoder]:
    """What ingest has made the rows of a dataset with, of others' rows; nothing where they are as they came."""
    codebooks = dataset.codebooks
    return [] if codebooks is None else [PqEncoder(codebooks)]


def encoder_of(folder: Path) -> Encoder:
    """The encoder that an encoding's step has made its rows with."""
    if (folder / ENCODER).is_dir():
        return load_encoder(folder / ENCODER)
    return PqEncoder(read_codebooks(str(folder / ROWS_STORE)))


def inputs_of(learner: Learner, chain: Sequence[str] = ()) -> tuple[str, ...]:
    """The encodings that a learner reads, and those that its model carries."""
    names = dict.fromkeys(rows for rows in (learner.rows, learner.tested_on, *chain) if rows != OWN_ROWS)
    return tuple(encode_step(name) for name in names)


def save(stage: TrainStage, work: Work, model: Model, provenance: dict[str, Any]) -> str:
    """Write the model of a stage's learner into its step; returns the content digest."""
    return write_model(work, stage.learner, stage.chain, model, provenance, work.folder)


def write_model(
    work: Work, learner: Learner, chain: Sequence[str], model: Model, provenance: dict[str, Any], folder: Path
) -> str:
    """Write a model, with the encodings of `chain`, to `folder / MODEL`; returns the content digest."""
    return save_model(
        folder / MODEL,
        model,
        work.dataset.classes,
        rows=learner.rows,
        test_rows=learner.tested_on,
        encoders=encoders_of(chain, work),
        provenance={**origin(work, learner), **provenance},
    )


def origin(work: Work, learner: Learner) -> dict[str, Any]:
    """What a model tells of its making, whatever its kind: plain JSON values."""
    told = learner.model_dump(mode="json")
    return {
        "seed": work.seed,
        "dataset": work.dataset.digest,
        "dataset_name": at(work.dataset.path).name,
        "train_rows": int(work.dataset.split_counts["train"]),
        **({} if (names := work.dataset.feature_names) is None else {FEATURES: names.told()}),
        SETTINGS: plain_values({key: value for key, value in told.items() if value is not None}),
    }


def model_facts(model: Model, operations: float, rows: int) -> dict[str, Any]:
    """What the report says of a model before it is tested: bytes of parameters, training cost per row.

    `training_bytes` are those of the parameters held to train it (SPECS 1.12), where its stage says nothing else.
    """
    parameters = int(sum(array.nbytes for name, array in model.tensors().items() if name not in STRUCTURE))
    return {
        "model_bytes": parameters,
        "training_bytes": parameters,
        "train_ops_per_row": operations / max(1, rows),
    }


STRUCTURE = (
    "node_seeds",
    "parent",
    "level",
    "leaf_of_class",
    "first_child",
    "n_children",
    "offsets",
    "classes",
)  # not learnt numbers


class TrainStage(Stage):
    """What training any learner has in common: its section is its settings, its rows are its inputs."""

    learner: Learner  # each kind of stage says which
    chain: tuple[str, ...]  # encodings between the dataset's own rows and those that it is tested on

    @property
    def name(self) -> str:
        return train_step(self.learner.name)

    def settings(self) -> dict[str, Any]:
        return self.learner.model_dump(mode="json")

    @property
    def inputs(self) -> tuple[str, ...]:
        return inputs_of(self.learner, self.chain)

    @property
    def reads_rows(self) -> bool:
        return True


@dataclass(frozen=True)
class SgdStage(TrainStage):
    """Train one flat learner by parallel SGD in rounds, one checkpoint a round."""

    version: ClassVar[int] = 3

    learner: FlatLearner
    chain: tuple[str, ...]
    n_features: int
    taxonomy: Taxonomy  # that the learner follows; a flat one where there is none

    @classmethod
    def of(cls, learner: FlatLearner, facts: Facts, chain: tuple[str, ...] = ()) -> Self:
        """Raises ParamError when a parameter is out of range, NoTrainingRows when there is nothing to learn from."""
        sgd_params(learner)
        check_rows(learner, facts.dataset)
        return cls(learner, chain, facts.rows[learner.rows].n_features, taxonomy_of(learner, facts))

    def settings(self) -> dict[str, Any]:
        """A taxonomy's file counts by its tree, wherever it stands; one of the dataset counts with the dataset."""
        settings = self.learner.model_dump(mode="json")
        if isinstance(self.learner, TaxonomyLearner):
            named = settings.pop("taxonomy") is not None
            settings |= {"taxonomy": taxonomy_digest(self.taxonomy)} if named else {}
        # Models of this loss once did not say so: what is in run folders from then is made again.
        settings |= {"probabilistic": True} if gives_probabilities(self.learner) else {}
        for key in SVM_KEYS if isinstance(self.learner, OneVsRest) else ():
            settings.pop(key)  # none of them is given: it is SGD that learns
        ranges = ranges_of(self.learner, self.n_features, self.taxonomy.n_classes)
        return settings | ({"class_ranges": len(ranges)} if ranges else {})

    def estimate(self, facts: Facts) -> Estimate:
        return flat_estimate(self.learner, facts)

    def run(self, work: Work) -> Made:
        trained = train_flat(work, self.learner, self.chain, self.n_features, self.taxonomy, work.folder)
        return Made(trained.digest, trained.facts, {"seconds": trained.seconds})


def flat_estimate(learner: FlatLearner, facts: Facts) -> Estimate:
    """Of what `train_flat` does."""
    rows, model = facts.rows[learner.rows], parameter_bytes(learner, facts)
    ranges = ranges_of(learner, rows.n_features, facts.dataset.n_classes)
    kept = saved_bytes(learner, kept_bytes(learner, facts), facts)
    spare = 3 * model + CARD_BYTES  # two checkpoints while one is replaced, and what the tasks are told
    if ranges:  # a start, a sum, the model that is added to it, the sum of both, and their mean's temporaries
        task = (
            2 * rows.block_bytes
            + RANGE_COPIES * held_bytes(learner, facts, model)
            + _batch_bytes(facts.dataset.block_rows, ranges[-1].n_classes)
        )
        return Estimate(task, kept, len(ranges) + 1, spare)
    task = 2 * rows.block_bytes + 4 * model + 4 * 1024 * (rows.row_floats + 2 * nodes(learner, facts)) + 64 * MEGABYTE
    task += plain_weight_bytes(learner, facts)
    adding = (FAN_IN + 2) * model
    return Estimate(max(task, adding), kept, learner.rounds * learner.partitions + 1, spare)


def _batch_bytes(block_rows: int, n_classes: int) -> int:
    """Of the sample on which a step is chosen, and of the scores of a block of it."""
    return SAMPLE_BYTES + 4 * min(block_rows, MOST_ROWS) * 3 * n_classes + 64 * MEGABYTE


@dataclass(frozen=True)
class Trained:
    """A flat model in its folder.

    digest   of the model
    facts    for the report
    """

    digest: str
    facts: dict[str, Any]
    seconds: float


def train_flat(
    work: Work, learner: FlatLearner, chain: Sequence[str], n_features: int, taxonomy: Taxonomy, folder: Path
) -> Trained:
    """Train the learner of one SGD into `folder / MODEL`, continuing from `folder / "progress"`.

    chain     encodings that the model carries, first to last
    taxonomy  that the learner follows; a flat one where there is none
    Raises as `fit` does, DiskFull.
    """
    started = time.perf_counter()
    dataset, fitted, progress = work.dataset, Fitted(learner, n_features, taxonomy), folder / PROGRESS
    scorer, loss = fitted.problem(dataset)
    problem = SgdProblem(scorer, loss, sgd_params(learner), work.seed, learner.name, SplitTargets(dataset.path))
    blocks, n_train = work.train_blocks(learner.rows), dataset.split_counts["train"]
    ranges = ranges_of(learner, n_features, dataset.n_classes)
    model: Model
    if ranges:
        by_ranges = fit_ranges(problem, ranges, blocks, n_train, work.pool, progress)
        model, result = by_ranges.model, by_ranges.result
        tell_rounds(work.event, learner.name, learner.rounds, result.history)
    else:
        kept = ToldRounds(FileCheckpoint(progress), learner.name, learner.rounds, work.event, work.tell)
        result = fit(problem, PoolOracle(work.pool, blocks, learner.name), checkpoint=kept)
        model = fitted.model(scorer, result)
    trial = result.trial.as_json()
    provenance = {"step": trial["step"], "regularization": trial["regularization"]}
    digest = write_model(work, learner, chain, model, provenance, folder)
    facts = model_facts(model, result.operations, n_train)
    if isinstance(scorer, HashedScorer):
        facts |= sampled_collisions(scorer)
    if ranges:
        facts["class_ranges"] = len(ranges)
    else:
        facts["training_bytes"] = sum(values.nbytes for values in result.parameters.values())
    return Trained(digest, {**facts, "trial": trial, "history": result.history}, time.perf_counter() - started)


def saved_bytes(learner: Learner, parameters: int, facts: Facts) -> int:
    """Bytes of a model's folder, at most: parameters, class table, codebooks of the encodings that it carries."""
    dataset = facts.dataset
    encoded = facts.rows.values() if learner.tested_on != OWN_ROWS else [facts.rows[OWN_ROWS]]
    carried = sum(rows.encoder_bytes for rows in encoded)
    names = sum(len(text.encode("utf-8", "replace")) for text in (*dataset.classes.ids, *dataset.classes.names))
    table = 2 * (names + 16 * dataset.n_classes)
    return parameters + table + carried + CARD_BYTES
