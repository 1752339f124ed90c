"""The sections of a config: one strict model each, with the default and the meaning of every key."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Sweep = Annotated[  # taken apart before the config is validated (pipeline/sweep.py)
    dict[str, list[int | float | str | bool]] | None,
    Field(exclude=True, description='one for each value: `sweep = { bits = [12, 14] }` with `name = "h-{bits}"`'),
]
MOST_COMPONENTS = 64  # unless a number is given
DEEPEST = 64  # splits of a tree: more than any number of classes needs
AUTO_STEPS = 14  # values of lambda1 on a path whose length is not given
OWN_ROWS = "x"  # the dataset's own rows


class Section(BaseModel):
    """Unknown keys refused, no silent conversions, frozen."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=True)


class DataSection(Section):
    """Which dataset."""

    path: str = Field(description="the dataset store, relative to the config file")


class Encoding(Section):
    """What every encoding is told."""

    keeps_columns: ClassVar[bool] = False  # whether its rows stand for those that it reads, column by column
    no_histograms: ClassVar[str] = ""  # why an additive kernel of its rows is none, where it is so

    name: Name = Field(description="what learners call it in `rows` and `test_rows`")
    sweep: Sweep = None
    rows: str = Field(OWN_ROWS, description='what is encoded: "x" or an earlier encoding')


class PqEncoding(Encoding):
    """Product quantisation: one byte per sub-vector (Harchaoui et al., section 4)."""

    keeps_columns: ClassVar[bool] = True

    kind: Literal["pq"]
    subquantizers: int | None = Field(None, ge=1, description="codes per row; default: one per 8 features or so")
    bits: int = Field(8, ge=1, le=8, description="2^bits centroids per codebook")
    iterations: int = Field(15, ge=1, description="Lloyd rounds")
    sample: int = Field(16384, ge=2, description="rows on which the codebooks are trained")


class PcaEncoding(Encoding):
    """Principal components of the training rows: dense rows of fewer columns."""

    no_histograms: ClassVar[str] = "components are negative as often as not"

    kind: Literal["pca"]
    components: int | None = Field(
        None, ge=1, description="columns that are left; default: 64, or as many as there are features or training rows"
    )

    def kept(self, n_features: int, n_rows: int) -> int:
        """Components of rows of so many features, learnt from so many rows."""
        return self.components or max(1, min(MOST_COMPONENTS, n_features, n_rows))


class CodesEncoding(Encoding):
    """Keys of winner-take-all codes (Chen & Shrivastava): small whole numbers, to learners one-hot rows."""

    no_histograms: ClassVar[str] = "of rows of 0 and 1 it is the inner product: learn from the codes themselves"

    hashes: int = Field(1000, ge=1, description="codes per row")
    window: int = Field(4, ge=1, description="features that a hash compares (K)")
    seed: int | None = Field(None, ge=0, description="of the permutations; default: the run's")


class Wta(CodesEncoding):
    """Winner-take-all hashing: which of K features is largest."""

    kind: Literal["wta"]
    empty: Literal["none", "first"] = Field(
        "none", description='a sample of zeros has no code, or code 0 as in the paper ("first")'
    )


class Dwta(CodesEncoding):
    """Densified winner-take-all hashing: an empty sample borrows the code of the next one that is not."""

    kind: Literal["dwta"]
    shift: int | None = Field(
        None, ge=1, description="a borrowed code grows by this for each step (C); default: `window`"
    )
    range: int | None = Field(
        None, ge=0, description="codes are taken modulo this (R); default: 16 times `window`; 0: they are not"
    )

    @property
    def modulus(self) -> int | None:
        """R, or None for codes that are kept whole."""
        return 16 * self.window if self.range is None else self.range or None


class AdditiveMap(Encoding):
    """Feature map of an additive kernel, chi2 or histogram intersection (Vedaldi & Zisserman): 2n + 1 columns each."""

    no_histograms: ClassVar[str] = "mapped rows hold negative values"

    kind: Literal["chi2-map", "hi-map"]
    samples: int = Field(1, ge=1, le=100, description="frequencies (n): a column becomes 2n + 1")
    period: float | None = Field(
        None, gt=0, le=1000, description="of the approximated kernel along log y - log x; default: the paper's for n"
    )


AnyEncoding = Annotated[PqEncoding | PcaEncoding | Wta | Dwta | AdditiveMap, Field(discriminator="kind")]


class Learner(Section):
    """What every learner is told."""

    name: Name = Field(description="the model's folder and its name in the report")
    sweep: Sweep = None
    rows: str = Field(OWN_ROWS, description='what it learns from: "x" or an encoding')
    test_rows: str | None = Field(
        None, description="what it is tested on, and validation rows are of; default: as `rows`"
    )

    @property
    def tested_on(self) -> str:
        return self.test_rows or self.rows


