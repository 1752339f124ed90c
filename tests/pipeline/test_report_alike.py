"""What the page compares of hierarchies: models of the same rows, kernel and classes, or says that there are none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.report.legend import legend, marked_models
from pipeline.report.page import details_of, plots_of, write_report
from pipeline.report.relaxed_curves import complexity_plots
from pipeline.report.relaxed_findings import nothing_gained
from pipeline.report.relaxed_growth import growth_table
from pipeline.report.relaxed_levels import shown_members
from pipeline.report.relaxed_members import full_size, relaxed_members
from pipeline.report.relaxed_tables import costs_table, reach_table
from pipeline.report.summary import RunSummary
from pipeline.report.table import plain_table
from tests.pipeline.figures import table, texts
from tests.pipeline.relaxed_runs import Model, model, plain_ovr, run_of, three_levels

RHO = {"rho": 0.5}


def mixed() -> dict[str, Model]:
    """One-vs-rest on the dataset's rows, hierarchies there, on codes, with a kernel, and of samples of the classes."""
    return {
        "ovr": plain_ovr(),
        "rh": model("relaxed-hierarchy", 0.79, 0.5, setting=RHO),
        "rh-pq": model("relaxed-hierarchy", 0.7, 0.4, setting=RHO, rows="on pq"),
        "ms-pq": model("marszalek", 0.6, 0.5, setting={"alpha": 0.5}, rows="on pq"),
        "rh-rbf": model("relaxed-hierarchy", 0.9, 0.4, setting=RHO, kernel="rbf"),
        "rh-few": model("relaxed-hierarchy", 0.97, 0.6, n_classes=20, setting=RHO, draw=3),
        "ovr-few": model("ovr", 0.99, 1.0, n_classes=20, draw=3),
        "ovr-other": model("ovr", 0.98, 1.0, n_classes=20, draw=4),
    }


def faster(models: dict[str, Model]) -> dict[str, Model]:
    """With speed-ups."""
    for one in models.values():
        one["metrics"]["speedup"] = 2.0
    return models


def column(rows: list[tuple[str, ...]], place: int) -> dict[str, str]:
    return {row[0]: row[place] for row in rows}


def test_accuracy_is_compared_with_one_vs_rest_of_the_same_rows_and_kernel() -> None:
    found = costs_table(relaxed_members(run_of(mixed())))
    assert column(found.table.rows, 3) == {"ovr": "0.0", "rh": "-1.0", "rh-pq": "-", "ms-pq": "-", "rh-rbf": "-"}
    assert "Without such a one-vs-rest in this run: rh-pq, ms-pq, rh-rbf." in found.table.note
    alone = {name: one for name, one in mixed().items() if name in ("ovr", "rh")}
    assert "Without" not in costs_table(relaxed_members(run_of(alone))).table.note


def test_samples_of_classes_are_compared_with_one_vs_rest_of_the_same_draw() -> None:
    models = {name: one for name, one in mixed().items() if name.endswith(("-few", "-other"))}
    found = costs_table(relaxed_members(run_of(models)))
    assert column(found.table.rows, 3) == {"rh-few": "-2.0", "ovr-few": "0.0", "ovr-other": "0.0"}
    other = costs_table(relaxed_members(run_of({k: one for k, one in models.items() if k != "ovr-few"})))
    assert column(other.table.rows, 3)["rh-few"] == "-"


def test_what_a_complexity_buys_is_told_of_models_alike() -> None:
    run = run_of(mixed())
    found = reach_table(run, relaxed_members(run))
    within = {(row[0], row[1]): row[4] for row in found.table.rows}  # a point of one-vs-rest's accuracy
    assert within == {
        ("relaxed-hierarchy", "linear"): "0.500",
        ("relaxed-hierarchy on pq", "linear"): "-",
        ("marszalek on pq", "linear"): "-",
        ("relaxed-hierarchy", "rbf"): "-",
    }
    leads = {(row[0], row[1]): row[-1] for row in found.table.rows}
    assert leads["marszalek on pq", "linear"] == "+10.0"  # over the hierarchy on these codes, not over the first
    assert found.table.note.endswith(
        "Without such a one-vs-rest in this run: relaxed-hierarchy on pq, linear, marszalek on pq, linear, "
        "relaxed-hierarchy, rbf."
    )


