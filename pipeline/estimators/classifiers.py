"""The classifiers: each a learner of the config, with the same parameters and defaults (`labelgrove schema`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pipeline.estimators.base import Classifier
from pipeline.estimators.gradual import Gradual

Taxonomy = str | Path | Mapping[Any, Any] | None
MULTINOMIAL = "multinomial"


class LabelTreeClassifier(Classifier):
    """Label tree learned with its partition (Deng et al. 2011): few dot products for a row of many classes.

    branching, depth, ambiguity, speedup, loss ...   as in a [[train]] section of kind label-tree
    validation_fraction  share of the rows, by class, by which nodes are judged; 0: by their training rows
    encode               a ProductQuantizer or WTAHasher, not fitted: what it learns from in place of the rows
    random_state, scheduler ("serial", "local:2", "tcp://..."), folder (for temporary files)
    """

    learner_kind: ClassVar[str] = "label-tree"
    chooses: ClassVar[bool] = True

    def __init__(
        self,
        branching: int | None = None,
        depth: int | None = None,
        *,
        ambiguity: float | None = None,
        speedup: float | None = None,
        loss: float | None = None,
        beam: int = 1,
        alternations: int = 3,
        initialisation: str = "kmeans",
        training_rows: str = "of-class",
        runners_up: bool = True,
        rounds: int = 5,
        passes: int = 1,
        partitions: int = 4,
        least_rows: int = 20_000,
        most_rows: int = 1 << 20,
        batch: int = 16,
        step: Any = "auto",
        regularization: Any = "auto",
        bias: bool = True,
        validation_fraction: float = 0.1,
        encode: Any = None,
        random_state: Any = 0,
        scheduler: str = "serial",
        folder: str | None = None,
    ) -> None:
        self.branching = branching
        self.depth = depth
        self.ambiguity = ambiguity
        self.speedup = speedup
        self.loss = loss
        self.beam = beam
        self.alternations = alternations
        self.initialisation = initialisation
        self.training_rows = training_rows
        self.runners_up = runners_up
        self.rounds = rounds
        self.passes = passes
        self.partitions = partitions
        self.least_rows = least_rows
        self.most_rows = most_rows
        self.batch = batch
        self.step = step
        self.regularization = regularization
        self.bias = bias
        self.validation_fraction = validation_fraction
        self.encode = encode
        self.random_state = random_state
        self.scheduler = scheduler
        self.folder = folder


class KMeansTreeClassifier(Classifier):
    """Tree of balanced clusters of class centroids, searched with a beam; it tells probabilities.

    Parameters as in a [[train]] section of kind kmeans-tree, and as of LabelTreeClassifier.
    """

    learner_kind: ClassVar[str] = "kmeans-tree"
    chooses: ClassVar[bool] = True

    def __init__(
        self,
        branching: int | None = None,
        depth: int | None = None,
        *,
        beam: int = 10,
        speedup: float | None = None,
        reach: int | None = None,
        trees: int = 1,
        rounds: int = 5,
        passes: int = 1,
        partitions: int = 4,
        least_rows: int = 20_000,
        most_rows: int = 1 << 20,
        batch: int = 16,
        step: Any = "auto",
        regularization: Any = "auto",
        bias: bool = True,
        validation_fraction: float = 0.1,
        encode: Any = None,
        random_state: Any = 0,
        scheduler: str = "serial",
        folder: str | None = None,
    ) -> None:
        self.branching = branching
        self.depth = depth
        self.beam = beam
        self.speedup = speedup
        self.reach = reach
        self.trees = trees
        self.rounds = rounds
        self.passes = passes
        self.partitions = partitions
        self.least_rows = least_rows
        self.most_rows = most_rows
        self.batch = batch
        self.step = step
        self.regularization = regularization
        self.bias = bias
        self.validation_fraction = validation_fraction
        self.encode = encode
        self.random_state = random_state
        self.scheduler = scheduler
        self.folder = folder

    def _will_tell_probabilities(self) -> bool:
        return True


class RelaxedHierarchyClassifier(Classifier):
    """Hierarchy whose nodes ignore confusing classes, colored and learnt together (Gao & Koller 2011).

    Parameters as in a [[train]] section of kind relaxed-hierarchy; C None: chosen by cross-validation.
    """

    learner_kind: ClassVar[str] = "relaxed-hierarchy"

    def __init__(
        self,
        rho: float = 0.5,
        *,
        kernel: str = "linear",
        C: float | None = None,
        width: float | None = None,
        balance: int = 10,
        initialisation: str = "bottom-up",
        samples: int = 30,
        finalists: int = 3,
        search_rows: int | None = None,
        split_rows: int | None = None,
        half_steps: int = 24,
        leaves: str = "one-vs-all",
        least_active: float = 0.4,
        first_rho: float = 0.6,
        most_lost: float | None = None,
        doubt: float = 0.5,
        leaf_classes: int = 4,
        rows_per_node: int | None = None,
        most_nodes: int | None = None,
        encode: Any = None,
        random_state: Any = 0,
        scheduler: str = "serial",
        folder: str | None = None,
    ) -> None:
        self.rho = rho
        self.kernel = kernel
        self.C = C
        self.width = width
        self.balance = balance
        self.initialisation = initialisation
        self.samples = samples
        self.finalists = finalists
        self.search_rows = search_rows
        self.split_rows = split_rows
        self.half_steps = half_steps
        self.leaves = leaves
        self.least_active = least_active
        self.first_rho = first_rho
        self.most_lost = most_lost
        self.doubt = doubt
        self.leaf_classes = leaf_classes
        self.rows_per_node = rows_per_node
        self.most_nodes = most_nodes
        self.encode = encode
        self.random_state = random_state
        self.scheduler = scheduler
        self.folder = folder


class TraceNormClassifier(Classifier):
    """Multinomial logistic regression with a penalty on the trace norm of the weights (Harchaoui et al. 2012).

    Parameters as in a [[train]] section of kind trace-norm; the path's pair is the one that the validation rows like
    best. results_ holds the certificate: duality gap, rank, spectrum.
    """

    learner_kind: ClassVar[str] = "trace-norm"
    chooses: ClassVar[bool] = True

    def __init__(
        self,
        lambda1: Any = "auto",
        *,
        lambda1_steps: int | None = None,
        lambda2: Any = "auto",
        lambda2_steps: int = 1,
        alpha: float = 0.5,
        choose: str = "log-loss",
        standard_errors: float = 0.0,
        patience: int = 2,
        gap: float = 5e-3,
        epsilon: float | None = None,
        max_iterations: int = 200,
        solver: str = "subspace",
        bias: bool = True,
        validation_fraction: float = 0.1,
        encode: Any = None,
        random_state: Any = 0,
        scheduler: str = "serial",
        folder: str | None = None,
    ) -> None:
        self.lambda1 = lambda1
        self.lambda1_steps = lambda1_steps
        self.lambda2 = lambda2
        self.lambda2_steps = lambda2_steps
        self.alpha = alpha
        self.choose = choose
        self.standard_errors = standard_errors
        self.patience = patience
        self.gap = gap
        self.epsilon = epsilon
        self.max_iterations = max_iterations
        self.solver = solver
        self.bias = bias
        self.validation_fraction = validation_fraction
        self.encode = encode
        self.random_state = random_state
        self.scheduler = scheduler
        self.folder = folder

    def _will_tell_probabilities(self) -> bool:
        return True

    def _will_give_scores(self) -> bool:
        return True


class AveragedSGDClassifier(Gradual):
    """One linear classifier a class by parallel SGD: models trained apart, averaged in rounds (Zinkevich et al. 2010).

    Parameters as in a [[train]] section of kind ovr without a kernel. loss="multinomial" tells probabilities;
    class_weight is "none" or "balanced".
    """

    learner_kind: ClassVar[str] = "ovr"

    def __init__(
        self,
        loss: str = "squared-hinge",
        *,
        rounds: int = 10,
        passes: int = 1,
        partitions: int = 4,
        least_rows: int = 120_000,
        batch: int = 16,
        step: Any = "auto",
        regularization: Any = "auto",
        class_weight: str = "none",
        bias: bool = True,
        encode: Any = None,
        random_state: Any = 0,
        scheduler: str = "serial",
        folder: str | None = None,
    ) -> None:
        self.loss = loss
        self.rounds = rounds
        self.passes = passes
        self.partitions = partitions
        self.least_rows = least_rows
        self.batch = batch
        self.step = step
        self.regularization = regularization
        self.class_weight = class_weight
        self.bias = bias
        self.encode = encode
        self.random_state = random_state
        self.scheduler = scheduler
        self.folder = folder

    def _will_tell_probabilities(self) -> bool:
        return bool(self.loss == MULTINOMIAL)

    def _without_probabilities(self) -> str:
        return 'its scores are no log-odds; with loss="multinomial" they are'

    def _will_give_scores(self) -> bool:
        return True


class HeshingClassifier(Gradual):
    """Hierarchical feature hashing: all classes share 2^bits numbers a level of the taxonomy (Zhao & Xing).

    taxonomy  a file as `labelgrove ingest --taxonomy` reads it, or a mapping of parents to children whose leaves are
              the labels: {"plants": ["oak", "rye"]}; None: every class stands below the root
    Other parameters as in a [[train]] section of kind heshing; loss="multinomial" tells probabilities.
    """

    learner_kind: ClassVar[str] = "heshing"

    def __init__(
        self,
        taxonomy: Taxonomy = None,
        *,
        bits: int = 20,
        buckets: int | None = None,
        table: str = "shared",
        loss: str = "crammer-singer",
        rounds: int = 10,
        passes: int = 1,
        partitions: int = 4,
        least_rows: int = 120_000,
        batch: int = 16,
        step: Any = "auto",
        regularization: Any = "auto",
        encode: Any = None,
        random_state: Any = 0,
        scheduler: str = "serial",
        folder: str | None = None,
    ) -> None:
        self.taxonomy = taxonomy
        self.bits = bits
        self.buckets = buckets
        self.table = table
        self.loss = loss
        self.rounds = rounds
        self.passes = passes
        self.partitions = partitions
        self.least_rows = least_rows
        self.batch = batch
        self.step = step
        self.regularization = regularization
        self.encode = encode
        self.random_state = random_state
        self.scheduler = scheduler
        self.folder = folder

    def _will_tell_probabilities(self) -> bool:
        return bool(self.loss == MULTINOMIAL)

    def _without_probabilities(self) -> str:
        return 'its scores are no log-odds; with loss="multinomial" they are'

    def _will_give_scores(self) -> bool:
        return True
