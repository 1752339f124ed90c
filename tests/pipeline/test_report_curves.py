"""What changes, as lines: which models of a config belong together, and the figures of sweeps and retrievals."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import pytest

from pipeline.config import RunConfig
from pipeline.report.curves import mean_curve, retrieval_plot, sweep_plots
from pipeline.report.summary import RunSummary
from pipeline.report.sweeps import Line, Repeats, lines_of, repeats_of


def config(**sections: Any) -> RunConfig:
    listed = {key: [dict(one) for one in value] for key, value in sections.items()}
    return RunConfig.model_validate_json(json.dumps({"name": "c", "data": {"path": "d"}, **listed}))


def hashed(kind: str, *bits: int, **more: Any) -> list[dict[str, Any]]:
    return [{"name": f"{kind}-{b}", "kind": kind, "bits": b, **more} for b in bits]


def test_models_that_differ_in_one_number_make_a_line() -> None:
    run = config(train=[*hashed("heshing", 9, 8, 10), *hashed("flat-hash", 8, 9), {"name": "ovr", "kind": "ovr"}])
    assert lines_of(run) == [
        Line("heshing", "bits", {8.0: ("heshing-8",), 9.0: ("heshing-9",), 10.0: ("heshing-10",)}),
        Line("flat-hash", "bits", {8.0: ("flat-hash-8",), 9.0: ("flat-hash-9",)}),
    ]


def test_other_keys_that_change_tell_lines_apart() -> None:
    apart = [{**one, "name": f"{one['name']}-apart"} for one in hashed("heshing", 8, 9, table="per-level")]
    labels = [
        (line.label, list(line.names.values())) for line in lines_of(config(train=[*hashed("heshing", 8, 9), *apart]))
    ]
    assert labels == [
        ("heshing, table shared", [("heshing-8",), ("heshing-9",)]),
        ("heshing, table per-level", [("heshing-8-apart",), ("heshing-9-apart",)]),
    ]


def test_what_is_left_of_a_line_is_a_point_of_it() -> None:
    run = config(train=[*hashed("heshing", 8, 9), {**hashed("heshing", 7, table="per-level")[0], "name": "left"}])
    assert Line("heshing, table per-level", "bits", {7.0: ("left",)}) in lines_of(run)


def test_models_without_the_number_are_left_out_of_its_line_and_make_their_own() -> None:
    given = [{"name": f"t-{x}", "kind": "trace-norm", "lambda1": x} for x in (0.1, 0.2, 0.4)]
    auto = [{"name": f"auto-{x}", "kind": "trace-norm", "gap": x} for x in (0.01, 0.02)]
    over_lambda = Line("trace-norm", "lambda1", {0.1: ("t-0.1",), 0.2: ("t-0.2",), 0.4: ("t-0.4",)})
    over_gap = Line("trace-norm", "gap", {0.01: ("auto-0.01",), 0.02: ("auto-0.02",)})
    assert lines_of(config(train=[*given, auto[0]])) == [over_lambda]
    assert lines_of(config(train=[auto[1], *given, auto[0]])) == [over_lambda, over_gap]
    assert lines_of(config(train=[given[0], *auto[:1]])) == []


def test_which_model_another_is_made_from_is_no_setting() -> None:
    train: list[dict[str, Any]] = []
    for depth in (2, 3):
        train.append({"name": f"b{depth}", "kind": "bengio-tree", "depth": depth})
        train.append({"name": f"l{depth}", "kind": "label-tree", "depth": depth, "ambiguity_of": f"b{depth}"})
    assert lines_of(config(train=train)) == [
        Line("bengio-tree", "depth", {2.0: ("b2",), 3.0: ("b3",)}),
        Line("label-tree", "depth", {2.0: ("l2",), 3.0: ("l3",)}),
    ]


def test_a_retrieval_without_repeats_keeps_its_name() -> None:
    codes = [{"name": f"c{n}", "kind": "wta", "hashes": n} for n in (4, 8)]
    run = config(encode=codes, retrieve=[{"name": f"near {n}".replace(" ", "-"), "rows": f"c{n}"} for n in (4, 8)])
    assert repeats_of(run) == [Repeats("near-4", ("near-4",)), Repeats("near-8", ("near-8",))]


def test_seeds_of_an_encoding_are_repeats_and_its_keys_are_the_learners() -> None:
    codes = [
        {"name": f"c-{n}-{seed}", "kind": "dwta", "hashes": n, "seed": seed, "range": 16}
        for n in (4, 8)
        for seed in (0, 1)
    ]
    svms = [{"name": f"s{one['name'][1:]}", "kind": "ovr", "rows": one["name"]} for one in codes]
    near = [{"name": f"n{one['name'][1:]}", "rows": one["name"]} for one in codes]
    run = config(encode=codes, train=svms, retrieve=near)
    assert lines_of(run) == [Line("ovr on dwta", "hashes", {4.0: ("s-4-0", "s-4-1"), 8.0: ("s-8-0", "s-8-1")})]
    assert repeats_of(run) == [
        Repeats("dwta, 4 hashes", ("n-4-0", "n-4-1")),
        Repeats("dwta, 8 hashes", ("n-8-0", "n-8-1")),
    ]


def summary(**more: Any) -> RunSummary:
    models = {
        "a-1": {"top1": 0.5, "hier_err": 1.0},
        "a-2": {"top1": 0.7, "hier_err": 0.5},
        "b-1": {"top1": 0.75, "hier_err": 0.5},
        "raw": {"top1": 0.9, "hier_err": 0.25},
    }
    return RunSummary("s", models, 4, **more)


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_swept_key_is_drawn_with_means_over_seeds() -> None:
    run = summary(lines=[Line("a", "bits", {8.0: ("a-1", "a-2"), 9.0: ("b-1",)})])
    plots = {plot.name: plot for plot in sweep_plots(run)}
    assert list(plots) == ["flat-error-bits", "hierarchical-error-bits"]
    rows = table(plots["flat-error-bits"].csv)
    assert [(row["models"], row["bits"], float(row["top1"]), row["n"]) for row in rows] == [
        ("a", "8.0", pytest.approx(40.0), "2"),
        ("a", "9.0", pytest.approx(25.0), "1"),
        ("raw", "", pytest.approx(10.0), "1"),
    ]
    assert float(rows[0]["standard_deviation"]) == pytest.approx(100 * math.sqrt(0.02))
    assert "means over seeds" in plots["flat-error-bits"].caption
    assert plots["flat-error-bits"].svg.startswith("<svg")
    assert "raw" in plots["flat-error-bits"].svg


def test_what_theory_expects_is_a_line_beside_what_was_measured() -> None:
    models = {"a": {"collided": 0.25, "expected_collided": 0.2}, "b": {"collided": 0.1, "expected_collided": 0.125}}
    run = RunSummary("s", models, 4, lines=[Line("h", "bits", {8.0: ("a",), 9.0: ("b",)})])
    (plot,) = sweep_plots(run)
    assert [(row["models"], float(row["collided"])) for row in table(plot.csv)] == [
        ("h", pytest.approx(25.0)),
        ("h", pytest.approx(10.0)),
        ("h, expected", pytest.approx(20.0)),
        ("h, expected", pytest.approx(12.5)),
    ]


def curve(*points: tuple[int, int, float, float]) -> dict[str, list[float]]:
    keys = ("threshold", "retrieved", "precision", "recall")
    return {key: [point[i] for point in points] for i, key in enumerate(keys)}


def test_curves_of_seeds_are_averaged_at_each_threshold() -> None:
    first = curve((0, 0, 0.0, 0.0), (1, 4, 0.5, 0.2), (2, 8, 0.25, 1.0))
    second = curve((0, 2, 1.0, 0.1), (1, 4, 0.7, 0.4), (2, 8, 0.25, 1.0), (3, 8, 0.25, 1.0))
    mean = mean_curve([first, second])
    assert mean["threshold"] == [1, 2]  # at 0 one of them retrieves nothing
    assert mean["precision"] == pytest.approx([0.6, 0.25])
    assert mean["recall"] == pytest.approx([0.3, 1.0])
    run = summary(retrievals={"n0": first, "n1": second}, repeats=[Repeats("dwta", ("n0", "n1"))])
    plot = retrieval_plot(run)
    assert plot is not None
    assert [(row["threshold"], float(row["precision"]), row["n"]) for row in table(plot.csv)] == [
        ("1", pytest.approx(0.6), "2"),
        ("2", pytest.approx(0.25), "2"),
    ]


def test_without_retrievals_there_is_no_figure() -> None:
    assert retrieval_plot(summary()) is None
    assert list(sweep_plots(summary())) == []
