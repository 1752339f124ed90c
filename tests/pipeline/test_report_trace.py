"""The figures and tables of trace norm: spectra, top-k, the path as charts and tables, descent, and their page."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.report.certificates import certificate_table
from pipeline.report.compression import compression_table
from pipeline.report.descent import MOST_POINTS, descent_plots
from pipeline.report.grids import Grid, grouped_bars, heat_map
from pipeline.report.page import plots_of, write_report
from pipeline.report.path_tables import MOST_OPEN, path_table, path_tables
from pipeline.report.paths import path_plots
from pipeline.report.plot import MOST_LINES
from pipeline.report.spectrum import spectrum_plot
from pipeline.report.summary import RunSummary
from pipeline.report.sweeps import Compression
from pipeline.report.topk import top_k_plot
from tests.pipeline.figures import summary, table, texts
from tests.pipeline.test_report import EVIL, Page


def path(lambda1: list[float], lambda2: list[float], chosen: int = 0, **more: Any) -> list[dict[str, Any]]:
    """Pairs in the order solved: lambda1 falls within lambda2."""
    pairs = [(one, two) for two in lambda2 for one in lambda1]
    return [
        {
            "lambda1": one,
            "lambda2": two,
            "objective": 1.0,
            "gap": 1e-4,
            "relative_gap": 1e-4,
            "c1": 0.0,
            "c2": 1e-5,
            "rank": 2 + place,
            "atoms": 3 + place,
            "iterations": 7,
            "top1": (40 + place) / 100,
            "log_loss": 1.5,
            "chosen": place == chosen,
            **more,
        }
        for place, (one, two) in enumerate(pairs)
    ]


def iterations(*lengths: int) -> list[dict[str, Any]]:
    return [
        {"pair": pair, "iteration": i, "objective": 3.0 - pair - i / n, "gap": 0.5**i, "rank": i, "atoms": i, "step": 1}
        for pair, n in enumerate(lengths, 1)
        for i in range(n)
    ]


# ---- singular spectra and top-k ----------------------------------------------------------------------------------


def test_spectra_leave_out_what_is_zero_to_single_precision() -> None:
    run = summary({"ovr": {"spectrum": [4.0, 2.0, 1e-7]}, "tr": {"spectrum": [0.0, 3.0]}, "none": {}})
    plot = spectrum_plot(run)
    assert [(row["model"], row["index"], row["singular_value"]) for row in table(plot)] == [
        ("ovr", "1", "4.0"),
        ("ovr", "2", "2.0"),
        ("ovr", "3", "1e-07"),
        ("tr", "1", "3.0"),
        ("tr", "2", "0.0"),
    ]
    assert plot is not None
    assert {"ovr (2 of 3)", "tr (1 of 2)"} <= set(texts(plot.svg))
    assert "none" not in plot.svg.replace("fill: none", "")
    assert "not drawn" in plot.caption


def test_weights_of_zero_have_no_spectrum() -> None:
    assert spectrum_plot(summary({"a": {"spectrum": [0.0, 0.0]}, "b": {"spectrum": []}})) is None


def test_of_many_models_the_most_accurate_are_drawn_and_all_are_in_the_table() -> None:
    names = [f"m{i:02d}" for i in range(MOST_LINES + 3)]
    models = {name: {"top1": i / 100} for i, name in enumerate(names)}
    details = {name: {"spectrum": [2.0, 1.0], "top_k": [0.1, 0.2]} for name in names}
    run = RunSummary("s", models, 10, details=details)
    for plot in (spectrum_plot(run), top_k_plot(run)):
        assert {row["model"] for row in table(plot)} == set(names)
        assert plot is not None
        drawn = [text[:3] for text in texts(plot.svg) if text.startswith("m")]
        assert sorted(drawn) == names[3:]
        assert f"{MOST_LINES} most accurate of {len(names)}" in plot.caption


def test_top_k_has_a_line_for_each_model_that_has_shares() -> None:
    run = summary({"a": {"top_k": [0.5, 0.75]}, "old": {}, "short": {"top_k": [0.25]}})
    assert [(row["model"], row["k"], float(row["accuracy"])) for row in table(top_k_plot(run))] == [
        ("a", "1", 0.5),
        ("a", "2", 0.75),
        ("short", "1", 0.25),
    ]
    assert top_k_plot(summary({"a": {"top_k": [0.5]}, "old": {}})) is None


# ---- the path and the descent ------------------------------------------------------------------------------------


def test_both_lambdas_give_a_heat_map_of_every_measure_with_the_chosen_pair_framed() -> None:
    run = summary({"tr": {"path": path([0.4, 0.2, 0.1], [0.02, 0.01], chosen=4)}})
    plots = {plot.name: plot for plot in path_plots(run)}
    assert list(plots) == ["path-accuracy-1", "path-rank-1"]
    shown = texts(plots["path-accuracy-1"].svg)
    assert {"0.1", "0.2", "0.4", "0.01", "0.02", "lambda1", "lambda2"} <= set(shown)
    cells = [float(text) for text in shown if re.fullmatch(r"4\d\.0", text)]
    assert sorted(cells) == [40, 41, 42, 43, 44, 45]
    bold = re.findall(r"<text[^>]*font-weight: 700[^>]*>([^<]*)<", plots["path-accuracy-1"].svg)
    assert bold == ["44.0"]
    assert "framed pair was chosen" in plots["path-accuracy-1"].caption
    rows = table(plots["path-rank-1"])
    assert [(row["lambda1"], row["lambda2"], row["rank"], row["chosen"]) for row in rows] == [
        ("0.4", "0.02", "2", "0"),
        ("0.2", "0.02", "3", "0"),
        ("0.1", "0.02", "4", "0"),
        ("0.4", "0.01", "5", "0"),
        ("0.2", "0.01", "6", "1"),
        ("0.1", "0.01", "7", "0"),
    ]


def test_without_validation_rows_there_is_rank_alone_and_holes_are_allowed() -> None:
    pairs = path([0.4, 0.2], [0.02, 0.01], top1=None, log_loss=None, chosen=9)[:3]
    (plot,) = path_plots(summary({"tr": {"path": pairs}}))
    assert plot.name == "path-rank-1"
    assert "chosen" not in plot.caption
    assert [row["top1"] for row in table(plot)] == ["", "", ""]


@pytest.mark.parametrize(("key", "lambdas"), [("lambda1", ([0.4, 0.1], [0.0])), ("lambda2", ([0.4], [0.2, 0.1]))])
def test_one_lambda_gives_lines_with_the_chosen_pair_starred(key: str, lambdas: Any) -> None:
    run = summary(
        {"a": {"path": path(*lambdas, chosen=1)}, "b": {"path": path(*lambdas)}, "alone": {"path": path([1], [1])}}
    )
    plots = {plot.name: plot for plot in path_plots(run)}
    assert list(plots) == [f"path-accuracy-{key}", f"path-rank-{key}"]
    assert {row["model"] for row in table(plots[f"path-rank-{key}"])} == {"a", "b"}
    assert "star is the pair that was chosen" in plots[f"path-rank-{key}"].caption


def test_lambdas_that_differ_by_rounding_are_one() -> None:
    pairs = path([0.3, 0.1 + 0.2, 0.1], [0.01])
    plots = list(path_plots(summary({"tr": {"path": pairs}})))
    assert [plot.name for plot in plots] == ["path-accuracy-lambda1", "path-rank-lambda1"]
    assert len(table(plots[0])) == 3
    assert not list(path_plots(summary({"tr": {"path": pairs[:2]}})))


def test_every_pair_is_a_line_of_the_table_with_what_is_known_of_it() -> None:
    pairs = path([0.4, 0.2], [0.02], chosen=1, top1_error=0.0125, log_loss_error=0.25, evaluations=1234, seconds=2.5)
    (found,) = path_tables(summary({"tr": {"path": pairs}, "alone": {"path": pairs[:1]}, "other": {}}))
    assert (found.model, found.chosen, found.is_open) == ("tr", [1], True)
    assert found.title == "2 pairs of lambda1 and lambda2, number 2 chosen"
    shown = dict(zip(found.heading, found.rows[1], strict=True))
    assert shown == {
        "pair": "2",
        "lambda1": "0.2",
        "lambda2": "0.02",
        "objective": "1",
        "relative gap": "0.01 %",
        "rank": "3",
        "accuracy": "41.0 %",
        "+/-": "0.250",
        "log-loss": "1.500",
        "passes": "7",
        "evaluations": "1,234",
        "time": "2.5 s",
    }
    assert "1.2" in found.rows[1]
    assert "evaluations only their projections" in found.note


def test_what_no_pair_knows_has_no_column() -> None:
    bare = path_table("tr", path([0.4, 0.2], [0.0], top1=None, log_loss=None))
    assert not {"accuracy", "log-loss", "+/-", "time"} & {*bare.heading}
    assert "validation rows" not in bare.note
    holes = path_table("tr", [{"lambda1": 0.5, "rank": 2}, {"lambda1": 0.25, "rank": math.nan}])
    assert holes.heading == ("pair", "lambda1", "rank")
    assert holes.rows[1] == ("2", "0.25", "-")
    assert holes.title == "2 pairs of lambda1 and lambda2"


def test_pairs_that_were_not_solved_are_told_from_those_that_were() -> None:
    solved = {"lambda1": 0.5, "rank": 2, "converged": True}
    found = path_table("tr", [solved, {**solved, "converged": False}])
    assert found.heading == ("pair", "lambda1", "met", "rank")
    assert [row[2] for row in found.rows] == ["yes", "no"]
    assert "Met: whether" in found.note
    assert "met" not in path_table("tr", [solved, solved]).heading


@pytest.mark.parametrize("n", [MOST_OPEN, MOST_OPEN + 1])
def test_long_tables_are_folded_on_the_page(tmp_path: Path, n: int) -> None:
    pairs = path([0.5**i for i in range(n)], [0.0], chosen=3)
    write_report(tmp_path / "r.html", summary({EVIL[0]: {"path": pairs}}))
    text = (tmp_path / "r.html").read_text("utf-8")
    page = Page(text)
    part = text[text.index("<h2>Paths</h2>") :]
    assert part.lstrip().startswith("<h2>Paths</h2>\n<details open>" if n <= MOST_OPEN else "<h2>Paths</h2>\n<details>")
    assert part.count("<tr") == n + 1
    assert re.findall(r'<tr class="marked"><td class="text">(\d+) &#9733;', part) == ["4"]
    assert EVIL[0] in page.text


def test_a_lambda_of_zero_is_drawn_on_a_linear_axis() -> None:
    plots = list(path_plots(summary({"tr": {"path": path([0.2, 0.1, 0.0], [0.01])}})))
    assert "0.000" in texts(plots[0].svg)


def test_descent_has_an_objective_and_a_gap_of_every_iteration() -> None:
    details = {
        "tr": {"path": path([0.2, 0.1], [0.0], chosen=1), "history": iterations(3, 2)},
        "one": {"history": iterations(4)},
    }
    plots = {plot.name: plot for plot in descent_plots(summary(details))}
    assert list(plots) == ["objective-iterations", "gap-iterations"]
    rows = table(plots["gap-iterations"])
    assert [(row["model"], row["pair"], row["iteration"], row["gap"]) for row in rows[2:6]] == [
        ("tr", "1", "2", "0.25"),
        ("tr", "2", "0", "1.0"),
        ("tr", "2", "1", "0.5"),
        ("one", "1", "0", "1.0"),
    ]
    assert "in the order solved" in plots["gap-iterations"].caption
    assert "star ends" in plots["gap-iterations"].caption


def test_gaps_of_zero_have_no_place_on_a_logarithmic_axis() -> None:
    history = [
        {"pair": 0, "iteration": 0, "objective": 1.0, "gap": 0.0},
        {"pair": 0, "iteration": 1, "objective": 0.5, "gap": None},
    ]
    plots = list(descent_plots(summary({"tr": {"history": history}})))
    assert [plot.name for plot in plots] == ["objective-iterations"]
    assert len(table(plots[0])) == 2


def test_a_long_descent_is_thinned_in_the_figure_alone() -> None:
    runs = [summary({"tr": {"history": iterations(n)}}) for n in (MOST_POINTS, 20 * MOST_POINTS)]
    few, many = (next(iter(descent_plots(run))) for run in runs)
    assert len(table(many)) == 20 * MOST_POINTS
    assert len(many.svg) < 2 * len(few.svg)


# ---- the page ----------------------------------------------------------------------------------------------------


def everything() -> RunSummary:
    details = {
        EVIL[0]: {
            "top_k": [0.5, 0.6],
            "spectrum": [2.0, 1.0],
            "path": path([2.0, 1.0], [0.2, 0.1]),
            "history": iterations(2),
        },
        EVIL[4]: {"top_k": [0.5, 0.6], "spectrum": [2.0], "path": path([2.0, 1.0], [0.0]), "history": iterations(1, 1)},
        EVIL[5]: {"path": path([1.0], [0.2, 0.1])},
        "old": {"worst_classes": [[0, 1, 2]], "confused_pairs": []},
    }
    groups = [Compression(EVIL[5], "x", EVIL[3], {"PQ": EVIL[0], "semi-PQ": EVIL[4]})] * 2
    models: dict[str, dict[str, float | None]] = {name: {"top1": 0.5, "gap": 1.0} for name in details}
    tables = [certificate_table(models), compression_table(groups, models, {})]
    return RunSummary("s", models, 10, details=details, compressions=groups, tables=tables)


def test_names_are_text_on_every_figure_and_each_has_a_description(tmp_path: Path) -> None:
    pages = [write_report(tmp_path / one / "r.html", everything()) for one in ("a", "b")]
    text = pages[0][-1].read_text("utf-8")
    page = Page(text)
    assert "<script" not in text
    assert not set(text) & {"\x00", "\x1b", "\u202e"}
    plots = plots_of(everything())
    assert len({plot.name for plot in plots}) == len(plots) == text.count("<svg")
    assert {plot.name for plot in plots} >= {"spectrum", "top-k", "compression", "path-rank-1", "path-rank-lambda2"}
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    told = [attributes.get("aria-describedby") for tag, attributes in page.tags if tag == "svg"]
    assert [f"f{i}-told" for i in range(len(plots))] == told
    assert set(told) <= set(ids)
    assert page.text.count("the most accurate model") == 0  # the best one has no classes to show
    assert "Classes recognised worst" in page.text
    for first, second in zip(*pages, strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_a_large_grid_stays_small_and_has_no_text_that_cannot_be_read() -> None:
    names = [f"{i:.6f}" for i in range(60)]
    cells = {(i, j): float(i * j) for i in range(60) for j in range(30)}
    grid = Grid(names, names[:30], "a", "b", cells, {cell: f"{value:.1f}" for cell, value in cells.items()})
    found = texts(heat_map(grid))
    assert len([text for text in found if text in names]) == 12 + 30
    assert "1711.0" not in found
    few = Grid(["1"], ["2"], "a", "b", {(0, 0): 3.0}, {(0, 0): "3"})
    assert {"1", "2", "3"} <= set(texts(heat_map(few)))


def test_bars_of_one_kind_look_alike_in_every_group() -> None:
    svg = grouped_bars(
        {"a": {"full": 3.0, "PQ": 2.0}, "b": {"PQ": 1.0}}, {("a", "full"): "3", ("a", "PQ"): "2", ("b", "PQ"): "1"}, "x"
    )
    fills = re.findall(r'<g id="patch_\d+">\s*<path[^>]*clip-path[^>]*style="fill: (var\(--\w+\))', svg)
    assert fills == ["var(--main)", "var(--other)", "var(--other)"]
    assert {"full 3", "PQ 2", "PQ 1", "a", "b"} <= set(texts(svg))
    assert max(float(text) for text in texts(svg) if re.fullmatch(r"[\d.]+", text)) == 3.0
