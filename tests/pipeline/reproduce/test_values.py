"""Numbers taken from the papers agree with each other as the papers have them; verdicts follow the numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import RunConfig
from pipeline.reproduce import zhao_xing
from pipeline.reproduce.catalogue import catalogue
from pipeline.reproduce.chen_shrivastava import recall_lines
from pipeline.reproduce.deng import in_three_digits, judge_constant
from pipeline.reproduce.figure import FAILS, HOLDS, UNKNOWN, State, share
from pipeline.reproduce.found import Found, RunFound, slope
from pipeline.reproduce.gao_koller import FIGURE_2, FIGURE_3, told_of
from pipeline.reproduce.gao_koller_nodes import SHOWN, show_nodes
from pipeline.reproduce.harchaoui import judge_half, regained
from pipeline.reproduce.page import style_of_report
from pipeline.reproduce.values import values_of
from pipeline.reproduce.worked import value_of


def found_of(
    models: dict[str, dict[str, float]],
    train: list[dict[str, Any]] | None = None,
    keys: tuple[str, ...] = (),
    **more: Any,
) -> Found:
    """One run with these numbers under the keys that a figure asks for."""
    sections = train or [{"name": name, "kind": "ovr"} for name in models]
    config = RunConfig.model_validate({"name": "t", "data": {"path": "d.zarr"}, "train": tuple(sections)})
    run = RunFound(config, {"models": models, "run": {"n_classes": 9}, **more}, Path())
    return Found(None, dict.fromkeys(("main", "linear", *keys), run))


# ---- what is printed -----------------------------------------------------------------------------------------------


def test_table_2_of_zhao_and_xing_has_eight_data_sets_and_errors_that_fit() -> None:
    values = values_of("zhao-xing")["table-2"]
    assert len(values["heading"]) == 8
    for name in zhao_xing.MODELS:
        flat, hie = (list(zhao_xing.columns(values[error][name])) for error in ("flat", "hie"))
        assert len(flat) == len(hie) == 15
        assert all(0.3 < error < 0.9 for error in flat)
        assert all(1.5 < height / error < 7 for error, height in zip(flat, hie, strict=True))  # SPECS 1.8


def test_the_slack_of_comparable_is_the_largest_lead_over_heshing_that_is_printed() -> None:
    flat = values_of("zhao-xing")["table-2"]["flat"]
    rows = [list(zhao_xing.columns(flat[name])) for name in zhao_xing.MODELS if name != "HESHING"]
    own = list(zhao_xing.columns(flat["HESHING"]))
    leads = [value - min(others) for value, *others in zip(own, *rows, strict=True)]
    assert max(leads) == pytest.approx(zhao_xing.LEVEL)
    assert zhao_xing.in_print("HESHING", "FlatHash", "flat") == (13, 15)


def test_losses_of_deng_by_depth_multiply_to_the_printed_accuracy() -> None:
    values = values_of("deng")
    for shape, both in values["table-2"]["loss"].items():
        for kind, slack in (("ours", 0.1), ("bengio", 0.25)):  # Bengio's leaves are at unequal depths (SPECS 5.5)
            kept = math.prod(1 - float(text) / 100 for text in both[kind])
            assert 100 * kept == pytest.approx(float(values["table-1"][shape][kind][0]), abs=slack)
            assert len(values["table-2"]["ambiguity"][shape][kind]) == len(both[kind])


def test_printed_empty_codes_are_what_chance_gives_of_four_values() -> None:
    values = values_of("chen-shrivastava")["figure-4"]
    for name in ("VOC2010", "LabelMe-12-50k", "MSRc"):
        for cell in values[name]:
            zeros, empty = (float(text) / 100 for text in cell.split())
            assert empty == pytest.approx(zeros**4, abs=0.025)


def test_one_vs_one_costs_what_its_number_of_pairs_says() -> None:
    values = values_of("gao-koller")
    for part in (values["figure-2"]["linear"], values["figure-3"]["linear"]):
        assert float(part["ovo"]) == (int(part["classes"]) - 1) / 2


def test_borrowed_codes_are_read_with_their_steps() -> None:
    assert [value_of(text) for text in ("2", "2+C", "3+2C")] == [2, 6, 11]


def test_every_claim_names_its_place_and_every_figure_its_data() -> None:
    for figure in catalogue().values():
        assert figure.data
        assert figure.takes
        assert all(claim.text and claim.source for claim in figure.claims), figure.name


def test_the_page_has_the_style_sheet_of_the_report() -> None:
    assert ":root" in style_of_report()


# ---- verdicts ------------------------------------------------------------------------------------------------------


def hashing(own: float, flat: float) -> Found:
    rival = {"top1": 1 - flat, "hier_err": flat, "training_bytes": 100.0}
    numbers = dict.fromkeys(zhao_xing.MODELS.values(), rival)
    numbers["heshing-per-level"] = {"top1": 1 - own, "hier_err": own, "training_bytes": 10.0}
    return found_of(numbers)


@pytest.mark.parametrize(
    ("own", "states"),
    [(0.3, [HOLDS] * 4), (0.41, [HOLDS, FAILS, FAILS, HOLDS]), (0.5, [FAILS] * 4)],
    ids=["better", "comparable", "worse"],
)
def test_table_2_is_judged_by_the_errors(own: float, states: list[State]) -> None:
    found = hashing(own, 0.4)
    assert [claim.judge(found).state for claim in zhao_xing.TABLE_2] == [*states, UNKNOWN]


def test_what_was_not_measured_is_no_verdict() -> None:
    empty = found_of({"ovr": {}})
    assert {claim.judge(empty).state for claim in zhao_xing.TABLE_2} == {UNKNOWN}
    assert {claim.judge(empty).state for claim in FIGURE_2} == {UNKNOWN}


@pytest.mark.parametrize(
    ("semi", "state"), [(0.85, HOLDS), (0.81, FAILS), (0.79, FAILS)], ids=["half", "little", "less than codes"]
)
def test_compression_error_that_is_got_back(semi: float, state: State) -> None:
    values = {"full": 0.9, "pq": 0.8, "semi-pq": semi}
    models = {f"{method}-{form}": {"top1": value} for method in ("ovr", "trace") for form, value in values.items()}
    found = found_of(models)
    assert judge_half(found).state == state
    assert regained(found.runs["main"], "ovr") == pytest.approx((semi - 0.8) / 0.1)
    lossless = {name: {"top1": 0.9} for name in models}
    assert judge_half(found_of(lossless)).state == UNKNOWN


@pytest.mark.parametrize(("second", "state"), [(0.21, HOLDS), (0.5, FAILS)], ids=["even", "uneven"])
def test_ambiguity_that_is_constant_over_the_levels(second: float, state: State) -> None:
    records = [{"ambiguity": value, "loss": 0.1} for value in (0.2, second, 0.05)]
    models = {name: {"top1": 0.5, "branching": 3.0} for name in ("label-3", "bengio-3")}
    found = found_of(models, details={name: {"by_depth": records} for name in models})
    assert judge_constant(found).state == state


def relaxed(own: float, cost: float, rivals: tuple[float, float] = (0.51, 0.2), keys: tuple[str, ...] = ()) -> Found:
    """A relaxed hierarchy beside rivals that lose nine points at a fifth of one-vs-rest's cost, or are as given."""
    kinds = {"ovr": "ovr", "r": "relaxed-hierarchy", "s": "spectral-tree", "m": "marszalek", "p": "ovo"}
    train = [{"name": name, "kind": kind, "kernel": "linear"} for name, kind in kinds.items()]
    train[1]["doubt"] = 0.0  # type: ignore[assignment]
    numbers = {"ovr": (0.6, 1.0), "r": (own, cost), "s": rivals, "m": rivals, "p": (0.6, 4.0)}
    models = {name: {"mean_per_class_top1": y, "relative_complexity": x} for name, (y, x) in numbers.items()}
    return found_of(models, train, keys)


