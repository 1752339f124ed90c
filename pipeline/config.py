"""The config: what is learnt. TOML in, one strict model out, every finding at once, with line and nearest key.

Where a run happens (workers, memory, TLS) is a `Profile` (pipeline/profile.py) and never stands here.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipeline.config_errors import ConfigError, findings_of
from pipeline.overrides import apply_overrides

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
OWN_ROWS = "x"  # the dataset's own rows


class Section(BaseModel):
    """Unknown keys refused, no silent conversions, frozen."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=True)


class DataSection(Section):
    """Which dataset."""

    path: str = Field(description="the dataset store, relative to the config file")


class PqEncoding(Section):
    """Product quantisation: one byte per sub-vector (Harchaoui et al., section 4)."""

    name: Name = Field(description="what learners call it in `rows` and `test_rows`")
    kind: Literal["pq"]
    rows: str = Field(OWN_ROWS, description='what is encoded: "x" or an earlier encoding')
    subquantizers: int | None = Field(None, ge=1, description="codes per row; default: one per 8 features or so")
    bits: int = Field(8, ge=1, le=8, description="2^bits centroids per codebook")
    iterations: int = Field(15, ge=1, description="Lloyd rounds")
    sample: int = Field(16384, ge=2, description="rows on which the codebooks are trained")


class Learner(Section):
    """What every learner is told."""

    name: Name = Field(description="the model's folder and its name in the report")
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


class OneVsRest(SgdLearner):
    """One linear classifier per class."""

    kind: Literal["ovr"]
    loss: Literal["squared-hinge", "hinge", "logistic", "multinomial", "crammer-singer"] = Field(
        "squared-hinge", description="what is made small; the last two compare all classes of a row"
    )
    class_weight: Literal["none", "balanced"] = Field("none", description="balanced: rare classes count as much")
    bias: bool = Field(True, description="a constant per class")


class HashLearner(SgdLearner):
    """Keys of the hash learners (Zhao & Xing)."""

    bits: int = Field(20, ge=1, le=30, description="m = 2^bits numbers per level")
    buckets: int | None = Field(None, ge=1, description="m itself, when it is not a power of two")
    loss: Literal["crammer-singer", "multinomial"] = Field("crammer-singer", description="what is made small")

    @property
    def n_buckets(self) -> int:
        return self.buckets or 1 << self.bits


class Heshing(HashLearner):
    """Hierarchical feature hashing."""

    kind: Literal["heshing"]


class FlatHash(HashLearner):
    """Every class under its own hash."""

    kind: Literal["flat-hash"]


class LabelTree(SgdLearner):
    """Label tree learned with its partition (Deng et al.), efficiency- or accuracy-constrained."""

    kind: Literal["label-tree"]
    branching: int | None = Field(
        None, ge=2, description="children per node (Q); default: the `depth`-th root of the classes"
    )
    depth: int | None = Field(
        None, ge=1, description="splits from root to leaf (H); default: 2, or 1 for fewer than 16 classes"
    )
    ambiguity: float | None = Field(None, gt=0, le=1, description="cap on the share of classes a child keeps (delta)")
    loss: float | None = Field(None, ge=0, lt=1, description="cap on the classification loss (epsilon); instead of it")
    alternations: int = Field(3, ge=1, description="weights and partition in turn (T)")
    initialisation: Literal["kmeans", "random"] = Field("kmeans", description='"random" is the paper\'s')
    training_rows: Literal["of-class", "routed"] = Field(
        "of-class", description='a child learns from all rows of its classes, or ("routed", the paper) those sent to it'
    )
    runners_up: bool = Field(True, description="spend ambiguity that is left over; false is the paper's")
    rounds: int = Field(5, ge=1, description="averages in every alternation")
    least_rows: int = Field(20_000, ge=1, description="rows met in one fit at least, by more passes over small nodes")
    bias: bool = Field(True, description="a constant per child")


Training = Annotated[OneVsRest | Heshing | FlatHash | LabelTree, Field(discriminator="kind")]


class PredictSection(Section):
    """Predictions of the test rows."""

    top: int = Field(5, ge=1, description="classes kept per row")


class ReportSection(Section):
    """The page."""

    title: str = Field("", description="heading of the page; default: the run's name")
    worst_classes: int = Field(20, ge=0, description="rows of the per-class table")


class RunConfig(Section):
    """One run."""

    name: Name = Field(description="the run folder is runs/NAME beside the config")
    seed: int = Field(0, ge=0, description="of everything that is drawn; another seed is another run")
    data: DataSection
    encode: tuple[PqEncoding, ...] = ()
    train: tuple[Training, ...] = ()
    predict: PredictSection = PredictSection()
    report: ReportSection = ReportSection()

    @model_validator(mode="after")
    def _names_agree(self) -> RunConfig:
        problems = list(self._disagreements())
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _disagreements(self) -> Iterator[str]:
        known = {OWN_ROWS}
        for encoding in self.encode:
            if encoding.rows not in known:
                yield f"encode {encoding.name!r} reads rows {encoding.rows!r}: expected one of {sorted(known)}"
            if encoding.name in known:
                yield f"two encodings are called {encoding.name!r} ('x' is the dataset's own rows)"
            known.add(encoding.name)
        for learner in self.train:
            for key, rows in (("rows", learner.rows), ("test_rows", learner.tested_on)):
                if rows not in known:
                    yield f"train {learner.name!r}: {key} = {rows!r}: expected one of {sorted(known)}"
            if isinstance(learner, LabelTree) and learner.ambiguity is not None and learner.loss is not None:
                yield f"train {learner.name!r}: ambiguity and loss are two constraints: give one"
        names = [learner.name.lower() for learner in self.train]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"two models are called {name!r} (names differ by more than case)"


@dataclasses.dataclass(frozen=True)
class LoadedConfig:
    """A config with where it came from: paths in it are relative to its file."""

    run: RunConfig
    path: Path
    text: str
    overrides: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def dataset_path(self) -> Path:
        return (self.folder / self.run.data.path).absolute()


def load_config(path: str | Path, overrides: tuple[str, ...] = ()) -> LoadedConfig:
    """Read, override and check a config. Raises ConfigError with all findings, each with its line when it has one."""
    path = Path(path)
    text, values = read_toml(path)
    apply_overrides(values, overrides)
    try:
        return LoadedConfig(RunConfig.model_validate_json(_as_json(values)), path, text, overrides)
    except ValidationError as error:
        raise ConfigError.of(findings_of(error, RunConfig, values, text), str(path)) from None


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file and what it says. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(
            "there is no such file", str(path), "`labelgrove init DIR` writes one to start from"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, IsADirectoryError, RecursionError) as error:
        raise ConfigError(f"not a TOML file: {error}", str(path), "see https://toml.io for the syntax") from None


def dataset_of_text(path: Path, overrides: tuple[str, ...] = ()) -> Path | None:
    """Where the dataset of a config is that is wrong in other places; None when even that is not said."""
    try:
        _, values = read_toml(path)
        apply_overrides(values, overrides)
        return (path.parent / str(values["data"]["path"])).absolute()
    except (ConfigError, KeyError, TypeError):
        return None


def _as_json(values: dict[str, Any]) -> str:
    """Validation in JSON mode is strict about types and still takes arrays for tuples and 1 for 1.0."""
    import json

    return json.dumps(values, default=str)
