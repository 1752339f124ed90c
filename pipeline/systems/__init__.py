"""From a config to its stages, in an order in which inputs come first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from pipeline.config import (
    AdditiveMap,
    AnyEncoding,
    BengioTree,
    DagSvm,
    Dwta,
    KMeansTree,
    LabelTree,
    MarszalekTree,
    NearestClassMean,
    Normalize,
    OneVsOne,
    OneVsRest,
    PcaEncoding,
    PqEncoding,
    RelaxedHierarchy,
    RunConfig,
    SpectralTree,
    TraceNorm,
    Training,
    Wta,
    is_svm,
)
from pipeline.errors import RowsUnfit
from pipeline.image_encodings import (
    BowEncoding,
    FisherEncoding,
    LlcEncoding,
    LocalEncoding,
    SiftEncoding,
    WordsEncoding,
)
from pipeline.stage import Asked, Facts, Stage
from tasks.errors import LabelgroveError


def stages_of(config: RunConfig, facts: Facts, asked: Asked | None = None) -> list[Stage]:
    """Encodings, what support vector machines settle first, each learner's training, then predictions, then the report.

    Raises the errors of parameters that the data do not allow (PQShape, PQTooFewRows, TreeShape, ParamError); they say
    which encoding or model they are about.
    """
    stages: list[Stage] = []
    for encoding in config.encode:
        with errors_of(f"encode {encoding.name}"):
            refuse_body(encoding.takes, encoding.rows, facts)
            if isinstance(encoding, LocalEncoding):
                stages += learnt_before(encoding, facts, stages)
            stages.append(_encoding(encoding, facts))
    if any(is_svm(learner) for learner in config.train):
        from pipeline.stages.svm_setup import svm_setups

        stages += svm_setups(config, facts)
    for learner in config.train:
        with errors_of(f"train {learner.name}"):
            for rows in (learner.rows, learner.tested_on):
                refuse_body("numbers", rows, facts)
            stages.append(_training(learner, config, facts))
    tested = facts.dataset.split_counts["test"] > 0
    if tested and config.train:
        from pipeline.stages.predict import EvaluateStage, PredictStage

        for learner in config.train:
            stages += [PredictStage(learner, config.predict), EvaluateStage.of(learner, config.evaluate, facts)]
    for retrieval in config.retrieve:
        from pipeline.stages.retrieve import RetrieveStage

        with errors_of(f"retrieve {retrieval.name}"):
            stages.append(RetrieveStage.of(retrieval, config, facts))
    if config.train or config.retrieve or config.encode:
        from pipeline.stages.publish import PublishStage

        stages.append(PublishStage(config, tested, asked or Asked(), facts.taxonomy(config.evaluate.taxonomy)))
    return stages


@contextmanager
def errors_of(section: str) -> Iterator[None]:
    """Errors from within name the section of the config first."""
    try:
        yield
    except LabelgroveError as error:
        error.where = f"{section}, {error.where}" if error.where else section
        raise


def _encoding(encoding: AnyEncoding, facts: Facts) -> Stage:
    """A stage is loaded, with all that its tasks compute, when a config has it: so is that of a learner."""
    stages: dict[type, tuple[str, str]] = {
        PqEncoding: ("encode", "PqStage"),
        PcaEncoding: ("pca", "PcaStage"),
        AdditiveMap: ("additive", "AdditiveStage"),
        Normalize: ("normalize", "NormalizeStage"),
        SiftEncoding: ("sift", "SiftStage"),
        BowEncoding: ("described", "WordRowsStage"),
        LlcEncoding: ("described", "WordRowsStage"),
        FisherEncoding: ("fisher", "FisherStage"),
        Wta: ("codes", "CodesStage"),
        Dwta: ("codes", "CodesStage"),
    }
    module, name = stages[type(encoding)]
    stage: Stage = getattr(import_module(f"pipeline.stages.{module}"), name).of(encoding, facts)
    return stage


def learnt_before(encoding: LocalEncoding, facts: Facts, known: Sequence[Stage]) -> list[Stage]:
    """The steps that an encoding of descriptors learns from, but for those that others of the config have already."""
    from pipeline.stages.sample import SampleStage
    from pipeline.stages.words import WordsStage

    wanted: list[Stage] = [SampleStage.of(encoding, facts)]
    if isinstance(encoding, WordsEncoding):
        wanted.append(WordsStage.of(encoding))
    names = {stage.name for stage in known}
    return [stage for stage in wanted if stage.name not in names]


def refuse_body(takes: str, rows: str, facts: Facts) -> None:
    """Raises RowsUnfit when the rows are images and numbers are wanted, or the other way round."""
    images = facts.rows[rows].body == "images"
    if takes == "numbers" and images:
        hint = "first an encoding of kind sift, then bow, llc or fisher of it, then this with rows = that one's name"
        raise RowsUnfit("its rows are images, not numbers", rows, hint)
    if takes == "images" and not images:
        hint = "sift describes a dataset that was ingested from a folder of images"
        raise RowsUnfit(f"its rows are {facts.rows[rows].body}, not images", rows, hint)


def _training(learner: Training, config: RunConfig, facts: Facts) -> Stage:
    chain = chain_of(config, learner.tested_on)
    if isinstance(learner, BengioTree):
        from pipeline.stages.bengio import BengioStage, confused_alike

        return BengioStage.of(learner, facts, chain, twins_of(learner, config, confused_alike))
    if isinstance(learner, LabelTree | KMeansTree):
        from pipeline.stages.grow import GrowStage, grown_alike

        return GrowStage.of(learner, facts, chain, twins_of(learner, config, grown_alike))
    if isinstance(learner, TraceNorm):
        from pipeline.stages.trace import TraceNormStage, alike

        return TraceNormStage.of(learner, facts, chain, twins_of(learner, config, alike))
    if isinstance(learner, NearestClassMean):
        from pipeline.stages.class_means import ClassMeansStage

        return ClassMeansStage.of(learner, facts, chain)
    if isinstance(learner, OneVsOne | DagSvm):
        from pipeline.stages.pairs import PairsStage

        return PairsStage.of(learner, facts, chain, twins_of_pairs(learner, config))
    if isinstance(learner, RelaxedHierarchy | SpectralTree | MarszalekTree):
        return _hierarchy(learner, config, facts, chain)
    if isinstance(learner, OneVsRest) and learner.kernel is not None:
        return _hierarchy(learner, config, facts, chain)
    from pipeline.stages.train import SgdStage

    return SgdStage.of(learner, facts, chain)


def _hierarchy(
    learner: RelaxedHierarchy | SpectralTree | MarszalekTree | OneVsRest,
    config: RunConfig,
    facts: Facts,
    chain: tuple[str, ...],
) -> Stage:
    from pipeline.stages.hierarchy import HierarchyStage
    from pipeline.stages.hierarchy_nodes import twins_of_nodes

    return HierarchyStage.of(learner, facts, chain, twins_of_nodes(learner, config.train))


def twins_of_pairs(learner: OneVsOne | DagSvm, config: RunConfig) -> tuple[str, ...]:
    """As `twins_of`, of both kinds that are made of pairs."""
    from pipeline.stages.pairs import paired_alike

    others = [one for one in config.train if isinstance(one, OneVsOne | DagSvm) and one.name != learner.name]
    return tuple(one.name for one in others if paired_alike(one) == paired_alike(learner))


def twins_of(learner: Any, config: RunConfig, alike: Callable[[Any], dict[str, Any]]) -> tuple[str, ...]:
    """Other learners of the config that differ from it only in what the work they share does not depend on."""
    others = [one for one in config.train if one.kind == learner.kind and one.name != learner.name]
    return tuple(one.name for one in others if alike(one) == alike(learner))


def chain_of(config: RunConfig, rows: str) -> tuple[str, ...]:
    """The encodings that lead from the dataset's own rows to `rows`, first to last."""
    reads = {encoding.name: encoding.rows for encoding in config.encode}
    chain: list[str] = []
    while rows in reads:
        chain.insert(0, rows)
        rows = reads[rows]
    return tuple(chain)