def test_relaxed_hierarchies_are_judged_by_accuracy_and_complexity() -> None:
    def states(found: Found) -> list[State]:
        return [claim.judge(found).state for claim in FIGURE_2]

    kernel = UNKNOWN  # its panel was not run
    assert states(relaxed(0.6, 0.15)) == [HOLDS, kernel, HOLDS, HOLDS, HOLDS]
    assert states(relaxed(0.5, 0.15)) == [FAILS, kernel, FAILS, FAILS, HOLDS]
    assert states(relaxed(0.6, 0.8)) == [UNKNOWN, kernel, FAILS, UNKNOWN, HOLDS]


@pytest.mark.parametrize(
    ("own", "rivals", "states"),
    [
        (0.6, (0.6, 0.7), [HOLDS, HOLDS]),
        (0.6, (0.6, 0.4), [FAILS, FAILS]),
        (0.6, (0.5, 0.4), [HOLDS, FAILS]),
        (0.5, (0.5, 0.7), [FAILS, HOLDS]),
    ],
    ids=["rivals slower", "rivals faster", "rivals faster but worse", "worse"],
)
def test_rivals_of_kernel_hierarchies_are_judged_by_their_cheapest_settings(
    own: float, rivals: tuple[float, float], states: list[State]
) -> None:
    found = relaxed(own, 0.5, rivals, ("rbf", "intersection"))
    texts = ("Marszalek only come down", "the other two never met")
    claims = [claim for text in texts for claim in FIGURE_3 if claim.text.startswith(text)]
    assert [claim.judge(found).state for claim in claims] == states


