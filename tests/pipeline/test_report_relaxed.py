"""What the page says of relaxed hierarchies: who is compared, accuracy against complexity, what a complexity buys."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.report.page import plots_of, write_report
from pipeline.report.relaxed import relaxed_part
from pipeline.report.relaxed_curves import complexity_plots, slug
from pipeline.report.relaxed_growth import growth_plots, growth_table, growths_of, slope
from pipeline.report.relaxed_lines import (
    Spot,
    frontier,
    least_complexity,
    least_lead,
    methods_of,
    most_accuracy,
    reached,
)
from pipeline.report.relaxed_members import FAMILIES, relaxed_members, setting_text
from pipeline.report.relaxed_tables import costs_table, leaves_table, points, ratio, reach_table
from pipeline.report.summary import RunSummary
from pipeline.report.sweeps import Line
from tests.pipeline.figures import table, texts
from tests.pipeline.relaxed_runs import Model, model, plain_ovr, run_of, three_levels
from tests.pipeline.test_report import EVIL, Page, summary


def curve(family: str, key: str, settings: dict[float, tuple[float, float]], **more: object) -> dict[str, Model]:
    """One model for each setting: its accuracy and relative complexity."""
    return {
        f"{family}-{value:g}": model(family, y, x, setting={key: value}, **more) for value, (y, x) in settings.items()
    }


def rivals() -> dict[str, Model]:
    """One-vs-rest, a relaxed hierarchy with three settings, a tree with two, one-vs-one."""
    return {
        "ovr": plain_ovr(),
        **curve("relaxed-hierarchy", "rho", {0.7: (0.79, 0.2), 0.5: (0.81, 0.5), 0.9: (0.75, 0.1)}),
        **curve("spectral-tree", "levels", {2.0: (0.74, 0.4), 3.0: (0.70, 0.05)}),
        "ovo": model("ovo", 0.8, 49.5),
    }


def lines(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# ---- who is compared -----------------------------------------------------------------------------------------------


def test_a_run_without_hierarchies_has_no_part_on_them(tmp_path: Path) -> None:
    for run in (summary(), run_of({"ovr": plain_ovr()}), RunSummary("empty", {}, 10)):
        assert not relaxed_part(run)
        written = write_report(tmp_path / "report.html", run)
        assert "Relaxed hierarchies" not in (tmp_path / "report.html").read_text("utf-8")
        assert not [path for path in written if path.name.startswith("relaxed")]


def test_plain_one_vs_rest_is_what_the_others_are_relative_to() -> None:
    found = relaxed_members(run_of(rivals() | {"other": {"kind": "label-tree", "metrics": {"top1": 0.5}}}))
    assert [one.name for one in found][-1] == "ovo"
    flat = found[0]
    assert (flat.family, flat.kernel, flat.relative, flat.relative_classifiers, flat.swept) == (
        "ovr",
        "linear",
        1.0,
        1.0,
        None,
    )
    assert {one.family for one in found} <= set(FAMILIES)
    assert [one.swept for one in found[1:4]] == [0.7, 0.5, 0.9]
    assert [setting_text(one) for one in found[3:]] == ["rho 0.9", "levels 2", "levels 3", ""]


def test_a_model_file_of_one_vs_rest_with_a_kernel_is_one_vs_rest() -> None:
    (found,) = relaxed_members(run_of({"k": model("svm-ovr", 0.8, 1.0, kernel="rbf")}))
    assert (found.family, found.kernel, found.what) == ("ovr", "rbf", "ovr")


def test_models_that_were_not_tested_are_in_no_figure() -> None:
    broken = model("relaxed-hierarchy", 0.5, 0.5) | {"metrics": {"top1": math.nan}}
    part = relaxed_part(run_of({"ovr": plain_ovr(), "rh": broken}))
    assert part.plots == []
    (costs,) = [one for one in part.tables if one.name == "relaxed-costs"]
    assert costs.table.rows[1] == ("rh", "relaxed-hierarchy", "-", "-", "-", "-", "-")


# ---- lines ---------------------------------------------------------------------------------------------------------


def test_settings_of_a_family_make_a_line_in_their_order() -> None:
    run = run_of(rivals())
    found = methods_of(run, relaxed_members(run))
    assert [(one.label, [spot.name for spot in one.spots]) for one in found] == [
        ("ovr", [""]),
        ("relaxed-hierarchy", ["0.5", "0.7", "0.9"]),
        ("spectral-tree", ["2", "3"]),
        ("ovo", [""]),
    ]
    assert [(spot.x, spot.y) for spot in found[1].spots] == [(0.5, 81.0), (0.2, 79.0), (0.1, 75.0)]


def test_seeds_of_a_setting_are_averaged_where_the_config_says_that_they_are() -> None:
    models = {f"m{i}": model("relaxed-hierarchy", 0.5 + i / 10, 0.2 + i / 5, setting={"rho": 0.7}) for i in range(2)}
    models["n"] = model("relaxed-hierarchy", 0.9, 0.8, setting={"rho": 0.5})
    line = Line("relaxed-hierarchy, balance 5", "rho", {0.5: ("n",), 0.7: ("m0", "m1")})
    run = run_of(models, lines=[line])
    (one,) = methods_of(run, relaxed_members(run))
    assert one.label == "relaxed-hierarchy"  # what else the line says of itself tells it from no other
    assert one.spots[1] == Spot("0.7", pytest.approx(0.3), pytest.approx(55.0), ("m0", "m1"))


def test_draws_of_classes_are_averaged() -> None:
    models = {f"m{i}": model("marszalek", 0.5 + i / 10, 0.2, setting={"alpha": 0.5}, draw=i) for i in range(3)}
    run = run_of(models)
    (one,) = methods_of(run, relaxed_members(run))
    assert (one.label, one.spots[0].y, one.spots[0].models) == ("marszalek", pytest.approx(60.0), ("m0", "m1", "m2"))


def test_lines_of_the_config_are_told_apart_by_what_they_say() -> None:
    models = {
        f"{b}-{rho}": model("relaxed-hierarchy", 0.5, 0.2, setting={"rho": rho}) for b in "ab" for rho in (0.5, 1)
    }
    said = [Line(f"relaxed-hierarchy, {b}", "rho", {0.5: (f"{b}-0.5",), 1.0: (f"{b}-1",)}) for b in "ab"]
    run = run_of(models, lines=said)
    assert [one.label for one in methods_of(run, relaxed_members(run))] == [line.label for line in said]


def test_models_that_differ_in_something_else_are_in_lines_of_their_own() -> None:
    models = {
        f"{way}-{rho}": model("relaxed-hierarchy", 0.5, 0.1, setting={"rho": rho})
        for way in ("up", "down")
        for rho in (0.5, 0.7)
    }
    run = run_of(models)
    found = methods_of(run, relaxed_members(run))
    assert [(one.label, [spot.models for spot in one.spots]) for one in found] == [
        ("relaxed-hierarchy (up-0.5)", [("up-0.5",), ("up-0.7",)]),
        ("relaxed-hierarchy (down-0.5)", [("down-0.5",), ("down-0.7",)]),
    ]
    on_codes = run_of(models | {"c": model("relaxed-hierarchy", 0.5, 0.1, rows="on pq", setting={"rho": 0.5})})
    assert methods_of(on_codes, relaxed_members(on_codes))[-1].label == "relaxed-hierarchy on pq"


# ---- what a complexity buys ----------------------------------------------------------------------------------------


def spots(*pairs: tuple[float, float]) -> list[Spot]:
    return [Spot(str(i), x, y, ()) for i, (x, y) in enumerate(pairs)]


@pytest.mark.parametrize("seed", range(8))
def test_the_frontier_is_what_no_other_beats(seed: int) -> None:
    rng = np.random.default_rng(seed)
    some = spots(*((float(rng.integers(1, 6)), float(rng.integers(0, 6))) for _ in range(8)))
    kept = frontier(some)
    beaten = {
        (one.x, one.y)
        for one in some
        if any(o.x <= one.x and o.y >= one.y and (o.x, o.y) != (one.x, one.y) for o in some)
    }
    assert {(one.x, one.y) for one in kept} == {(one.x, one.y) for one in some} - beaten
    for one in some:
        level = reached(some, one.x)
        assert level is not None
        assert level >= one.y
    for one in kept:
        assert reached(some, one.x) == most_accuracy(some, one.x) == one.y


def test_between_settings_accuracy_is_straight_over_the_logarithm() -> None:
    own = spots((0.1, 70.0), (1.0, 80.0), (2.0, 60.0))
    assert reached(own, 0.05) is None
    assert reached(own, 10**-0.5) == pytest.approx(75.0)
    assert reached(own, 5.0) == 80.0


def test_the_lead_is_the_least_of_the_rivals_settings_that_are_reached() -> None:
    own = spots((0.1, 70.0), (1.0, 80.0))
    assert least_lead(own, spots((0.1, 65.0), (1.0, 78.0), (0.01, 90.0))) == pytest.approx(2.0)
    assert least_lead(own, spots((10**-0.5, 76.0))) == pytest.approx(-1.0)
    assert least_lead(own, spots((0.01, 90.0))) is None


def test_the_least_complexity_of_an_accuracy() -> None:
    some = spots((0.1, 70.0), (0.4, 80.0), (0.3, 80.0))
    assert least_complexity(some, 80.0) == 0.3
    assert least_complexity(some, 80.1) is None
    assert most_accuracy(some, 0.3) == 80.0
    assert most_accuracy(some, 0.05) is None


def test_the_table_says_what_one_vs_rests_accuracy_takes_and_who_leads() -> None:
    run = run_of(rivals())
    found = reach_table(run, relaxed_members(run))
    assert found.table.heading[3:6] == ("as one-vs-rest", "within 1 point", "within 3 points")
    assert found.table.rows == [
        ("relaxed-hierarchy", "linear", "81.0 %", "0.500", "0.200", "0.200", "81.0 %", "79.0 %", "-"),
        ("spectral-tree", "linear", "74.0 %", "-", "-", "-", "74.0 %", "70.0 %", "+6.5"),
        ("ovo", "linear", "80.0 %", "49.5", "49.5", "49.5", "-", "-", "+1.0"),
    ]
    assert float(lines(found.csv)[0]["complexity_within_0"]) == 0.5
    alone = run_of({name: one for name, one in rivals().items() if name != "ovr"})
    assert reach_table(alone, relaxed_members(alone)).table.rows[0][3:6] == ("-", "-", "-")


def test_numbers_are_told_so_that_they_compare() -> None:
    assert [points(value) for value in (0.04, -0.04, 1.25, -12.0)] == ["0.0", "0.0", "+1.2", "-12.0"]
    assert [ratio(value) for value in (0.0123, 1.0, 127.5)] == ["0.012", "1.000", "127.5"]


# ---- Figures 2 to 4 ------------------------------------------------------------------------------------------------


def both_kernels() -> RunSummary:
    more = {f"k-{name}": model(str(one["kind"]), 0.8, 0.9, kernel="chi2") for name, one in rivals().items()}
    return run_of(rivals() | more)


def test_one_figure_per_kernel_and_its_numbers() -> None:
    run = both_kernels()
    found = complexity_plots(run, relaxed_members(run), wrong_metric=False)
    assert [plot.name for plot in found] == ["relaxed-accuracy-linear", "relaxed-accuracy-chi2"]
    rows = table(found[0])
    assert [(row["method"], row["setting"]) for row in rows][:3] == [
        ("ovr", ""),
        ("relaxed-hierarchy", "0.5"),
        ("relaxed-hierarchy", "0.7"),
    ]
    told = [
        (float(row["complexity_relative_to_one_vs_rest"]), float(row["mean_per_class_top1"]), row["models"])
        for row in rows[1:3]
    ]
    assert told == [(0.5, 0.81, "relaxed-hierarchy-0.5"), (0.2, 0.79, "relaxed-hierarchy-0.7")]
    drawn = texts(found[0].svg)
    assert {"0.5", "0.7", "0.9", "ovr", "ovo", "relaxed-hierarchy", "spectral-tree"} <= set(drawn)
    assert found[0].caption.endswith("Numbers beside points: rho, levels.")
    assert "support vector" in found[1].caption
    assert "support vector" not in found[0].caption


def test_the_wrong_measure_is_shown_when_asked_and_of_kernels_alone() -> None:
    run = both_kernels()
    found = complexity_plots(run, relaxed_members(run), wrong_metric=True)
    assert [plot.name for plot in found][1:] == ["relaxed-accuracy-chi2", "relaxed-classifiers-chi2"]
    assert {row["classifiers_relative_to_one_vs_rest"] for row in table(found[2])} == {"1.0", "0.07"}
    asked = [plot.name for plot in relaxed_part(replace(run, wrong_metric=True)).plots]
    assert "relaxed-classifiers-chi2" in asked
    assert "relaxed-classifiers-chi2" not in [plot.name for plot in relaxed_part(run).plots]


def test_samples_of_classes_are_not_compared_with_all_classes() -> None:
    few = model("relaxed-hierarchy", 0.99, 0.3, n_classes=50, setting={"rho": 0.7}, draw=0)
    run = run_of(rivals() | {"few": few})
    (plot,) = complexity_plots(run, relaxed_members(run), wrong_metric=False)
    assert "few" not in plot.csv
    costs = costs_table(relaxed_members(run))
    assert "few" not in [row[0] for row in costs.table.rows]
    assert costs.table.note.endswith("Models of samples of the classes, 1, are in the CSV.")
    assert [row["n_classes"] for row in lines(costs.csv) if row["model"] == "few"] == ["50"]


def test_kernels_and_samples_of_classes_are_not_among_dot_products_per_row() -> None:
    few = model("relaxed-hierarchy", 0.99, 0.3, n_classes=50, draw=0)
    run = run_of(rivals() | {"few": few, "k": model("ovr", 0.9, 1.0, kernel="chi2")})
    (plot,) = [one for one in plots_of(run) if one.name == "accuracy-cost"]
    assert [row["model"] for row in table(plot)] == list(rivals())
    assert plot.caption.endswith("Models with kernels or of samples of the classes are above.")
    (plain,) = [one for one in plots_of(run_of(rivals())) if one.name == "accuracy-cost"]
    assert plain.caption.endswith("better in both.")
    (held,) = [one for one in plots_of(run) if one.name == "flat-error"]
    assert [row["model"] for row in table(held)] == [*rivals(), "k"]
    assert held.caption.endswith("Models of samples of the classes are above.")


def test_one_vs_rest_alone_draws_nothing() -> None:
    run = run_of({"ovr": model("ovr", 0.8, 1.0, kernel="rbf")})
    assert complexity_plots(run, relaxed_members(run), wrong_metric=True) == []


def test_names_of_files_come_from_kernels() -> None:
    assert [slug(text) for text in ("chi2", "../X y", "字")] == ["chi2", "x-y", "other"]


# ---- tables --------------------------------------------------------------------------------------------------------


def test_costs_are_told_beside_one_vs_rests() -> None:
    found = costs_table(relaxed_members(run_of(rivals())))
    assert found.table.heading == (
        "model",
        "method",
        "accuracy",
        "to one-vs-rest",
        "complexity",
        "relative",
        "training",
    )
    method = ("relaxed-hierarchy-0.5", "relaxed-hierarchy, rho 0.5")
    assert found.table.rows[2] == (*method, "81.0 %", "+1.0", "50", "0.500", "-")
    kernels = costs_table(relaxed_members(both_kernels()))
    assert kernels.table.heading[6:8] == ("classifiers", "relative classifiers")
    assert kernels.table.rows[-1][:4] == ("k-ovo", "ovo, chi2", "80.0 %", "0.0")


def test_leaves_are_told_with_their_shares() -> None:
    found = leaves_table(relaxed_members(run_of(rivals())))
    assert [row[0] for row in found.table.rows] == [name for name in rivals() if name[:2] in ("re", "sp")]
    assert found.table.rows[0][2:] == ("10", "4", "4", "2", "30", "33.3 %", "25.0 %")
    assert [float(row["ovr_share_of_leaves"]) for row in lines(found.csv)] == pytest.approx(5 * [1 / 3])


# ---- Figure 5 ------------------------------------------------------------------------------------------------------


def grown_run(power: float) -> RunSummary:
    """A relaxed hierarchy that costs K^power, in the mean of three samples, and one-vs-one on all classes alone."""
    models: dict[str, Model] = {"ovr": plain_ovr(), "ovo": model("ovo", 0.8, 49.5)}
    for n_classes in (25, 50, 100):
        for draw, off in enumerate((0.9, 1.0, 1.1)):
            relative = n_classes ** (power - 1) * off
            models[f"rh-{n_classes}-{draw}"] = model(
                "relaxed-hierarchy", 0.8, relative, n_classes=n_classes, setting={"rho": 0.7}, draw=draw
            )
    return run_of(models)


@pytest.mark.parametrize("power", [0.4, 1.0, 1.7])
def test_the_exponent_of_a_power_is_found(power: float) -> None:
    members = relaxed_members(grown_run(power))
    (found,) = growths_of(members)
    assert found.label == "relaxed-hierarchy, rho 0.7"
    assert [(size.n_classes, size.draws) for size in found.sizes] == [(25, 3), (50, 3), (100, 3)]
    assert found.exponent == pytest.approx(power)
    assert [size.complexity for size in found.sizes] == pytest.approx([n**power for n in (25, 50, 100)])
    first, second, third = growth_plots(members)
    assert (first.name, second.name) == ("relaxed-growth-linear", "relaxed-relative-growth-linear")
    assert third.name == "relaxed-accuracy-growth-linear"
    assert [float(row["mean_per_class_top1"]) for row in table(third)] == pytest.approx(3 * [0.8])
    assert f"K^{power:.2f} relaxed-hierarchy" in texts(first.svg)
    assert "K^1.00 one-vs-rest" in texts(first.svg)
    assert first.caption.endswith("Settings: relaxed-hierarchy, rho 0.7.")
    told = growth_table(members)
    assert told.table.rows[0][:4] == ("relaxed-hierarchy, rho 0.7", "linear", "25", "3")
    assert [row[2] for row in told.table.rows] == ["25", "50", "100"]
    assert [float(row["exponent"]) for row in lines(told.csv)] == pytest.approx(3 * [power])


def test_models_that_differ_in_more_than_the_draw_grow_apart() -> None:
    grown = {
        f"{way}-{n}-{draw}": model("marszalek", 0.5, 0.1 * way, n_classes=n, draw=draw)
        for way in (1, 2)
        for n in (10, 100)
        for draw in (0, 1)
    }
    found = growths_of(relaxed_members(run_of(grown)))
    assert [[(size.n_classes, size.draws) for size in one.sizes] for one in found] == 2 * [[(10, 2), (100, 2)]]
    assert [one.sizes[0].complexity for one in found] == pytest.approx([1.0, 2.0])


def test_the_exponent_is_fitted_to_all_models_not_to_means() -> None:
    costs = {(10, 0): 2.0, (10, 1): 8.0, (10, 2): 8.0, (100, None): 20.0}
    models = {
        f"rh-{n}-{draw}": model(
            "relaxed-hierarchy", 0.8, cost / n, n_classes=n, **({} if draw is None else {"draw": draw})
        )
        for (n, draw), cost in costs.items()
    }
    (found,) = growths_of(relaxed_members(run_of(models)))
    logs = np.log(np.array([[n, cost] for (n, _), cost in costs.items()]))
    assert found.exponent == pytest.approx(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
    assert found.exponent != pytest.approx(math.log10(20 / 6))  # that of the means


def test_without_several_numbers_of_classes_nothing_grows() -> None:
    members = relaxed_members(run_of(rivals()))
    assert growths_of(members) == []
    assert growth_plots(members) == []
    assert growth_table(members).table.rows == []


@pytest.mark.parametrize("seed", range(4))
def test_slopes_are_those_of_least_squares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=7), rng.normal(size=7)
    assert slope(list(zip(x.tolist(), y.tolist(), strict=True))) == pytest.approx(np.polyfit(x, y, 1)[0])


# ---- the page ------------------------------------------------------------------------------------------------------


def evil_run() -> RunSummary:
    models = {EVIL[0]: plain_ovr(), EVIL[4]: model("relaxed-hierarchy", 0.8, 0.2, n_classes=6, records=three_levels())}
    models |= {f"{EVIL[5]}{n}": model("relaxed-hierarchy", 0.7, 0.5, n_classes=n, kernel=EVIL[0]) for n in (3, 6)}
    return run_of(models, 6, class_names=EVIL[:6], class_ids=EVIL[:6], wrong_metric=True)


def test_names_on_the_page_are_text_and_files_are_linked(tmp_path: Path) -> None:
    files = write_report(tmp_path / "report.html", evil_run())
    text = (tmp_path / "report.html").read_text("utf-8")
    page = Page(text)
    assert not {tag for tag, _ in page.tags} & {"script", "x", "img"}
    assert not set(text) & {"\x00", "\x1b", "\u202e"}
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    linked = {attributes["href"] for tag, attributes in page.tags if tag == "a"}
    assert {f"report-figures/{path.name}" for path in files if path.suffix == ".csv"} == linked
    assert {"relaxed-levels.csv", "relaxed-objective.csv", "relaxed-costs.csv"} <= {path.name for path in files}
    assert EVIL[0] in page.text
    again = write_report(tmp_path / "again" / "report.html", evil_run())
    for path in again:
        assert path.read_bytes() == (tmp_path / path.relative_to(tmp_path / "again")).read_bytes()
