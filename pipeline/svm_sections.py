"""Learners made of support vector machines: relaxed hierarchies (Gao & Koller) and their rivals."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeline.section import Learner, Section

DEEPEST = 64  # splits of a tree: more than any number of classes needs
KernelName = Literal["linear", "rbf", "histogram-intersection", "chi2"]
OF_HISTOGRAMS = ("histogram-intersection", "chi2")  # take no value below 0


class SvmKeys(Section):
    """Keys of support vector machines, whatever is made of them."""

    C: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="weight of the hinges; default: chosen by cross-validation"
    )
    width: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="of rbf and chi2, exp(-distance / width); default: mean distance of training rows",
    )
    classes: int | None = Field(
        None, ge=2, description="learn and test so many classes only, drawn at random; default: all"
    )
    draw: int = Field(0, ge=0, description="which draw of them")


class SvmLearner(Learner, SvmKeys):
    """Keys of every learner made of support vector machines (Gao & Koller and the rivals there)."""

    kernel: KernelName = Field("linear", description="of the support vector machines")


class OneVsOne(SvmLearner):
    """A support vector machine for every pair of classes; the class with most votes wins (Max Wins)."""

    kind: Literal["ovo"]


class DagSvm(SvmLearner):
    """The machines of `ovo`, asked one after another: each drops a class (Platt et al.)."""

    kind: Literal["dag-svm"]


class SplitLearner(SvmLearner):
    """Keys of the hierarchies of two-sided classifiers."""

    rows_per_node: int | None = Field(
        None,
        ge=2,
        description="training rows of a node at most, of its classes alike; default: 100,000, of kernels 10,000",
    )
    most_nodes: int | None = Field(
        None,
        ge=1,
        description="nodes at most, or it ends with HierarchyTooLarge; default: 100 for each class, 2,000 at least",
    )


class RelaxedHierarchy(SplitLearner):
    """Hierarchy whose nodes ignore confusing classes, colored and learnt together (Gao & Koller)."""

    kind: Literal["relaxed-hierarchy"]
    rho: float = Field(
        0.5,
        gt=0,
        allow_inf_nan=False,
        description="classes of a larger mean hinge are ignored: more is faster, less is more often right; or a list",
    )
    balance: int = Field(10, ge=0, description="how far the numbers of positive and negative classes may differ (B)")
    initialisation: Literal["bottom-up", "top-down", "both"] = Field(
        "bottom-up", description="pairs of classes that one-vs-rest confuses least; normalised cut of the rows"
    )
    samples: int = Field(
        30, ge=1, description="pairs of classes tried, bottom-up; at most as many as a node has classes"
    )
    finalists: int = Field(3, ge=1, description="colorings that are solved on all rows of a large split, the best ones")
    search_rows: int | None = Field(
        None, ge=2, description="rows on which all are tried first; default: 4,000, of kernels 2,000"
    )
    split_rows: int | None = Field(
        None, ge=2, description="rows that a split learns from at most; default: rows_per_node, of kernels 2,000"
    )
    half_steps: int = Field(24, ge=2, description="classifier and coloring in turn, at most")
    leaves: Literal["one-vs-all", "continued"] = Field(
        "one-vs-all", description="classes that are hard to part; continued: part them nevertheless"
    )
    least_active: float = Field(
        0.4, ge=0, le=1, description="share of its classes that a node must part, or it is a one-vs-rest leaf"
    )
    first_rho: float = Field(
        0.6, ge=0, allow_inf_nan=False, description="with which colorings grow first, if it is the larger; 0: the paper"
    )
    most_lost: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="share of held-out rows that a split may lose for each classifier that it saves, or its node is a "
        "one-vs-rest leaf; default: 0.003, or 0.6 / classes if that is more, rising with rho above 0.4; of kernels "
        "none; 1: the paper",
    )
    doubt: float = Field(
        0.5,
        ge=0,
        allow_inf_nan=False,
        description="rows whose f at a split is nearer 0 go both ways, and one-vs-rest compares what they come to; 0: "
        "the paper; or a list",
    )
    leaf_classes: int = Field(4, ge=1, description="nodes of 3 to so many classes are one-vs-rest leaves; 1: the paper")


class RivalHierarchy(SplitLearner):
    """Keys of the hierarchies that relaxed ones are compared with."""

    doubt: float = Field(
        0.0, ge=0, allow_inf_nan=False, description="as of `relaxed-hierarchy`; 0: their papers; or a list"
    )


class SpectralTree(RivalHierarchy):
    """Binary tree by spectral clustering of one-vs-rest's confusion (Griffin & Perona), one-vs-rest at its leaves."""

    kind: Literal["spectral-tree"]
    levels: int = Field(3, ge=1, le=DEEPEST, description="splits from the root to the one-vs-rest leaves; or a list")


class MarszalekTree(RivalHierarchy):
    """Relaxed tree by normalised cuts of rows, classes cut through on both sides (Marszalek & Schmid)."""

    kind: Literal["marszalek"]
    alpha: float = Field(
        0.5, gt=0, le=1, description="a class with less than alpha / 2 of its rows on a side is not there; or a list"
    )
    cut_rows: int = Field(1000, ge=2, description="rows whose kernel matrix is cut")
    least_active: float = Field(0.4, ge=0, le=1, description="as of `relaxed-hierarchy`")
