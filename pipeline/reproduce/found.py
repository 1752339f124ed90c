"""What the runs of a figure have come to, read from their folders, with the questions that figures ask."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.config import Learner, RunConfig
from pipeline.dataset import Dataset
from pipeline.report.metrics import Metrics, known


@dataclass(frozen=True)
class RunFound:
    """One run: its config, metrics.json, and its folder."""

    config: RunConfig
    metrics: Mapping[str, Any]
    folder: Path

    @property
    def models(self) -> Mapping[str, Metrics]:
        return dict(self.metrics.get("models", {}))

    def value(self, model: str, key: str) -> float | None:
        """A finite number of a model, or None."""
        return known(self.models.get(model, {}), key)

    def need(self, model: str, key: str) -> float:
        """The same of a number that is there; NaN where it is not, with which every comparison fails."""
        found = self.value(model, key)
        return math.nan if found is None else found

    def detail(self, model: str, key: str) -> Any:
        """A list of metrics.json's details, or None."""
        return dict(self.metrics.get("details", {})).get(model, {}).get(key)

    def learners(self, kind: str, **settings: Any) -> list[Learner]:
        """The config's learners of a kind, with these settings, that have results."""
        return [
            one
            for one in self.config.train
            if getattr(one, "kind", "") == kind
            and one.name in self.models
            and all(getattr(one, key, None) == value for key, value in settings.items())
        ]

    def csv(self, name: str) -> list[dict[str, str]]:
        """The lines of a CSV beside the run's page; [] where there is none."""
        path = self.folder / "report-figures" / f"{name}.csv"
        return list(csv.DictReader(io.StringIO(path.read_text("utf-8")))) if path.is_file() else []

    def csv_names(self, start: str) -> list[str]:
        """Names, without ending, of the CSV files that begin so."""
        return sorted(path.stem for path in (self.folder / "report-figures").glob(f"{start}*.csv"))


@dataclass(frozen=True)
class Found:
    """The dataset, the runs by the key of their part, and why other parts were left out."""

    dataset: Dataset | None = None
    runs: Mapping[str, RunFound] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Dataset:
        """The dataset of a figure that has one."""
        if self.dataset is None:
            raise LookupError("the figure has no dataset")
        return self.dataset

    @property
    def levels(self) -> int:
        """Levels of the dataset's taxonomy with the root; 1 without."""
        return self.dataset.taxonomy.n_levels if self.dataset is not None and self.dataset.taxonomy is not None else 1


def mean(values: Sequence[float]) -> float:
    """NaN of none."""
    return math.fsum(values) / len(values) if values else math.nan


def worst(values: Sequence[float]) -> float:
    """The largest; NaN of none or where one is NaN."""
    return max(values, default=math.nan) if not any(map(math.isnan, values)) else math.nan


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Least-squares exponent p of y ~ x^p; NaN with fewer than two different x above 0."""
    pairs = [(math.log(a), math.log(b)) for a, b in zip(x, y, strict=True) if a > 0 and b > 0]
    mid_x, mid_y = mean([a for a, _ in pairs]), mean([b for _, b in pairs])
    spread = math.fsum((a - mid_x) ** 2 for a, _ in pairs)
    return math.fsum((a - mid_x) * (b - mid_y) for a, b in pairs) / spread if spread > 0 else math.nan
