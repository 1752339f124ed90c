"""Figures and tables of full, PQ and semi-PQ beside each other; certificates; columns that some systems have."""

from __future__ import annotations

import io
import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config import RunConfig
from pipeline.report.certificates import certificate_table
from pipeline.report.compression import compression_plot, compression_table
from pipeline.report.numbers import COLUMNS, WIDE_COLUMNS, columns_of, short
from pipeline.report.summary import RunSummary, SmallTable
from pipeline.report.sweeps import FORMS, Compression, compressions_of
from pipeline.report.table import print_table
from tests.naive import report as naive
from tests.pipeline.figures import table, texts

# ---- full, PQ and semi-PQ ----------------------------------------------------------------------------------------


def config(encode: list[dict[str, Any]], train: list[dict[str, Any]]) -> RunConfig:
    values = {"name": "c", "data": {"path": "d"}, "encode": encode, "train": train}
    return RunConfig.model_validate_json(json.dumps(values))


def test_models_alike_but_for_their_rows_belong_together() -> None:
    encode = [{"name": name, "kind": "pq", "subquantizers": n} for name, n in (("p8", 8), ("p4", 4))]
    run = config(
        encode,
        [
            {"name": "full", "kind": "ovr"},
            {"name": "coded", "kind": "ovr", "rows": "p8"},
            {"name": "semi", "kind": "ovr", "rows": "p8", "test_rows": "x"},
            {"name": "coded4", "kind": "ovr", "rows": "p4"},
            {"name": "other", "kind": "ovr", "rows": "p4", "test_rows": "x", "rounds": 3},
            {"name": "odd", "kind": "ovr", "rows": "x", "test_rows": "p8"},
        ],
    )
    assert compressions_of(run) == [
        Compression("full, p8", "x", "p8", {"full": "full", "PQ": "coded", "semi-PQ": "semi"}),
        Compression("full, p4", "x", "p4", {"full": "full", "PQ": "coded4"}),
    ]
    alone = [one for one in run.train if not one.name.endswith("4")]
    assert [group.label for group in compressions_of(run.model_copy(update={"train": tuple(alone)}))] == ["full"]


def test_codes_of_other_features_are_compared_with_these() -> None:
    encode = [{"name": "low", "kind": "pca", "components": 4}, {"name": "pq", "kind": "pq", "rows": "low"}]
    train = [
        {"name": "raw", "kind": "ovr"},
        {"name": "full", "kind": "ovr", "rows": "low"},
        {"name": "semi", "kind": "ovr", "rows": "pq", "test_rows": "low"},
    ]
    assert compressions_of(config(encode, train)) == [
        Compression("full", "low", "pq", {"full": "full", "semi-PQ": "semi"})
    ]


PLACES = list(itertools.product(("x", "p", "q"), repeat=2))
learners = st.lists(st.tuples(st.sampled_from(PLACES), st.integers(1, 2)), max_size=9, unique=True)


@given(learners)
def test_groups_match_the_definition(found: list[tuple[tuple[str, str], int]]) -> None:
    train = [
        {"name": f"m{i}", "kind": "ovr", "rows": rows, "test_rows": tested, "rounds": rounds}
        for i, ((rows, tested), rounds) in enumerate(found)
    ]
    encode = [{"name": "p", "kind": "pq"}, {"name": "q", "kind": "pq", "rows": "p"}]
    groups = compressions_of(config(encode, train))
    mine = [(group.codes, tuple(group.names.get(form, "") for form in FORMS)) for group in groups]
    assert len(mine) == len(set(mine))
    assert set(mine) == naive.compressions(train, {"p": "x", "q": "p"})


MODELS: dict[str, dict[str, float | None]] = {
    "full": {"top1": 0.8, "rank": 12, "model_bytes": 4096},
    "coded": {"top1": 0.7},
    "semi": {"top1": 0.775},
    "worse": {"top1": 0.65},
    "none": {},
}


