"""`--only` and `--skip`: which models of a config a command is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pipeline.config import OWN_ROWS, RunConfig, needed_models
from tasks.errors import UsageError


@dataclass(frozen=True, slots=True)
class Choice:
    """Of a config's models: those of `only`, or all; without those of `skip`. In both * stands for anything."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    @classmethod
    def of(cls, only: Sequence[str] | None, skip: Sequence[str] | None) -> Choice:
        """From the command line, where names may also be joined by commas."""
        return cls(*(tuple(name for text in given or () for name in text.split(",")) for given in (only, skip)))

    def __bool__(self) -> bool:
        return bool(self.only or self.skip)

    def wants(self, name: str) -> bool:
        return (not self.only or _named(name, self.only)) and not _named(name, self.skip)

    def words(self) -> list[str]:
        """As typed: --only tree --skip ovr."""
        named = [("--only", name) for name in self.only] + [("--skip", name) for name in self.skip]
        return [word for pair in named for word in pair]

    def chosen(self, run: RunConfig) -> list[str]:
        """The names of the models, with those that they are made from.

        Raises UsageError for a name that no model has, or when no model is left.
        """
        names = [learner.name for learner in run.train]
        listed = f"models of the config: {', '.join(names) or 'none'}"
        for option, given in (("--only", self.only), ("--skip", self.skip)):
            for pattern in given:
                if not any(_named(name, (pattern,)) for name in names):
                    raise UsageError(f"no model is called {pattern!r}", option, listed)
        found = {name for name in names if self.wants(name)}
        if self and not found:
            raise UsageError("no model is left", " ".join(self.words()), listed)
        for learner in reversed(run.train):  # one that is needed stands before those that are made from it
            found |= set(needed_models(learner)) if learner.name in found else set()
        return [name for name in names if name in found]

    def needed(self, run: RunConfig) -> list[str]:
        """The names of those that were not wanted, and are chosen since others are made from them."""
        return [name for name in self.chosen(run) if not self.wants(name)]


def _named(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one of these, in which * stands for anything."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


EVERYTHING = Choice()


def without(run: RunConfig, left_out: Iterable[str]) -> RunConfig:
    """The config without these models and the encodings that only they read; models that others are made from stay."""
    gone = set(left_out)
    for learner in reversed(run.train):  # one that is needed stands before those that are made from it
        gone -= set() if learner.name in gone else set(needed_models(learner))
    if not gone:
        return run
    train = tuple(learner for learner in run.train if learner.name not in gone)
    needed = {rows for learner in train for rows in (learner.rows, learner.tested_on)} - {OWN_ROWS}
    needed |= {retrieval.rows for retrieval in run.retrieve}
    for encoding in reversed(run.encode):  # one that is read stands before its readers
        if encoding.name in needed:
            needed.add(encoding.rows)
    encode = tuple(encoding for encoding in run.encode if encoding.name in needed)
    return run.model_copy(update={"train": train, "encode": encode})


def model_of(stage: Any) -> str:
    """The model that a stage trains or tests, "" for encodings and the report."""
    learner = getattr(stage, "learner", None)
    return "" if learner is None else str(learner.name)
