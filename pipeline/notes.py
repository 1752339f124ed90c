"""What is worth knowing of a config on a dataset with nothing wrong: said by check, plan, run and the report."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.config import Heshing, Learner
from pipeline.dataset import Dataset, Note


def learner_notes(learners: Sequence[Learner], dataset: Dataset) -> list[Note]:
    """Models that come to something else than their kind promises."""
    flat = [learner.name for learner in learners if isinstance(learner, Heshing)]
    if dataset.taxonomy is not None or not flat:
        return []
    text = f"the dataset has no taxonomy: {', '.join(flat)} hashes every class on its own, as flat-hash does"
    return [Note("HeshingWithoutTaxonomy", text, "warning")]


def note_line(note: Note) -> str:
    """warning: Code: text."""
    return f"{note.level}: {note.code}: {note.text}"
