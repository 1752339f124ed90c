"""Chen & Shrivastava, densified winner-take-all codes: Figures 4 to 6 (1 to 3 need no data, see `worked`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

from pipeline.report.figures import Scale, Series, line_plot
from pipeline.report.metrics import known
from pipeline.report.numbers import count, percent
from pipeline.report.plot import Plot
from pipeline.report.sweeps import repeats_of
from pipeline.reproduce.figure import (
    OURS,
    UNKNOWN,
    Cell,
    Claim,
    PaperFigure,
    Part,
    Shown,
    Table,
    Verdict,
    number,
    printed,
    share,
    unknown,
)
from pipeline.reproduce.found import Found, RunFound, mean
from pipeline.reproduce.judging import compared, every
from pipeline.reproduce.values import values_of

PAPER = "Chen & Shrivastava, Revisiting Winner Take All (WTA) Hashing for Sparse Datasets"
VALUES = values_of("chen-shrivastava")
DATA = (
    "VOC2010, LabelMe-12-50k and MSRc: bags of 1,000, 5,000 and 10,000 visual words of dense SIFT (12 to 20 classes)."
)
ONE_SIZE = unknown("this is one data set of one dictionary")
ONE_OF_NINE = (
    "The paper has nine panels or curves, of three data sets with three sizes of the dictionary; here is the one of "
    "this dataset. The others take a dataset each."
)
WAYS = {"wta": "WTA", "dwta": "densified WTA"}


# ---- Figure 4 ------------------------------------------------------------------------------------------------------


def emptiness(found: Found) -> Mapping[str, float | None]:
    encodings = found.runs["main"].metrics.get("encodings", {})
    return {key: known(encodings.get("wta", {}), key) for key in ("sparsity", "empty_codes", "expected_empty")}


def show_figure_4(found: Found) -> Shown:
    own, values = emptiness(found), VALUES["figure-4"]
    zeros = own["sparsity"]
    rows: list[list[Cell]] = [
        [
            f"this dataset, {found.data.n_features:,} features",
            share(zeros, 2),
            share(own["empty_codes"], 2),
            share(own["expected_empty"], 2),
            share(None if zeros is None else zeros**4, 2),
        ]
    ]
    for name in ("VOC2010", "LabelMe-12-50k", "MSRc"):
        for words, cell in zip(values["words"], values[name], strict=True):
            sparsity, empty = (printed(text) for text in cell.split())
            fourth = ((sparsity.value or 0) / 100) ** 4
            rows.append(
                [f"{name}, {int(words):,} words", f"{sparsity.text} %", f"{empty.text} %", "-", share(fourth, 2)]
            )
    heading = ["data", "zeros in rows", "empty codes", "expected", "zeros^4"]
    note = (
        "Expected: the chance that a sample of a row is empty, mean over the rows. zeros^4 is that of rows with "
        "equally many zeros; the printed ratios lie within 0.025 of it, so the paper has K = 4 here."
    )
    return Shown([Table("Zeros and empty codes", heading, rows, note)])


def judge_chance(found: Found) -> Verdict:
    own = emptiness(found)
    empty, expected = own["empty_codes"], own["expected_empty"]
    told = f"{percent(empty or 0, 2)} of the codes are empty, {percent(expected or 0, 2)} by chance"
    return compared(abs((empty or 0) - (expected or 0)) <= 0.025, told, empty, expected)


def judge_most_empty(found: Found) -> Verdict:
    own = emptiness(found)
    zeros, empty = own["sparsity"], own["empty_codes"]
    told = f"{percent(zeros or 0, 2)} zeros, {percent(empty or 0, 2)} of the codes are empty"
    if zeros is not None and zeros < 0.85:
        return Verdict(UNKNOWN, f"{told}: these rows are not very sparse")
    return compared((empty or 0) > 0.5, told, zeros, empty)


FIGURE_4 = (
    Claim(
        "most of the hash values for very sparse datasets do not have enough discriminative information",
        "section 1",
        "of rows with 85 % zeros or more, over half of the codes are empty",
        judge_most_empty,
    ),
    Claim("samples are empty as often as chance has it", OURS, "within 2.5 points", judge_chance),
    Claim("by increasing dictionary size, sparsity goes up", "caption of Figure 4", "", ONE_SIZE),
)


# ---- Figure 5 ------------------------------------------------------------------------------------------------------

RAW = "raw"


def accuracies(run: RunFound) -> dict[str, dict[int, float]]:
    """Accuracy by number of hashes: of WTA as published, and densified."""
    hashes = {one.name: int(getattr(one, "hashes", 0)) for one in run.config.encode}
    kinds = {one.name: getattr(one, "kind", "") for one in run.config.encode}
    first = {one.name for one in run.config.encode if getattr(one, "empty", "") == "first"}  # as published
    found: dict[str, dict[int, float]] = {"wta": {}, "dwta": {}}
    for learner in run.config.train:
        kind, top1 = kinds.get(learner.rows, ""), run.value(learner.name, "top1")
        if top1 is None or kind not in found or (kind == "wta" and learner.rows not in first):
            continue
        found[kind][hashes[learner.rows]] = top1
    return found


def show_figure_5(found: Found) -> Shown:
    run = found.runs["main"]
    curves, raw = accuracies(run), run.value(RAW, "top1")
    numbers = sorted({n for curve in curves.values() for n in curve})
    rows: list[list[Cell]] = [[f"{n:,}", *(share(curves[way].get(n)) for way in WAYS), share(raw)] for n in numbers]
    lines = [
        Series(WAYS[way], list(curve), [100 * y for y in curve.values()]) for way, curve in curves.items() if curve
    ]
    levels = {} if raw is None else {"rows themselves": 100 * raw}
    svg = line_plot(lines, levels, Scale("number of hashes", count), "accuracy, %")
    plots = [Plot("hashes", "Accuracy against hashes here", "A linear SVM on codes.", svg, "")] if lines else []
    note = "The paper plots 500 to 100,000 hashes; its values are not printed."
    return Shown([Table("Accuracy", ["hashes", *WAYS.values(), "rows themselves"], rows, note)], plots)


def judge_densified(found: Found) -> Verdict:
    curves = accuracies(found.runs["main"])
    both = sorted(curves["wta"].keys() & curves["dwta"].keys())
    parts = [
        (
            curves["dwta"][n] > curves["wta"][n],
            f"{n:,}: {percent(curves['dwta'][n])} against {percent(curves['wta'][n])}",
        )
        for n in both
    ]
    return every(parts, 2)


def judge_more_hashes(found: Found) -> Verdict:
    curve = accuracies(found.runs["main"])["dwta"]
    if len(curve) < 2:
        return compared(False, "", None)
    few, many = min(curve), max(curve)
    told = f"{percent(curve[few])} with {few:,} hashes, {percent(curve[many])} with {many:,}"
    return compared(curve[many] > curve[few], told)


def judge_beats_rows(way: str) -> Claim:
    def judge(found: Found) -> Verdict:
        run = found.runs["main"]
        best, raw = max(accuracies(run)[way].values(), default=None), run.value(RAW, "top1")
        return compared((best or 0) > (raw or 0), f"{percent(best or 0)} against {percent(raw or 0)}", best, raw)

    return Claim(f"{WAYS[way]} beats the rows themselves", "section 5.2", "with the best number of hashes", judge)


FIGURE_5 = (
    Claim(
        "Densified WTA consistently outperforms vanilla WTA, irrespective of the number of hashes",
        "section 5.2",
        "a larger accuracy at each number",
        judge_densified,
    ),
    Claim(
        "precision increases when the number of codes increases", "section 5.2", "least against most", judge_more_hashes
    ),
    judge_beats_rows("wta"),
    judge_beats_rows("dwta"),
    Claim("the performance gap increases with the number of words", "section 5.2", "", ONE_SIZE),
)


# ---- Figure 6 ------------------------------------------------------------------------------------------------------


def ways_of(run: RunFound) -> dict[str, tuple[str, int]]:
    """Retrievals of the paper's two kinds of codes, by name: which kind, and hashes."""
    encodings = {one.name: one for one in run.config.encode}
    found = dict[str, tuple[str, int]]()
    for one in run.config.retrieve:
        codes = encodings[one.rows]
        kind = getattr(codes, "kind", "")
        if kind == "dwta" or (kind == "wta" and getattr(codes, "empty", "") == "first"):
            found[one.name] = kind, int(getattr(codes, "hashes", 0))
    return found


