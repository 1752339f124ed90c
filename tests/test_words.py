"""One word for one thing: what people read of us keeps to the words of DESIGN.md.

Read are the help texts, the descriptions of config keys, the texts of errors where they are raised and warnings where
they are made, the docstrings of error classes (REFERENCE shows them), and README, GUIDE and REFERENCE, but for what is
typed: code blocks, what stands in backticks, addresses of links.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.pipeline import command_table, config_table, error_table

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "GUIDE.md", "REFERENCE.md")


@dataclass(frozen=True, slots=True)
class Word:
    """What we do not say, as a pattern; what we say; and texts in which it means something else, with the reason."""

    pattern: str
    say: str
    but: tuple[tuple[str, str], ...] = ()


WORDS = {
    "instances": Word(r"\binstances?\b|\bdata ?points?\b|\bobservations?\b", "rows"),
    "examples": Word(
        r"(?<!for )\bexamples?\b", "rows", (("the example that the paper prints", "numbers worked out in a paper"),)
    ),
    "samples": Word(r"\b(training|test|validation|labell?ed) samples?\b|\bsamples? (per|of a) class\b", "rows"),
    "test set": Word(r"\b(test|train|training|validation)[ -](sets?|data)\b", "test rows, training rows, ..."),
    "categories": Word(r"\bcategor(y|ies)\b", "classes"),
    "number of labels": Word(r"\b(number|thousands|hundreds) of labels\b|\blabel sets?\b", "classes"),
    "dimensions": Word(r"\bdimensions?\b|\bdimensionality\b", "features; columns of a matrix"),
    "data set": Word(r"\bdata[ -]sets?\b", "dataset"),
    "chunk of rows": Word(
        r"\b(chunks?|batches|slices) of rows\b|\brow[ -](chunks?|groups?)\b",
        "blocks",
        (("row group", "of Parquet files"),),
    ),
    "ensemble": Word(r"\bensembles?\b|\bbagging\b", "several trees, a forest"),
    "leaf node": Word(r"\bleaf nodes?\b|\bleafs\b|\bterminal nodes?\b", "leaf, leaves"),
    "ontology": Word(r"\bontolog(y|ies)\b|\b(class|label) (hierarchy|tree of classes)\b", "taxonomy"),
    "code words": Word(r"\bcode[ -]?words?\b|\bcode vectors?\b", "centroids of a codebook"),
    "sub-quantizers": Word(r"\bsub-quanti[sz]ers?\b|\bsubquantisers?\b", "subquantizers"),
    "epochs": Word(r"\bepochs?\b", "passes over the rows; rounds of averages"),
    "learning rate": Word(r"\blearning rates?\b", "step"),
    "hyperparameters": Word(r"\bhyper-?parameters?\b", "keys"),
    "experiment": Word(r"\b(this|your|an) experiment\b", "a run"),
    "checkpoint": Word(r"\bcheckpoints?\b", "finished steps"),
    "top-1": Word(r"\btop-?1\b|\bprecision@1\b", "accuracy"),
    "flat error": Word(r"\bflat error\b|\b0-1 (loss|error)\b|\berror rate\b", "accuracy"),
    "test ops": Word(r"\btest[ -](ops|cost|complexity)\b|\binner products? per\b|\bFLOPs?\b", "dot products per row"),
    "complexity": Word(r"(?<!relative )\bcomplexity\b", "dot products per row; relative complexity of hierarchies"),
    "ECE": Word(r"\bECE\b|\bexpected calibration\b|\bmiscalibration\b", "calibration error"),
    "log loss": Word(r"\blog loss\b|\bcross[ -]entropy\b|\bNLL\b", "log-loss"),
    "hierarchy error": Word(r"\bhierarch(y|ic) (error|loss)\b|\btree[ -](induced )?loss\b", "hierarchical error"),
    "random_state": Word(
        r"\brandom[ _]states?\b", "seed", (("random_state", "the parameter of estimators in Python"),)
    ),
    "one-vs-all": Word(r"\bone-(vs|versus|against)-(all|the-rest)\b|\bone-versus-rest\b", "one-vs-rest"),
    "directory": Word(r"\bdirector(y|ies)\b", "folder"),
    "timeout": Word(r"\btimeouts?\b", "time-out"),
    "executor": Word(r"\bexecutors?\b|\bworker nodes?\b", "workers"),
    "corrupted": Word(r"\bcorrupt(ed|ion)?\b", "damaged"),
}


def read(text: str) -> str:
    """A text without what is typed: in backticks, names of TOML tables."""
    return re.sub(r"`[^`]*`|\[\w+\]", " ", text)


def prose(page: str) -> Iterator[tuple[str, str]]:
    """(place, text) of every line that is read rather than typed."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", lambda found: "\n" * found[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    for number, line in enumerate(text.splitlines(), 1):
        yield f"{page}:{number}", read(re.sub(r"\]\([^)]*\)", " ", line))


def raised(path: Path) -> Iterator[tuple[str, str]]:
    """(place, text) of the literals in `raise X(...)`, and in what makes notes and findings."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        calls = [node.exc] if isinstance(node, ast.Raise) and node.exc is not None else []
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Note", "Finding", "warn", "say"):
            calls.append(node)
        for call in calls:
            for one in ast.walk(call):
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    yield f"{path.relative_to(ROOT)}:{one.lineno}", read(one.value)


def texts() -> list[tuple[str, str]]:
    found = [(f"{name} --help", command.help or "") for name, command in command_table.commands().items()]
    found += [
        (f"{name} --help", one.help or "") for name, cmd in command_table.commands().items() for one in cmd.params
    ]
    found += [(f"{section} {key}", read(meaning)) for section, key, _, meaning in config_table.rows()]
    found += [(name, said) for _, name, said in error_table.errors()]
    for path in sorted([*(ROOT / "pipeline").rglob("*.py"), *(ROOT / "tasks").rglob("*.py")]):
        found += raised(path)
    return found + [line for page in PAGES for line in prose(page)]


TEXTS = texts()


def test_there_is_something_to_read() -> None:
    places = {place.split(":")[0] for place, _ in TEXTS}
    assert len(TEXTS) > 2000
    assert {*PAGES, "run --help", "DiskFull", "`[data]` `path`"} <= places
    assert any(place.startswith("tasks/") for place in places)
    assert any(place.startswith("pipeline/") for place in places)


@pytest.mark.parametrize("word", WORDS)
def test_we_do_not_say(word: str) -> None:
    one = WORDS[word]
    allowed = [text for text, _ in one.but]
    said = [
        f"{place}: {text.strip()[:100]}"
        for place, text in TEXTS
        if re.search(one.pattern, text, re.IGNORECASE) and not any(part in text for part in allowed)
    ]
    assert not said, f"say {one.say}"


@pytest.mark.parametrize("word", [word for word, one in WORDS.items() if one.but])
def test_every_exception_is_needed(word: str) -> None:
    """An exception that nothing needs any more would hide the next slip."""
    for part, _ in WORDS[word].but:
        assert any(part in text and re.search(WORDS[word].pattern, text, re.IGNORECASE) for _, text in TEXTS), part


SLIPS = {  # a sentence for every word: what its pattern is for
    "instances": "so many instances a class",
    "examples": "10,000 training examples",
    "samples": "the training samples",
    "test set": "accuracy on the test set",
    "categories": "1,246 categories",
    "number of labels": "the number of labels is K",
    "dimensions": "rows of 512 dimensions",
    "data set": "the data set is split",
    "chunk of rows": "a chunk of rows",
    "ensemble": "an ensemble of trees",
    "leaf node": "a leaf node",
    "ontology": "the ontology of the classes",
    "code words": "256 codewords",
    "sub-quantizers": "16 sub-quantizers",
    "epochs": "after ten epochs",
    "learning rate": "a learning rate of 0.1",
    "hyperparameters": "its hyper-parameters",
    "experiment": "name your experiment",
    "checkpoint": "the last checkpoint",
    "top-1": "top-1 on test rows",
    "flat error": "the flat error",
    "test ops": "test ops of a row",
    "complexity": "the complexity of a row",
    "ECE": "an ECE of 0.1",
    "log loss": "the log loss",
    "hierarchy error": "the hierarchy error",
    "random_state": "a random state",
    "one-vs-all": "one-versus-rest",
    "directory": "an empty directory",
    "timeout": "after the timeout",
    "executor": "three worker nodes",
    "corrupted": "a corrupted file",
}


@pytest.mark.parametrize("word", WORDS)
def test_every_pattern_finds_what_it_is_for(word: str) -> None:
    assert re.search(WORDS[word].pattern, SLIPS[word], re.IGNORECASE)