def test_what_codes_cost_is_a_figure_and_a_table() -> None:
    groups = [
        Compression("full, p", "x", "p", {"full": "full", "PQ": "coded", "semi-PQ": "semi"}),
        Compression("full, q", "x", "q", {"full": "full", "PQ": "none", "semi-PQ": "worse"}),
        Compression("nothing", "x", "q", {"full": "full", "PQ": "none"}),
    ]
    run = RunSummary("s", MODELS, 10, compressions=groups)
    plot = compression_plot(run)
    assert [(row["learner"], row["form"], row["model"], float(row["top1"])) for row in table(plot)] == [
        ("full, p", "full", "full", 0.8),
        ("full, p", "PQ", "coded", 0.7),
        ("full, p", "semi-PQ", "semi", 0.775),
        ("full, q", "full", "full", 0.8),
        ("full, q", "semi-PQ", "worse", 0.65),
    ]
    assert plot is not None
    assert {"full, p", "full 80.0 %", "PQ 70.0 %", "semi-PQ 77.5 %"} <= set(texts(plot.svg))
    assert "nothing" not in texts(plot.svg)
    assert compression_table(groups, MODELS, {"x": 2048.0, "p": 64.0}).rows == [
        ("full", "full", "80.0 %", "-", "-", "12", "4.0 KiB", "2,048"),
        ("coded", "PQ, p", "70.0 %", "10.0", "-", "-", "-", "64"),
        ("semi", "semi-PQ, p", "77.5 %", "2.5", "75 %", "-", "-", "64"),
        ("full", "full", "80.0 %", "-", "-", "12", "4.0 KiB", "2,048"),
        ("worse", "semi-PQ, q", "65.0 %", "15.0", "-", "-", "-", "-"),
    ]


def test_where_pq_loses_nothing_there_is_nothing_to_get_back() -> None:
    group = Compression("m", "x", "p", {"full": "coded", "PQ": "full", "semi-PQ": "semi"})
    assert [row[3:5] for row in compression_table([group], MODELS, {}).rows] == [
        ("-", "-"),
        ("-10.0", "-"),
        ("-7.5", "-"),
    ]


def test_models_that_were_left_out_are_compared_with_nothing() -> None:
    groups = [Compression("gone", "x", "p", {"PQ": "gone", "semi-PQ": "semi"})]
    assert compression_plot(RunSummary("s", MODELS, 10, compressions=groups)) is None
    assert compression_table(groups, MODELS, {}).rows == []


# ---- certificates and columns ------------------------------------------------------------------------------------


def test_certificates_of_the_models_that_have_a_gap() -> None:
    models: dict[str, dict[str, float | None]] = {
        "tr": {
            "lambda1": 1.25e-5,
            "lambda2": 0.0,
            "objective": 0.7712345,
            "gap": 3.2e-5,
            "relative_gap": 4.15e-5,
            "c1": 0.0,
            "c2": 1e-6,
            "rank": 31,
            "atoms": 33,
            "iterations": 1214,
        },
        "part": {"gap": 0.25, "rank": None},
        "ovr": {"top1": 0.5, "gap": math.nan},
    }
    made = certificate_table(models)
    assert made.rows == [
        ("tr", "1.25e-5", "0", "0.771235", "3.2e-5", "0.00415 %", "0", "1e-6", "31", "33", "1,214"),
        ("part", "-", "-", "-", "0.25", "-", "-", "-", "-", "-", "-"),
    ]
    assert len(made.heading) == len(made.rows[0])
    assert "no weights at all" in made.note


def test_a_tables_note_is_shown_and_kept() -> None:
    made = SmallTable("T", ("a", "b"), [("x", "1")], "How to read it.")
    assert SmallTable(**made.as_json()).as_json() == made.as_json()
    assert "note" not in SmallTable("T", ("a",), [("x",)]).as_json()
    out = io.StringIO()
    print_table(RunSummary("s", {}, 2, tables=[made]), out)
    assert out.getvalue().endswith("1\nHow to read it.\n")


@pytest.mark.parametrize("columns", [COLUMNS, WIDE_COLUMNS])
def test_columns_that_not_every_system_has_are_there_where_a_model_has_them(columns: Any) -> None:
    assert columns_of([{"top1": 0.5, "hier_err": 1.0}, {"rank": None, "log_loss": math.nan}], columns) == columns
    assert columns_of([], columns) == columns
    without = columns_of([{"top1": 0.5}, {"hier_err": None}], columns)  # of data without a taxonomy
    assert [column for column in columns if column not in without] == [c for c in columns if c.key == "hier_err"]
    found = columns_of([{"hier_err": 2.0}, {"rank": 3, "log_loss": 0.5}], columns)
    headings = [column.heading for column in found]
    place = headings.index("hier. error")
    assert headings[place - 2 : place] == ["log-loss", "rank"]
    assert len(headings) == len(columns) + 2


def test_short_numbers() -> None:
    assert [short(value) for value in (0, 0.000125, 1.25e-5, 1e-10, 1234567, 0.5)] == [
        "0",
        "0.000125",
        "1.25e-5",
        "1e-10",
        "1.23e6",
        "0.5",
    ]