def precisions(run: RunFound) -> dict[str, dict[int, list[float]]]:
    """Mean average precision of each run of ranking, by number of hashes."""
    found: dict[str, dict[int, list[float]]] = {"wta": defaultdict(list), "dwta": defaultdict(list)}
    for name, (way, hashes) in ways_of(run).items():
        value = known(run.metrics.get("retrievals", {}).get(name, {}), "mean_average_precision")
        if value is not None:
            found[way][hashes].append(value)
    return found


def recall_lines(run: RunFound) -> list[Series]:
    """Precision against recall, a line for each kind of codes and number of hashes, from the run's own figure."""
    points = run.csv("precision-recall")
    ways, lines = ways_of(run), list[tuple[int, str, Series]]()
    for group in repeats_of(run.config):
        own = [point for point in points if point["codes"] == group.label]
        if group.names[0] not in ways or not own:
            continue
        way, hashes = ways[group.names[0]]
        recall, precision = ([float(point[key]) for point in own] for key in ("recall", "precision"))
        line = Series(f"{WAYS[way]}, {hashes:,}", recall, [100 * value for value in precision])
        lines.append((hashes, way, line))
    return [line for _, _, line in sorted(lines, key=lambda one: one[:2])]


def show_figure_6(found: Found) -> Shown:
    ranked = precisions(found.runs["main"])
    numbers = sorted({n for curve in ranked.values() for n in curve})
    rows: list[list[Cell]] = []
    for n in numbers:
        means = [mean(ranked[way][n]) if ranked[way][n] else None for way in WAYS]
        rows.append([f"{n:,}", *(number(value, 4) for value in means), str(len(ranked["dwta"][n]))])
    note = (
        "Mean average precision of ranking the training rows by Hamming distance, mean over seeds. The paper plots "
        "precision against recall; its values are not printed."
    )
    lines = recall_lines(found.runs["main"])
    caption = "Means over seeds; a point for each distance up to which rows are retrieved. Upper right is better."
    svg = line_plot(lines, {}, "recall", "precision, %")
    plots = [Plot("recall", "Precision against recall here, by number of hashes", caption, svg, "")] if lines else []
    return Shown([Table("Retrieval", ["hashes", *WAYS.values(), "seeds"], rows, note)], plots)


