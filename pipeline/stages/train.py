"""Training stages: what all have in common, and that of the learners of one SGD. Each ends in `model/` of its step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from pipeline.config import OWN_ROWS, Learner, SgdLearner, TaxonomyLearner
from pipeline.dataset import Dataset, taxonomy_digest
from pipeline.oracles import FileCheckpoint, PoolOracle
from pipeline.stage import CARD_BYTES, ENCODER, ROWS_STORE, Estimate, Facts, Made, Stage, Work, encode_step
from pipeline.stages.problems import (
    Fitted,
    FlatLearner,
    gives_probabilities,
    kept_bytes,
    nodes,
    parameter_bytes,
    taxonomy_of,
)
from tasks.fit.fit import NoTrainingRows, fit
from tasks.fit.problem import SgdProblem
from tasks.fit.sgd import SgdParams
from tasks.fit.targets import SplitTargets
from tasks.hashing.explain import sampled_collisions
from tasks.hashing.heshing import HashedScorer
from tasks.io import read_codebooks
from tasks.models.base import Model
from tasks.models.encoder import Encoder, PqEncoder
from tasks.models.encoder_folder import load_encoder
from tasks.models.folder import save_model
from tasks.sums import FAN_IN
from tasks.taxonomy import Taxonomy

MODEL = "model"  # folder of the trained model within its step
PATH = "path"  # what a model says of the pairs of penalties that were solved
TRAIN_SECONDS = "train_seconds"  # measured where other steps did a part of the work: with their time
PAIR_SECONDS = "pair_seconds"  # measured of a path: of each of its pairs
MEGABYTE = 1 << 20


def train_step(name: str) -> str:
    return f"train_{name}"


def sgd_params(learner: SgdLearner, **more: Any) -> SgdParams:
    """The parameters of the loop, of the keys that the learner's section has in common with them."""
    known = {field.name for field in fields(SgdParams)}
    return SgdParams(**{key: value for key, value in learner.model_dump().items() if key in known}, **more)


def check_rows(learner: Learner, dataset: Dataset) -> None:
    """Raises NoTrainingRows."""
    if not dataset.split_counts["train"]:
        raise NoTrainingRows(f"the dataset has no training rows for {learner.name}", dataset.path, "ingest with some")


def encoders_of(chain: Sequence[str], work: Work) -> list[Encoder]:
    """What turns raw rows into those that a learner is tested on: the encodings of `chain`, first to last."""
    return [encoder_of(work.folders[encode_step(name)]) for name in chain]


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
    learner = stage.learner
    return save_model(
        work.folder / MODEL,
        model,
        work.dataset.classes,
        rows=learner.rows,
        test_rows=learner.tested_on,
        encoders=encoders_of(stage.chain, work),
        provenance={"seed": work.seed, "dataset": work.dataset.digest, **provenance},
    )


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

    version: ClassVar[int] = 2

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
        return settings | ({"probabilistic": True} if gives_probabilities(self.learner) else {})

    def estimate(self, facts: Facts) -> Estimate:
        model = parameter_bytes(self.learner, facts)
        batch = 4 * 1024 * (facts.rows[self.learner.rows].row_floats + 2 * nodes(self.learner, facts))
        task = 2 * facts.rows[self.learner.rows].block_bytes + 3 * model + batch + 64 * MEGABYTE
        adding = (FAN_IN + 2) * model
        tasks = self.learner.rounds * self.learner.partitions + 1
        spare = 3 * model + CARD_BYTES  # two checkpoints while one is replaced, and what the tasks are told
        kept = saved_bytes(self.learner, kept_bytes(self.learner, facts), facts)
        return Estimate(max(task, adding), kept, tasks, spare)

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        dataset = work.dataset
        fitted = Fitted(self.learner, self.n_features, self.taxonomy)
        scorer, loss = fitted.problem(dataset)
        problem = SgdProblem(
            scorer, loss, sgd_params(self.learner), work.seed, self.learner.name, SplitTargets(dataset.path)
        )
        oracle = PoolOracle(work.pool, work.train_blocks(self.learner.rows), self.learner.name)
        result = fit(problem, oracle, checkpoint=FileCheckpoint(work.folder / "progress"))
        model = fitted.model(scorer, result)
        trial = result.trial.as_json()
        digest = save(self, work, model, {"step": trial["step"], "regularization": trial["regularization"]})
        facts = model_facts(model, result.operations, dataset.split_counts["train"])
        if isinstance(scorer, HashedScorer):
            facts |= sampled_collisions(scorer)
        facts["training_bytes"] = sum(values.nbytes for values in result.parameters.values())
        return Made(
            digest, {**facts, "trial": trial, "history": result.history}, {"seconds": time.perf_counter() - started}
        )


def saved_bytes(learner: Learner, parameters: int, facts: Facts) -> int:
    """Bytes of a model's folder, at most: parameters, class table, codebooks of the encodings that it carries."""
    dataset = facts.dataset
    carried = sum(rows.encoder_bytes for rows in facts.rows.values()) if learner.tested_on != OWN_ROWS else 0
    names = sum(len(text.encode("utf-8", "replace")) for text in (*dataset.classes.ids, *dataset.classes.names))
    table = 2 * (names + 16 * dataset.n_classes)
    return parameters + table + carried + CARD_BYTES
