"""The config: what is learnt. TOML in, one strict model out, every finding at once, with line and nearest key.

Where a run happens (workers, memory, TLS) is a `Profile` (pipeline/connection/profile.py) and never stands here.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from pydantic import Field, ValidationError, model_validator

from pipeline.config_errors import ConfigError, findings_of
from pipeline.encodings import AdditiveMap, AnyEncoding, CodesEncoding, Dwta, Normalize, PcaEncoding, PqEncoding, Wta
from pipeline.overrides import Origins, apply_overrides, refuse_swept, split_overrides
from pipeline.section import OWN_ROWS, Encoding, Learner, Name, Section
from pipeline.sections import (
    AnySvm,
    BengioTree,
    DataSection,
    EvaluateSection,
    FlatHash,
    HashLearner,
    Heshing,
    HieSvm,
    KMeansTree,
    LabelTree,
    MultiSvm,
    NearestClassMean,
    OneVsRest,
    PredictSection,
    ReportSection,
    RetrieveSection,
    SgdLearner,
    TaxonomyLearner,
    TraceNorm,
    Training,
    TreeLearner,
    TreeSvm,
)
from pipeline.svm_sections import (
    OF_HISTOGRAMS,
    DagSvm,
    MarszalekTree,
    OneVsOne,
    RelaxedHierarchy,
    RivalHierarchy,
    SpectralTree,
    SplitLearner,
    SvmKeys,
    SvmLearner,
)
from pipeline.sweep import expand
from tasks.urls import is_url

__all__ = [
    "OWN_ROWS",
    "SVM_KEYS",
    "AdditiveMap",
    "AnyEncoding",
    "AnySvm",
    "BengioTree",
    "CodesEncoding",
    "DagSvm",
    "DataSection",
    "Dwta",
    "Encoding",
    "EvaluateSection",
    "FlatHash",
    "HashLearner",
    "Heshing",
    "HieSvm",
    "KMeansTree",
    "LabelTree",
    "Learner",
    "LoadedConfig",
    "MarszalekTree",
    "MultiSvm",
    "Name",
    "NearestClassMean",
    "Normalize",
    "OneVsOne",
    "OneVsRest",
    "PcaEncoding",
    "PqEncoding",
    "PredictSection",
    "RelaxedHierarchy",
    "ReportSection",
    "RetrieveSection",
    "RivalHierarchy",
    "RunConfig",
    "Section",
    "SgdLearner",
    "SpectralTree",
    "SplitLearner",
    "SvmKeys",
    "SvmLearner",
    "TaxonomyLearner",
    "TraceNorm",
    "Training",
    "TreeLearner",
    "TreeSvm",
    "Wta",
    "dataset_of_text",
    "is_svm",
    "load_config",
    "read_toml",
    "read_values",
]

PASSWORD = re.compile(r"://[^/\s:@'\"]*:[^/\s'\"]*@")


class RunConfig(Section):
    """One run."""

    name: Name = Field(description="the run folder is runs/NAME beside the config")
    seed: int = Field(0, ge=0, description="of everything that is drawn; another seed is another run")
    data: DataSection
    encode: tuple[AnyEncoding, ...] = ()
    train: tuple[Training, ...] = ()
    retrieve: tuple[RetrieveSection, ...] = ()
    predict: PredictSection = PredictSection()
    evaluate: EvaluateSection = EvaluateSection()
    report: ReportSection = ReportSection()

    @model_validator(mode="after")
    def _names_agree(self) -> RunConfig:
        problems = list(self._disagreements())
        if problems:
            raise ValueError("\n".join(problems))  # a finding each
        return self

    def _disagreements(self) -> Iterator[str]:
        columns = {OWN_ROWS: OWN_ROWS}  # rows name -> the rows whose columns it has
        no_histograms: dict[str, str] = {}  # rows name -> why they are none
        negative: dict[str, str] = {}  # rows name -> why values below 0 are among them
        for encoding in self.encode:
            if encoding.rows not in columns:
                yield f"encode {encoding.name!r} reads rows {encoding.rows!r}: expected one of {sorted(columns)}"
            if encoding.name in columns:
                yield f"two encodings are called {encoding.name!r} ('x' is the dataset's own rows)"
            why = no_histograms.get(encoding.rows, "")
            if why and isinstance(encoding, AdditiveMap):
                yield f"encode {encoding.name!r} is of a kernel of histograms, rows {encoding.rows!r} are none: {why}"
            if isinstance(encoding, Normalize) and encoding.norm != "power" and "exponent" in encoding.model_fields_set:
                yield f'encode {encoding.name!r}: exponent is of norm = "power", not of {encoding.norm!r}'
            kept = encoding.keeps_signs
            no_histograms[encoding.name] = why if kept else encoding.why_no_histograms
            negative[encoding.name] = negative.get(encoding.rows, "") if kept else _why_negative(encoding)
            held = encoding.keeps_columns
            columns[encoding.name] = columns.get(encoding.rows, encoding.rows) if held else encoding.name
        for learner in self.train:
            yield from _learner_disagreements(learner, columns)
            yield from _negative_rows(learner, negative)
        yield from self._trees_disagree()
        yield from self._kinds_disagree()
        codes = [encoding.name for encoding in self.encode if isinstance(encoding, CodesEncoding)]
        for retrieval in self.retrieve:
            if retrieval.rows not in codes:
                known = f"expected one of {codes}" if codes else "the config has no encoding of kind wta or dwta"
                yield f"retrieve {retrieval.name!r} reads rows {retrieval.rows!r}: {known}"
        yield from _repeated("models", [learner.name for learner in self.train])
        yield from _repeated("retrievals", [retrieval.name for retrieval in self.retrieve])

    def _kinds_disagree(self) -> Iterator[str]:
        """Descriptors are made of images, rows of descriptors; everything else reads numbers."""
        sifts = [encoding.name for encoding in self.encode if encoding.gives == "descriptors"]
        some = f"one of {sifts}" if sifts else "the config has none yet"
        for encoding in self.encode:
            if encoding.takes == "images" and encoding.rows != OWN_ROWS:
                yield f"encode {encoding.name!r} describes images: its rows are {OWN_ROWS!r}, not {encoding.rows!r}"
            if encoding.takes == "descriptors" and encoding.rows not in sifts:
                kind = getattr(encoding, "kind", "")
                read = f"encode {encoding.name!r}, {kind}, reads rows {encoding.rows!r}"
                yield f"{read}: expected a sift encoding, {some}"
            if encoding.takes == "numbers" and encoding.rows in sifts:
                yield f"encode {encoding.name!r} reads rows {encoding.rows!r}, {DESCRIPTORS}"
        for learner in self.train:
            for key, rows in (("rows", learner.rows), ("test_rows", learner.tested_on)):
                if rows in sifts:
                    yield f"train {learner.name!r}: {key} = {rows!r}, {DESCRIPTORS}"
                    break

    def _trees_disagree(self) -> Iterator[str]:
        """What a tree takes from another model is of one that stands above it, and of the rows that it is tested on."""
        above: list[Learner] = []
        for learner in self.train:
            key, kind = MADE_FROM.get(type(learner), ("", ""))
            of_kind = {one.name: one for one in above if kind.endswith(f" {getattr(one, 'kind', '')}")}
            for named in needed_models(learner):
                if named not in of_kind:
                    known = f"one of {list(of_kind)}" if of_kind else "there is none"
                    yield f"train {learner.name!r}: {key} = {named!r}: expected {kind} above it, {known}"
                elif (rows := of_kind[named].tested_on) != learner.tested_on:
                    own = learner.tested_on
                    yield f"train {learner.name!r}: {key} = {named!r} is tested on {rows!r}, not on {own!r}"
            above.append(learner)


DESCRIPTORS = "which are descriptors, many to an image: make rows of them first (bow, llc or fisher)"
MADE_FROM: dict[type[Learner], tuple[str, str]] = {  # key, and the kind of model that it names
    LabelTree: ("ambiguity_of", "a bengio-tree"),
    BengioTree: ("confusion_of", "an ovr"),
}


def is_svm(learner: Learner) -> TypeGuard[AnySvm]:
    """Whether a learner is made of support vector machines."""
    return isinstance(learner, SvmLearner) or (isinstance(learner, OneVsRest) and learner.kernel is not None)


def needed_models(learner: Learner) -> tuple[str, ...]:
    """The models of the config that a learner is made from."""
    key, _ = MADE_FROM.get(type(learner), ("", ""))
    named = getattr(learner, key) if key else None
    return () if named is None else (named,)


def _learner_disagreements(learner: Learner, columns: Mapping[str, str]) -> Iterator[str]:
    unknown = [
        (key, rows) for key, rows in (("rows", learner.rows), ("test_rows", learner.tested_on)) if rows not in columns
    ]
    for key, rows in unknown:
        yield f"train {learner.name!r}: {key} = {rows!r}: expected one of {sorted(columns)}"
    if not unknown and columns[learner.rows] != columns[learner.tested_on]:
        yield (
            f"train {learner.name!r}: rows {learner.rows!r} and test_rows {learner.tested_on!r} have other columns: "
            "what a model learns from must stand for what it is tested on, as pq codes stand for their rows"
        )
    if isinstance(learner, LabelTree):
        given = [key for key in ("ambiguity", "ambiguity_of", "loss", "speedup") if getattr(learner, key) is not None]
        if len(given) > 1:
            yield f"train {learner.name!r}: {' and '.join(given)} are {len(given)} constraints: give one"
    if isinstance(learner, KMeansTree) and None not in (learner.speedup, learner.branching, learner.depth):
        yield f"train {learner.name!r}: speedup proposes what is not given of branching and depth: leave one out"
    if isinstance(learner, TraceNorm):
        yield from _path_disagreements(learner)
    if isinstance(learner, SvmLearner | OneVsRest):
        yield from _svm_disagreements(learner)


def _path_disagreements(learner: TraceNorm) -> Iterator[str]:
    paths = (("lambda1", learner.lambda1, learner.n_lambda1), ("lambda2", learner.lambda2, learner.lambda2_steps))
    for key, first, steps in paths:
        if first == 0 and steps > 1:
            yield f"train {learner.name!r}: {key}_steps = {steps} values of {key} = 0: give a larger {key}, or one step"
    if learner.lambda1 == 0 and (learner.lambda2 == 0 or (learner.lambda2 == "auto" and learner.lambda2_steps == 1)):
        yield f"train {learner.name!r}: lambda1 and lambda2 are both 0, so no weights are best: give one of them"


SVM_KEYS = ("kernel", "C", "width", "classes", "draw")  # that an ovr of support vector machines has


def _svm_disagreements(learner: SvmLearner | OneVsRest) -> Iterator[str]:
    given = learner.model_fields_set
    if isinstance(learner, OneVsRest):
        svm = [key for key in SVM_KEYS if key in given and key != "kernel"]
        if learner.kernel is None and svm:
            yield f'train {learner.name!r}: {_listed(svm)}: only with a kernel, for example kernel = "linear"'
        others = sorted(given - Learner.model_fields.keys() - {"kind", *SVM_KEYS})
        if learner.kernel is not None and others:
            yield f"train {learner.name!r}: {_listed(others)}: not with a kernel, which is solved without SGD"
    if learner.width is not None and learner.kernel not in ("rbf", "chi2"):
        yield f"train {learner.name!r}: width is of the kernels rbf and chi2, not of {learner.kernel!r}"
    if "draw" in given and learner.classes is None:
        yield f"train {learner.name!r}: draw says which classes are drawn: give their number, classes"


def _why_negative(encoding: Encoding) -> str:
    """Why an encoding gives values below 0 whatever it reads, and what to do; "" where it is not so."""
    kernel = encoding.kernel_of_negatives
    if not kernel:
        return ""
    other = "" if encoding.takes == "descriptors" else f"learn from rows {encoding.rows!r}, or "
    return f'{encoding.why_no_histograms} ({other or "learn "}with kernel = "{kernel}")'


def _negative_rows(learner: Learner, negative: Mapping[str, str]) -> Iterator[str]:
    """A kernel of histograms on rows that hold values below 0 whatever the data are."""
    if not is_svm(learner) or learner.kernel not in OF_HISTOGRAMS:
        return
    own, tested = negative.get(learner.rows, ""), negative.get(learner.tested_on, "")
    if own or tested:
        key, rows = ("rows", learner.rows) if own else ("test_rows", learner.tested_on)
        yield (
            f'train {learner.name!r}: kernel = "{learner.kernel}" takes no value below 0, and {key} = {rows!r} has '
            f"some: {own or tested}"
        )


def _listed(keys: list[str]) -> str:
    return " and ".join(keys) if len(keys) < 3 else ", ".join(keys)


def _repeated(what: str, names: Iterable[str]) -> Iterator[str]:
    lower = [name.lower() for name in names]
    for name in sorted({name for name in lower if lower.count(name) > 1}):
        yield f"two {what} are called {name!r} (names differ by more than case)"


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
        return place_from(self.folder, self.run.data.path)


def load_config(path: str | Path, overrides: tuple[str, ...] = (), text: str | None = None) -> LoadedConfig:
    """Read, override and check a config; `text` stands for what is in the file.

    Raises ConfigError with all findings, each with its line when it has one.
    """
    path = Path(path)
    text, values, origins = read_values(path, overrides, text)
    try:
        return LoadedConfig(RunConfig.model_validate_json(_as_json(values)), path, text, overrides)
    except ValidationError as error:
        raise ConfigError.of(findings_of(error, RunConfig, values, text, origins), str(path)) from None


def read_toml(path: Path, text: str | None = None) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file and what it says. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8") if text is None else text
        return text, tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(
            "there is no such file", str(path), "`labelgrove init DIR` writes one to start from"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, IsADirectoryError, RecursionError) as error:
        raise ConfigError(f"not a TOML file: {error}", str(path), "see https://toml.io for the syntax") from None


def read_values(path: Path, overrides: tuple[str, ...], text: str | None = None) -> tuple[str, dict[str, Any], Origins]:
    """The text of a config, what it says without sweeps and with the overrides, and where sections come from.

    Raises ConfigError.
    """
    text, given = read_toml(path, text)
    refuse_passwords(text, str(path))
    refuse_passwords("\n".join(overrides), "--set")
    before, after = split_overrides(given, overrides)
    apply_overrides(given, before)
    values, origins = expand(given, str(path))
    refuse_swept(given, values, origins, after)
    apply_overrides(values, after)
    return text, values, origins


def refuse_passwords(text: str, where: str) -> None:
    """The run folder keeps a config and what was put over it, and shows it. Raises ConfigError."""
    if found := PASSWORD.search(text):
        line = text.count("\n", 0, found.start()) + 1
        hint = "credentials come from the environment or from the usual files of a store, never from a config"
        raise ConfigError(f"line {line} has a URL with a password in it", where, hint)


def dataset_of_text(path: Path, overrides: tuple[str, ...] = ()) -> Path | None:
    """Where the dataset of a config is that is wrong in other places; None when even that is not said."""
    try:
        values = read_values(path, overrides)[1]
        return place_from(path.parent, str(values["data"]["path"]))
    except (ConfigError, KeyError, TypeError):
        return None


def place_from(folder: Path, name: str) -> Path:
    """What a path in a config of this folder means; a URL means itself. Raises UrlRefused, PackageMissing."""
    if not is_url(name):
        return (folder / name).absolute()
    from tasks.places import at  # numba takes its time to load

    return at(name)


def _as_json(values: dict[str, Any]) -> str:
    """Validation in JSON mode is strict about types and still takes arrays for tuples and 1 for 1.0."""
    import json

    return json.dumps(values, default=str)