def test_a_family_without_a_number_is_said_to_have_none() -> None:
    said = told_of({"marszalek": None, "spectral-tree": math.nan, "ovr": 0.456}, "{:.2f} at the least", "never")
    assert said == "Marszalek & Schmid never, spectral tree never, one-vs-rest 0.46 at the least"


def test_nodes_are_shown_by_depth_with_the_numbers_of_their_classes() -> None:
    split = {"kind": "split", "depth": 0, "positive": 3, "negative": 2, "ignored": 1}  # lists of classes, counted
    records = [split, {**split, "depth": 1, "ignored": [4, 5, 6]}, {**split, "kind": "one-vs-all"}]
    (table,) = show_nodes(found_of({}, details={SHOWN: {"hierarchy": {"records": records}}})).tables
    cells = [[cell if isinstance(cell, str) else cell.text for cell in row] for row in table.rows]
    assert cells == [["root", "6", "3", "2", "1"], ["1", "8", "3", "2", "3"]]


def test_precision_against_recall_is_drawn_for_both_kinds_of_codes(tmp_path: Path) -> None:
    """Lines come from the run's own figure; codes that are not the paper's have none."""
    codes = [
        {"name": f"{name}-{hashes}", "kind": kind, "hashes": hashes, **more}
        for name, kind, more in (
            ("dwta", "dwta", {}),
            ("wta", "wta", {"empty": "first"}),
            ("plain", "wta", {"empty": "none"}),
        )
        for hashes in (8, 16)
    ]
    retrieve = [{"name": f"near-{one['name']}", "rows": one["name"]} for one in codes]
    sections = {"encode": tuple(codes), "retrieve": tuple(retrieve), "name": "t", "data": {"path": "d.zarr"}}
    run = RunFound(RunConfig.model_validate(sections), {}, tmp_path)
    assert recall_lines(run) == []
    lines = ["codes,threshold,precision,recall,n"]
    lines += [f"{one['name']},{d},{0.1 * (d + 1)},{0.5 * (d + 1)},1" for one in retrieve[:-1] for d in (0, 1)]
    (tmp_path / "report-figures").mkdir()
    (tmp_path / "report-figures" / "precision-recall.csv").write_text("\n".join(lines))
    drawn = recall_lines(run)
    assert [one.name for one in drawn] == ["densified WTA, 8", "WTA, 8", "densified WTA, 16", "WTA, 16"]
    assert all(list(one.x) == [0.5, 1.0] and list(one.y) == pytest.approx([10, 20]) for one in drawn)


def test_shares_just_below_one_are_not_shown_as_one() -> None:
    assert [share(value).text for value in (0.9996, 1.0, 0.0004, 0.9)] == ["99.96 %", "100.0 %", "0.04 %", "90.0 %"]
    assert in_three_digits(0.9996).text == "99.96"
    assert in_three_digits(0.065).text == "6.5"


def test_an_exponent_is_that_of_the_power_law() -> None:
    assert slope([10, 20, 40], [3 * 10**0.5, 3 * 20**0.5, 3 * 40**0.5]) == pytest.approx(0.5)
    assert math.isnan(slope([10], [1]))
