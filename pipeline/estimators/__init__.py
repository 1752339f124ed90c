"""scikit-learn estimators over the pipeline: the models of `labelgrove run`, fitted and used from Python.

The stages, their seeds and their files are those of a run, so a fit gives the model of the run to the same digest.
"""

from pipeline.estimators.base import FewRowsWarning
from pipeline.estimators.classifiers import (
    AveragedSGDClassifier,
    HeshingClassifier,
    KMeansTreeClassifier,
    LabelTreeClassifier,
    RelaxedHierarchyClassifier,
    TraceNormClassifier,
)
from pipeline.estimators.encoders import ProductQuantizer, WTAHasher
from pipeline.estimators.errors import BadParameter, BadRows, FolderTaken, NoNumbers
from pipeline.estimators.trained import TrainedClassifier

__all__ = [
    "AveragedSGDClassifier",
    "BadParameter",
    "BadRows",
    "FewRowsWarning",
    "FolderTaken",
    "HeshingClassifier",
    "KMeansTreeClassifier",
    "LabelTreeClassifier",
    "NoNumbers",
    "ProductQuantizer",
    "RelaxedHierarchyClassifier",
    "TraceNormClassifier",
    "TrainedClassifier",
    "WTAHasher",
]