def judge_ranking(found: Found) -> Verdict:
    ranked = precisions(found.runs["main"])
    pairs = {
        n: (mean(ranked["dwta"][n]), mean(ranked["wta"][n])) for n in sorted(ranked["dwta"]) if ranked["wta"].get(n)
    }
    return every([(own > other, f"{n}: {own:.4f} against {other:.4f}") for n, (own, other) in pairs.items()], 2)


def judge_more_codes(found: Found) -> Verdict:
    ranked = precisions(found.runs["main"])["dwta"]
    means = [(n, mean(values)) for n, values in sorted(ranked.items())]
    if len(means) < 2:
        return compared(False, "", None)
    rising = all(a[1] < b[1] for a, b in pairwise(means))
    return compared(rising, ", ".join(f"{n}: {value:.4f}" for n, value in means))


FIGURE_6 = (
    Claim(
        "Densified WTA consistently outperforms the corresponding WTA (64, 256, 512 hashes)",
        "caption of Figure 6",
        "a larger mean average precision at each number",
        judge_ranking,
    ),
    Claim("more hashes rank better", OURS, "mean average precision rises from number to number", judge_more_codes),
    Claim("so it is with 1,000, 5,000 and 10,000 words", "caption of Figure 6", "", ONE_SIZE),
)

SPARSE = ("sparse",)
FIGURES = (
    PaperFigure(
        "chen-figure-4",
        PAPER,
        "Figure 4, section 5.1",
        "zeros in the rows and empty winner-take-all codes",
        SPARSE,
        "seconds",
        show_figure_4,
        FIGURE_4,
        (Part("main", "sparsity"),),
        DATA,
        (ONE_OF_NINE, "1,000 hashes; the paper does not say how many it counted in."),
    ),
    PaperFigure(
        "chen-figure-5",
        PAPER,
        "Figure 5, section 5.2",
        "accuracy of a linear SVM on codes against the number of hashes",
        SPARSE,
        "minutes to an hour",
        show_figure_5,
        FIGURE_5,
        (Part("main", "codes"),),
        DATA,
        (
            ONE_OF_NINE,
            "125 to 2,000 hashes; the paper has 500 to 100,000.",
            "Densified codes are taken modulo 16 K; the paper does not print its R.",
            "One class a row and accuracy; VOC2010 has several, and the text speaks of mean average precision.",
            "The SVM's penalty is chosen on validation rows, once for a model; the paper cross-validates each.",
        ),
    ),
    PaperFigure(
        "chen-figure-6",
        PAPER,
        "Figure 6, section 5.3",
        "ranking training rows by Hamming distance of codes",
        SPARSE,
        "minutes to an hour",
        show_figure_6,
        FIGURE_6,
        (Part("main", "retrieval"),),
        DATA,
        (
            ONE_OF_NINE,
            "All rows at one distance are retrieved together, so that ties need no order; the paper does not say.",
            "R, by which the paper reduces codes, is not printed: none is used.",
        ),
    ),
)