def test_the_line_of_one_vs_rest_is_drawn_where_all_are_of_its_rows() -> None:
    run = run_of({name: mixed()[name] for name in ("ovr", "rh", "rh-pq")})
    (several,) = complexity_plots(run, relaxed_members(run), wrong_metric=False)
    assert "dotted line" not in several.caption
    same = run_of({name: mixed()[name] for name in ("ovr", "rh")})
    (one,) = complexity_plots(same, relaxed_members(same), wrong_metric=False)
    assert "The dotted line is the accuracy of the best one-vs-rest." in one.caption


def test_kernels_without_a_one_vs_rest_say_what_they_are_relative_to() -> None:
    text = "are relative to one that has every training row for a support vector"
    rows = {"rh": model("relaxed-hierarchy", 0.9, 0.4, kernel="rbf"), "ovr": model("ovr", 0.9, 1.0, kernel="rbf")}
    run = run_of(rows)
    (plot,) = complexity_plots(run, relaxed_members(run), wrong_metric=False)
    assert text not in plot.caption + costs_table(relaxed_members(run)).table.note + legend(run)
    rows["ovr"]["metrics"]["test_ops_per_row"] *= 0.9  # of other options: the hierarchy's base is another
    for models in (faster(rows), {"rh": rows["rh"]}):
        run = run_of(models)
        (plot,) = complexity_plots(run, relaxed_members(run), wrong_metric=False)
        assert plot.caption.endswith(f"{text}.")
        assert text in costs_table(relaxed_members(run)).table.note
        assert text in legend(run)


def test_classes_without_training_rows_leave_hierarchies_beside_one_vs_rest() -> None:
    run = run_of({"ovr": plain_ovr(), "rh": model("relaxed-hierarchy", 0.8, 0.5, n_classes=97)})
    members = relaxed_members(run)
    assert [one.name for one in full_size(members)] == ["ovr", "rh"]
    assert column(costs_table(members).table.rows, 3) == {"ovr": "0.0", "rh": "0.0"}


def test_the_first_levels_are_shown_of_hierarchies_of_all_classes() -> None:
    few = {
        f"few-{i}": model("relaxed-hierarchy", 0.9, 0.5, n_classes=6, draw=i, records=three_levels()) for i in (0, 1)
    }
    whole = {"all": model("relaxed-hierarchy", 0.8, 0.5, records=three_levels())}
    assert [one.name for one in shown_members(relaxed_members(run_of(few | whole)))] == ["all"]
    assert [one.name for one in shown_members(relaxed_members(run_of(few)))] == ["few-0", "few-1"]


def test_one_vs_rest_grows_beside_the_others_in_the_table() -> None:
    kinds = ("ovr", "marszalek")
    models = {f"{kind}-{n}": model(kind, 0.8, 0.5, n_classes=n, draw=0) for kind in kinds for n in (10, 20)}
    rows = growth_table(relaxed_members(run_of(models))).table.rows
    assert [(row[0], row[2], row[6]) for row in rows] == [
        (name, n, "80.0 %") for kind in kinds for name, n in ((kind, "10"), ("", "20"))
    ]


# ---- words below the table -----------------------------------------------------------------------------------------


def test_the_mark_is_of_dot_products_where_all_are_linear() -> None:
    run = run_of(faster({name: mixed()[name] for name in ("ovr", "rh")}))
    mark = "no other model is both more accurate and evaluates fewer dot products"
    assert legend(run) == f"{mark}; one-vs-rest evaluates 100 classes"
    assert plain_table(run).splitlines()[-1] == f"* {legend(run)}"


def test_the_mark_is_of_kernel_values_where_all_are_kernels() -> None:
    models = {"ovr": model("ovr", 0.8, 1.0, kernel="rbf"), "rh": model("relaxed-hierarchy", 0.8, 0.5, kernel="rbf")}
    mark = "no other model is both more accurate and computes fewer kernel values"
    assert legend(run_of(faster(models))) == f"{mark}; speed-ups compare kernel values"


