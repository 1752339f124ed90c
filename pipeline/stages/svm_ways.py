"""What makes a step of support vector machines smaller, where it is too large for a machine: words for hints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.config import AnySvm, SplitLearner, is_svm
from pipeline.stage import Stage
from pipeline.svm_sections import OF_HISTOGRAMS

if TYPE_CHECKING:
    from pipeline.stages.svm_setup import SvmSetup


def svm_of(stage: Stage) -> AnySvm | SvmSetup | None:
    """What says the kernel of a step of support vector machines; None of any other step."""
    from pipeline.stages.svm_setup import SvmSetup

    if isinstance(stage, SvmSetup):
        return stage
    learner = getattr(stage, "learner", None)
    return learner if learner is not None and is_svm(learner) else None


def smaller_svm(stages: Sequence[Stage]) -> list[str]:
    """What helps those among these steps that are of support vector machines, the least change first."""
    from pipeline.stages.svm_setup import SvmSetup
    from pipeline.stages.train import TrainStage

    found = {str(one.kernel) for stage in stages if (one := svm_of(stage)) is not None}
    kernels = found - {"linear"}
    ways = list[str]()
    settles = any(isinstance(stage, SvmSetup) for stage in stages)  # which no bound of a node makes smaller
    if not settles and any(isinstance(one, TrainStage) and isinstance(one.learner, SplitLearner) for one in stages):
        ways.append("a smaller `rows_per_node`")
    if kernels:
        grows = f"memory for {' and '.join(sorted(kernels))} grows with their square"
        ways.append(f"fewer training rows a class at ingest ({grows})")
    if kernels & {*OF_HISTOGRAMS}:
        ways.append("a linear learner on a feature map (an encoding of kind chi2-map or hi-map)")
    elif kernels:
        ways.append('kernel = "linear"')
    if "linear" in found:
        ways.append("fewer features for the linear kernel (an encoding of kind pca)")
    return ways
