"""What is worth knowing of a config on a dataset with nothing wrong: said by check, plan, run and the report."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.config import Heshing, HieSvm, Learner, TaxonomyLearner, TraceNorm, TreeSvm
from pipeline.dataset import Dataset, Note

WITHOUT = {  # kind -> code of the note, and what a learner comes to on a flat tree
    Heshing: ("HeshingWithoutTaxonomy", "hashes every class on its own, as flat-hash does"),
    HieSvm: ("HieSvmWithoutTaxonomy", "has one vector per class, as msvm does"),
    TreeSvm: ("TreeSvmWithoutTaxonomy", "has a single split over all classes, as msvm does"),
}


def learner_notes(learners: Sequence[Learner], dataset: Dataset) -> list[Note]:
    """Models that come to something else than their kind promises."""
    return [*_without_taxonomy(learners, dataset), *_without_validation(learners, dataset)]


def _without_validation(learners: Sequence[Learner], dataset: Dataset) -> list[Note]:
    paths = [one.name for one in learners if isinstance(one, TraceNorm) and one.n_pairs > 1]
    if dataset.split_counts["validation"] or not paths:
        return []
    text = f"the dataset has no validation rows to choose among penalties: {', '.join(paths)} keeps the weakest"
    return [Note("PathWithoutValidation", text, "warning")]


def _without_taxonomy(learners: Sequence[Learner], dataset: Dataset) -> list[Note]:
    if dataset.taxonomy is not None:
        return []
    notes = []
    for kind, (code, comes_to) in WITHOUT.items():
        flat = [one.name for one in learners if isinstance(one, kind) and _follows_the_dataset(one)]
        if flat:
            text = f"the dataset has no taxonomy: {', '.join(flat)} {comes_to}"
            notes.append(Note(code, text, "warning"))
    return notes


def _follows_the_dataset(learner: Learner) -> bool:
    return isinstance(learner, TaxonomyLearner) and learner.taxonomy is None


def needed_note(names: Sequence[str]) -> list[Note]:
    """Of models that nobody has chosen, and others are made from."""
    text = f"others are made from {', '.join(names)}, so nothing of that is left out"
    return [Note("NeededByOthers", text, "info")] if names else []


def note_line(note: Note) -> str:
    """warning: Code: text."""
    return f"{note.level}: {note.code}: {note.text}"
