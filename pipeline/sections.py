"""The sections of a config: one strict model each, with the default and the meaning of every key."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipeline.encodings import AdditiveMap, Dwta, Normalize, PcaEncoding, PqEncoding, Wta
from pipeline.image_encodings import BowEncoding, FisherEncoding, LlcEncoding, SiftEncoding
from pipeline.section import Learner, Name, Section, Sweep
from pipeline.svm_sections import (
    DEEPEST,
    DagSvm,
    KernelName,
    MarszalekTree,
    OneVsOne,
    RelaxedHierarchy,
    SpectralTree,
    SvmKeys,
)

AUTO_STEPS = 14  # values of lambda1 on a path whose length is not given


class DataSection(Section):
    """Which dataset."""

    path: str = Field(description="the dataset store, relative to the config file")


class SgdLearner(Learner):
    """Keys of every learner trained by parallel stochastic gradient descent (Zinkevich et al.)."""

    regularization: float | Literal["auto"] = Field("auto", description="weight of the L2 penalty")
    passes: int = Field(1, ge=1, description="over a partition between two averages")
    rounds: int = Field(10, ge=1, description="averages; 1 with a number for `step` is the paper's")
    partitions: int = Field(4, ge=1, description="models trained apart in a round; never depends on the workers")
    step: float | Literal["auto"] = Field("auto", description="a number is a constant step")
    least_rows: int = Field(
        120_000,
        ge=1,
        description="rows each averaged model meets at least, by up to ten passes a round; more: `passes`",
    )
    batch: int = Field(16, ge=1, description="rows per step")


class OneVsRest(SgdLearner, SvmKeys):
    """One linear classifier per class; or, with a `kernel`, one support vector machine per class."""

    kind: Literal["ovr"]
    kernel: KernelName | None = Field(
        None, description="support vector machines in place of SGD, with their keys and without those of SGD"
    )
    loss: Literal["squared-hinge", "hinge", "logistic", "multinomial", "crammer-singer"] = Field(
        "squared-hinge", description="what is made small; the last two compare all classes of a row"
    )
    class_weight: Literal["none", "balanced"] = Field("none", description="balanced: rare classes count as much")
    bias: bool = Field(True, description="a constant per class")


class MultiSvm(SgdLearner):
    """Multi-class support vector machine (Crammer & Singer): one weight vector per class."""

    kind: Literal["msvm"]
    bias: bool = Field(True, description="a constant per class; false is the paper's")


class TaxonomyLearner(SgdLearner):
    """Keys of the learners that follow a taxonomy."""

    taxonomy: str | None = Field(
        None, description="a taxonomy file, relative to the config, in place of the dataset's own"
    )


class HieSvm(TaxonomyLearner):
    """Hierarchical SVM (Zhao & Xing, equation (24)): a weight vector per taxonomy node, classes are sums of a path."""

    kind: Literal["hie-svm"]


class TreeSvm(TaxonomyLearner):
    """A multi-class SVM over the children of every taxonomy node, followed from the root down."""

    kind: Literal["tree-svm"]
    bias: bool = Field(True, description="a constant per child; false is the paper's")


class HashLearner(SgdLearner):
    """Keys of the hash learners (Zhao & Xing)."""

    bits: int = Field(20, ge=1, le=30, description="m = 2^bits numbers per level")
    buckets: int | None = Field(None, ge=1, description="m itself, when it is not a power of two")
    loss: Literal["crammer-singer", "multinomial"] = Field("crammer-singer", description="what is made small")

    @property
    def n_buckets(self) -> int:
        return self.buckets or 1 << self.bits


class Heshing(HashLearner, TaxonomyLearner):
    """Hierarchical feature hashing."""

    kind: Literal["heshing"]
    table: Literal["shared", "per-level"] = Field(
        "shared",
        description='"per-level" is the paper\'s; shared: the same numbers for the nodes of all levels together',
    )


class FlatHash(HashLearner):
    """Every class under its own hash."""

    kind: Literal["flat-hash"]


class TreeLearner(SgdLearner):
    """Keys of the trees over classes that are learnt from the data."""

    branching: int | None = Field(
        None, ge=2, description="children per node (Q); default: the `depth`-th root of the classes"
    )
    depth: int | None = Field(
        None, ge=1, le=DEEPEST, description="splits from root to leaf (H); default: 2, or 1 for fewer than 16 classes"
    )
    beam: int = Field(
        1, ge=1, description="nodes of a depth that a test row may visit, the most probable first; 1: the paper's walk"
    )
    rounds: int = Field(5, ge=1, description="averages in every fit")
    least_rows: int = Field(
        20_000, ge=1, description="rows a node's model meets in one fit at least, by up to ten passes a round"
    )
    bias: bool = Field(True, description="a constant per child")


class LabelTree(TreeLearner):
    """Label tree learned with its partition (Deng et al.), efficiency- or accuracy-constrained."""

    kind: Literal["label-tree"]
    speedup: float | None = Field(
        None,
        gt=1,
        description="wanted, of dot products against one-vs-rest, with beam 1: proposes what is not given of the shape",
    )
    ambiguity: float | None = Field(None, gt=0, le=1, description="cap on the share of classes a child keeps (delta)")
    ambiguity_of: str | None = Field(
        None, description="a bengio-tree above this section: the cap is what its root comes to on validation rows"
    )
    loss: float | None = Field(None, ge=0, lt=1, description="cap on the classification loss (epsilon); instead of it")
    alternations: int = Field(3, ge=1, description="weights and partition in turn (T)")
    most_rows: int = Field(
        1 << 20,
        ge=1,
        description="rows of PQ codes that one pass of a fit meets at most, evenly spread; fits to codes take few "
        "passes by tables unless `step` is given, so `rounds`, `passes`, `partitions` and `batch` say nothing there",
    )
    initialisation: Literal["kmeans", "random"] = Field("kmeans", description='"random" is the paper\'s')
    training_rows: Literal["of-class", "routed"] = Field(
        "of-class", description='a child learns from all rows of its classes, or ("routed", the paper) those sent to it'
    )
    runners_up: bool = Field(True, description="spend ambiguity that is left over; false is the paper's")


class BengioTree(TreeLearner):
    """Label tree on the confusion of one-vs-rest classifiers, all its weights trained together (Bengio et al.)."""

    kind: Literal["bengio-tree"]
    confusion_of: str | None = Field(
        None, description="an ovr above this section, whose confusion is taken; default: classifiers of its own"
    )
    ovr_rounds: int = Field(10, ge=1, description="averages of the one-vs-rest classifiers of its own")
    rounds: int = Field(10, ge=1, description="averages of the joint fit")
    least_rows: int = Field(
        120_000,
        ge=1,
        description="rows each averaged model meets in the joint fit at least, by up to ten passes a round",
    )


class KMeansTree(TreeLearner):
    """Tree of balanced clusters of class centroids; its nodes tell probabilities, also that a row is none of theirs."""

    kind: Literal["kmeans-tree"]
    speedup: float | None = Field(
        None,
        gt=1,
        description="wanted, as `label-tree`'s, for about two nodes a depth: easy data search fewer, hard ones more",
    )
    branching: int | None = Field(
        None, ge=2, description="children per node above the last split; default: fits `depth` and `speedup`"
    )
    beam: int = Field(10, ge=1, description="nodes of a depth that a test row may visit, the most probable first")
    reach: int | None = Field(
        None,
        ge=1,
        description="children that rank best for a training row and learn from it too; default: 3, or 2 of sparse rows",
    )
    trees: int = Field(1, ge=1, le=100, description="with other clusters each; their probabilities are averaged")
    most_rows: int = Field(
        1 << 20,
        ge=1,
        description="rows of PQ codes that one pass of a fit meets at most, evenly spread; fits to codes take few "
        "passes by tables unless `step` is given, so `rounds`, `passes`, `partitions` and `batch` say nothing there",
    )


AnySvm = OneVsRest | OneVsOne | DagSvm | RelaxedHierarchy | SpectralTree | MarszalekTree


class TraceNorm(Learner):
    """Multinomial logistic regression with a penalty on the trace norm of the weights (Harchaoui et al.)."""

    kind: Literal["trace-norm"]
    lambda1: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["auto"] = Field(
        "auto", description="weight of the trace norm, the largest of the path; auto: `alpha` times that of W = 0"
    )
    lambda1_steps: int | None = Field(
        None,
        ge=1,
        description="values of lambda1, each `alpha` times the one before; default: 14 for auto, otherwise 1",
    )
    lambda2: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["auto"] = Field(
        "auto",
        description="weight of the squared Frobenius norm; auto: 0, of a grid from 0.01 lambda1_max^2 down to 0",
    )
    lambda2_steps: int = Field(1, ge=1, description="values of lambda2, each `alpha` times the one before")
    alpha: float = Field(0.5, gt=0, lt=1, description="ratio of a path's neighbours; the validation rows choose")
    choose: Literal["top1", "log-loss"] = Field("log-loss", description="of the validation rows, what picks the pair")
    standard_errors: float = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
        description="not the best pair, but the one of least rank that is at most so many standard errors worse",
    )
    patience: int = Field(
        2, ge=0, description="values of lambda1 that are no better, after which weaker ones are not tried; 0: all are"
    )
    gap: float = Field(5e-3, gt=0, lt=1, description="relative duality gap at which a pair is solved")
    epsilon: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="the conditions (C1) and (C2) up to this number, as in the paper, in place of `gap`",
    )
    max_iterations: int = Field(200, ge=1, description="passes over the training rows for a pair at most")
    solver: Literal["subspace", "r1d", "r1d-paper"] = Field(
        "subspace",
        description='a small basis that follows the gradient; "r1d": rank-one descent, several atoms a pass; or one',
    )
    bias: bool = Field(True, description="a constant per class, not penalised; false is the paper's")

    @property
    def n_lambda1(self) -> int:
        """Values of lambda1."""
        return self.lambda1_steps or (AUTO_STEPS if self.lambda1 == "auto" else 1)

    @property
    def n_pairs(self) -> int:
        """Pairs of lambda1 and lambda2."""
        return self.n_lambda1 * self.lambda2_steps


class NearestClassMean(Learner):
    """The class whose mean of training rows is nearest (Mensink et al.): one pass, nothing to tune."""

    kind: Literal["nearest-class-mean"]
    metric: Literal["euclidean", "cosine"] = Field("euclidean", description="nearest in distance; in angle")


Training = Annotated[
    OneVsRest
    | MultiSvm
    | HieSvm
    | TreeSvm
    | Heshing
    | FlatHash
    | LabelTree
    | BengioTree
    | KMeansTree
    | TraceNorm
    | NearestClassMean
    | RelaxedHierarchy
    | SpectralTree
    | MarszalekTree
    | OneVsOne
    | DagSvm,
    Field(discriminator="kind"),
]


class RetrieveSection(Section):
    """Nearest training rows by Hamming distance of codes."""

    name: Name = Field(description="its file and its name in the report")
    sweep: Sweep = None
    rows: str = Field(description="an encoding of kind wta or dwta")
    top: int = Field(10, ge=0, description="training rows kept per query; 0 for the curve alone")
    distance: Literal["hamming", "present"] = Field(
        "hamming", description="codes that differ; or in proportion to those that not both rows lack"
    )
    queries: Literal["test", "validation"] = Field("test", description="rows that are looked up")


class EvaluateSection(Section):
    """How models are measured."""

    taxonomy: str | None = Field(
        None, description="a taxonomy file, relative to the config, that hierarchical error is measured on"
    )


class PredictSection(Section):
    """Predictions of the test rows."""

    top: int = Field(5, ge=1, description="classes kept per row")


class ReportSection(Section):
    """The page."""

    title: str = Field("", description="heading of the page; default: the run's name")
    worst_classes: int = Field(20, ge=0, description="rows of the per-class table")
    wrong_metric: bool = Field(
        False,
        description="of kernels also the number of classifiers as cost, which says little (Gao & Koller, Figure 4)",
    )
    rows: list[Annotated[int, Field(ge=0)]] = Field(
        [],
        description="test rows, by number in the source, whose way down trees is shown; default: two right, two wrong",
    )


KINDS: dict[str, type[Section]] = {
    "pq": PqEncoding,
    "pca": PcaEncoding,
    "wta": Wta,
    "dwta": Dwta,
    "chi2-map": AdditiveMap,
    "hi-map": AdditiveMap,
    "normalize": Normalize,
    "sift": SiftEncoding,
    "bow": BowEncoding,
    "llc": LlcEncoding,
    "fisher": FisherEncoding,
    "ovr": OneVsRest,
    "msvm": MultiSvm,
    "hie-svm": HieSvm,
    "tree-svm": TreeSvm,
    "heshing": Heshing,
    "flat-hash": FlatHash,
    "label-tree": LabelTree,
    "bengio-tree": BengioTree,
    "kmeans-tree": KMeansTree,
    "trace-norm": TraceNorm,
    "nearest-class-mean": NearestClassMean,
    "relaxed-hierarchy": RelaxedHierarchy,
    "spectral-tree": SpectralTree,
    "marszalek": MarszalekTree,
    "ovo": OneVsOne,
    "dag-svm": DagSvm,
}
