"""Whether a dataset fits a figure, and which figures it fits; told before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

import numpy as np

from pipeline.dataset import Dataset
from pipeline.report.numbers import percent
from pipeline.reproduce.figure import PaperFigure, Part
from tasks.errors import UsageError
from tasks.io import load_rows
from tasks.models.spectrum import within_reach
from tasks.rows import Csr

LEAST_ZEROS = 0.1  # share of zeros in rows that a figure of sparse rows is worth making of
LOOKED_AT = 512  # rows of the first block that zeros are counted in


class FigureUnfit(UsageError):
    """A dataset without what a figure of a paper needs: a taxonomy, dense rows, rows with zeros, fewer features."""


def refuse_unfit(figure: PaperFigure, dataset: Dataset, every: Iterable[PaperFigure]) -> None:
    """Raises FigureUnfit for the first thing that stands against the figure; names those of `every` that fit."""
    for what, hint in reasons(figure, dataset):
        names = ", ".join(fitting(every, dataset))
        told = f"this dataset allows {names}" if names else "this dataset allows no figure"
        raise FigureUnfit(f"{figure.name} {what}", dataset.path, f"{hint}; {told}")


def fitting(every: Iterable[PaperFigure], dataset: Dataset) -> list[str]:
    """The names of the figures that can be made of a dataset; those that need none are not among them."""
    return [figure.name for figure in every if figure.needs_data and not why_not(figure, dataset)]


def why_not(figure: PaperFigure, dataset: Dataset) -> str:
    """The first thing that stands against a figure of this dataset; "" when nothing does."""
    return next((what for what, _ in reasons(figure, dataset)), "")


def reasons(figure: PaperFigure, dataset: Dataset) -> Iterator[tuple[str, str]]:
    """What stands against a figure of this dataset, each with what to do."""
    if dataset.body == "images":
        hint = "make rows of them first: `labelgrove run images` shows how; or take another dataset"
        yield "is of rows of numbers, and these are images", hint
        return
    if not dataset.split_counts["test"] and figure.parts:
        yield "compares models on test rows, and the dataset has none", "ingest it with --test or --split"
    if dataset.n_classes < figure.least_classes:
        yield f"is of {figure.least_classes} classes or more, these are {dataset.n_classes}", "take another dataset"
    if "taxonomy" in figure.needs and dataset.taxonomy is None:
        yield "needs a taxonomy, and the dataset has none", "ingest it with --taxonomy FILE"
    if "dense" in figure.needs and dataset.body != "dense":
        yield f"is of dense rows, these are {dataset.body}", "take a dense dataset, or encode this one (pca)"
    if "sparse" in figure.needs:
        if dataset.n_features < 2:
            yield "compares features, and there is one", "take another dataset"
        elif dataset.body != "csr" and (zeros := share_of_zeros(dataset)) < LEAST_ZEROS:
            yield f"is of sparse rows, and {percent(zeros)} of these rows' values are zeros", "take a sparse dataset"
    if "spectrum" in figure.needs and not within_reach(dataset.n_features, dataset.n_classes):
        told = f"{dataset.n_features:,} features x {dataset.n_classes:,} classes"
        yield f"is a spectrum, and {told} are too many for one", "encode the rows (pca), or take another dataset"
    if figure.parts and not any(not why for why in (left_out(part, dataset) for part in figure.parts)):
        yield f"cannot be made: {left_out(figure.parts[0], dataset)}", "take a smaller dataset, or a part of this one"


def left_out(part: Part, dataset: Dataset) -> str:
    """Why a part of a figure is not run on the dataset; "" when it is."""
    n_rows = dataset.split_counts["train"]
    if part.most_rows is not None and n_rows > part.most_rows:
        return f"kernels are for {part.most_rows:,} training rows at most, these are {n_rows:,}"
    if part.body and dataset.body != part.body:
        return f"the {part.kernel or part.key} kernel is for histograms, and these rows are {dataset.body}"
    return ""


def share_of_zeros(dataset: Dataset) -> float:
    """Of the values of the first rows."""
    return _share_of_zeros(dataset.path, dataset.digest)


@lru_cache(maxsize=1)  # several figures ask, and a block may be large
def _share_of_zeros(path: str, _digest: str) -> float:
    for block in islice(Dataset.open(path).blocks(), 1):
        rows = load_rows(block).part(0, min(LOOKED_AT, block.stop - block.start))
        if isinstance(rows, Csr):
            return 1 - np.count_nonzero(rows.data) / max(1, rows.n_rows * rows.n_features)
        return float(np.mean(rows.decoded().to_array() == 0))
    return 0.0