def test_models_of_other_kernels_and_classes_do_not_beat_one_another() -> None:
    run = run_of(faster(mixed()))
    assert marked_models(run) == {"ovr", "rh", "rh-pq", "rh-rbf", "rh-few", "ovr-few", "ovr-other"}
    words = legend(run)
    assert words.startswith("no other model of the same classes is both more accurate and evaluates fewer dot products")
    assert "or computes fewer kernel values, each kernel by itself;" in words
    assert "as many dot products as a model has learnt classes" in words
    assert "speed-ups of kernels compare kernel values" in words


def test_samples_of_classes_are_in_no_figure_of_accuracy_and_never_the_best() -> None:
    run = run_of(mixed() | {"k": model("ovr", 0.95, 1.0, kernel="rbf")})
    for plot in plots_of(run):
        if "model" in plot.csv.splitlines()[0] and plot.name != "timings":
            assert not {row["model"] for row in table(plot)} & {"rh-few", "ovr-few", "ovr-other"}, plot.name
    (cost,) = [plot for plot in plots_of(run) if plot.name == "accuracy-cost"]
    assert "one-vs-rest accuracy" in texts(cost.svg)  # of one, 80 %, not of a kernel or of twenty classes
    details = {name: {"worst_classes": [(0, 1, 2)]} | {"hierarchy": run.details.get(name, {}).get("hierarchy", {})}
               for name in run.models}  # fmt: skip
    told = details_of(RunSummary("r", run.models, 100, run.kinds, details=details))
    assert told[0]["model"] == "k"


# ---- hierarchies that are not worth it -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accuracy", "relative", "said"), [(0.79, 0.95, True), (0.79, 0.89, False), (0.8, 1.2, False), (0.81, 1.0, False)]
)
def test_what_is_as_dear_as_one_vs_rest_and_less_accurate_is_said(accuracy: float, relative: float, said: bool) -> None:
    run = run_of({"ovr": plain_ovr(), "rh": model("relaxed-hierarchy", accuracy, relative, setting=RHO)})
    text = (
        "NothingGained: rh: costs 0.95 of one-vs-rest and is 1.0 points less accurate: a larger rho makes it cheaper; "
        "with no better value take one-vs-rest"
    )
    assert nothing_gained(run) == ([text] if said else [])


def test_a_curve_is_one_finding_with_the_key_of_its_family() -> None:
    curve = {f"s-{i}": model("spectral-tree", 0.79 - i / 100, 1 + i / 10, setting={"levels": i}) for i in range(1, 8)}
    (text,) = nothing_gained(run_of({"ovr": plain_ovr()} | curve))
    assert re.match(r"NothingGained: s-1, s-2, s-3, s-4, s-5 and 2 more: cost 1\.10 to 1\.70 of one-vs-rest", text)
    assert "are 2.0 to 8.0 points less accurate: more levels make them cheaper" in text


def test_nothing_is_said_without_a_one_vs_rest_alike_or_of_what_came_to_one_vs_rest() -> None:
    dear = model("relaxed-hierarchy", 0.5, 1.0, setting=RHO, rows="on pq")
    whole = model("relaxed-hierarchy", 0.5, 1.0, setting=RHO, found={"nodes": 1})  # said in training already
    assert nothing_gained(run_of({"ovr": plain_ovr(), "rh": dear, "one": whole})) == []


def test_a_spectral_tree_comes_with_when_it_is_weak(tmp_path: Path) -> None:
    models = {"ovr": plain_ovr(), "s": model("spectral-tree", 0.7, 0.5, setting={"levels": 2.0})}
    write_report(tmp_path / "a.html", run_of(models))
    write_report(tmp_path / "b.html", run_of({"ovr": plain_ovr(), "m": model("marszalek", 0.7, 0.5)}))
    assert "where it confuses hardly" in (tmp_path / "a.html").read_text("utf-8")
    assert "where it confuses hardly" not in (tmp_path / "b.html").read_text("utf-8")
