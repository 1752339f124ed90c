"""Machines: config, plan, run folder, Dask, report. Imports `tasks`; `tasks` never imports this.

What Python users take from here is loaded when it is asked for: `from pipeline import LabelTreeClassifier, Run`.
"""

from typing import Any

_ESTIMATORS = (
    "AveragedSGDClassifier",
    "HeshingClassifier",
    "KMeansTreeClassifier",
    "LabelTreeClassifier",
    "ProductQuantizer",
    "RelaxedHierarchyClassifier",
    "TraceNormClassifier",
    "TrainedClassifier",
    "WTAHasher",
)
_PLACES = {**dict.fromkeys(_ESTIMATORS, "pipeline.estimators"), "Run": "pipeline.run_view"}

__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
    """PEP 562: importing the package loads none of them."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