class SgdLearner(Learner):
    """Keys of every learner trained by parallel stochastic gradient descent (Zinkevich et al.)."""

    regularization: float | Literal["auto"] = Field("auto", description="weight of the L2 penalty")
    passes: int = Field(1, ge=1, description="over a partition between two averages")
    rounds: int = Field(10, ge=1, description="averages; 1 with a number for `step` is the paper's")
    partitions: int = Field(4, ge=1, description="models trained apart in a round; never depends on the workers")
    step: float | Literal["auto"] = Field("auto", description="a number is a constant step")
    least_rows: int = Field(120_000, ge=1, description="rows met in a fit at least, by more passes over few rows")
    batch: int = Field(16, ge=1, description="rows per step")


KernelName = Literal["linear", "rbf", "histogram-intersection", "chi2"]


class SvmKeys(Section):
    """Keys of support vector machines, whatever is made of them."""

    C: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="weight of the hinges; default: chosen by cross-validation"
    )
    width: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="of rbf and chi2, exp(-distance / width); default: mean distance of training rows",
    )
    classes: int | None = Field(
        None, ge=2, description="learn and test so many classes only, drawn at random; default: all"
    )
    draw: int = Field(0, ge=0, description="which draw of them")


class SvmLearner(Learner, SvmKeys):
    """Keys of every learner made of support vector machines (Gao & Koller and the rivals there)."""

    kernel: KernelName = Field("linear", description="of the support vector machines")


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
    least_rows: int = Field(20_000, ge=1, description="rows met in one fit at least, by more passes over small nodes")
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
    least_rows: int = Field(120_000, ge=1, description="rows met in the joint fit at least, by more passes over few")


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


class OneVsOne(SvmLearner):
    """A support vector machine for every pair of classes; the class with most votes wins (Max Wins)."""

    kind: Literal["ovo"]


class DagSvm(SvmLearner):
    """The machines of `ovo`, asked one after another: each drops a class (Platt et al.)."""

    kind: Literal["dag-svm"]


class SplitLearner(SvmLearner):
    """Keys of the hierarchies of two-sided classifiers."""

    rows_per_node: int | None = Field(
        None,
        ge=2,
        description="training rows of a node at most, of its classes alike; default: 100,000, of kernels 10,000",
    )


class RelaxedHierarchy(SplitLearner):
    """Hierarchy whose nodes ignore confusing classes, colored and learnt together (Gao & Koller)."""

    kind: Literal["relaxed-hierarchy"]
    rho: float = Field(
        0.5,
        gt=0,
        allow_inf_nan=False,
        description="classes of a larger mean hinge are ignored: more is faster, less is more often right; or a list",
    )
    balance: int = Field(10, ge=0, description="how far the numbers of positive and negative classes may differ (B)")
    initialisation: Literal["bottom-up", "top-down", "both"] = Field(
        "bottom-up", description="pairs of classes that one-vs-rest confuses least; normalised cut of the rows"
    )
    samples: int = Field(
        30, ge=1, description="pairs of classes tried, bottom-up; at most as many as a node has classes"
    )
    finalists: int = Field(3, ge=1, description="colorings that are solved on all rows of a large node, the best ones")
    search_rows: int | None = Field(
        None, ge=2, description="rows on which all are tried first; default: 4,000, of kernels 2,000"
    )
    half_steps: int = Field(24, ge=2, description="classifier and coloring in turn, at most")
    leaves: Literal["one-vs-all", "continued"] = Field(
        "one-vs-all", description="classes that are hard to part; continued: part them nevertheless"
    )
    least_active: float = Field(
        0.4, ge=0, le=1, description="share of its classes that a node must part, or it is a one-vs-all leaf"
    )
    first_rho: float = Field(
        0.6, ge=0, allow_inf_nan=False, description="with which colorings grow first, if it is the larger; 0: the paper"
    )
    leaf_classes: int = Field(4, ge=1, description="nodes of 3 to so many classes are one-vs-all leaves; 1: the paper")


class SpectralTree(SplitLearner):
    """Binary tree by spectral clustering of one-vs-rest's confusion (Griffin & Perona), one-vs-rest at its leaves."""

    kind: Literal["spectral-tree"]
    levels: int = Field(3, ge=1, le=DEEPEST, description="splits from the root to the one-vs-rest leaves; or a list")


class MarszalekTree(SplitLearner):
    """Relaxed tree by normalised cuts of rows, classes cut through on both sides (Marszalek & Schmid)."""

    kind: Literal["marszalek"]
    alpha: float = Field(
        0.5, gt=0, le=1, description="a class with less than alpha / 2 of its rows on a side is not there; or a list"
    )
    cut_rows: int = Field(1000, ge=2, description="rows whose kernel matrix is cut")
    least_active: float = Field(0.4, ge=0, le=1, description="as of `relaxed-hierarchy`")


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
    "relaxed-hierarchy": RelaxedHierarchy,
    "spectral-tree": SpectralTree,
    "marszalek": MarszalekTree,
    "ovo": OneVsOne,
    "dag-svm": DagSvm,
}
