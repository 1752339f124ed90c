"""The report: safe for any name, the same bytes for the same run, and right about which models stand out."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.csvs import csv_text
from pipeline.report.first import last_lines
from pipeline.report.numbers import COLUMNS, WIDE_COLUMNS, count, percent, seconds, size, times, unbroken
from pipeline.report.page import plots_of, write_report
from pipeline.report.summary import RunSummary, SmallTable, StepTiming, best_model, non_dominated
from pipeline.report.table import plain_table, print_table, printable
from tests.naive import models as naive

EVIL = ("<script>alert(1)</script>", "[/x]", "a/b", "..", "$x^{2$ & \"q'", "\u202egnp\x1b[31m\x00", "字 é", "=1+1", "")


def numbers(top1: float, ops: float) -> dict[str, float | None]:
    return {
        "top1": top1,
        "top5": min(1.0, top1 + 0.1),
        "mean_per_class_top1": top1,
        "hier_err": 1 - top1,
        "speedup": 100 / ops,
        "test_ops_per_row": ops,
        "train_ops_per_row": 40 * ops,
        "model_bytes": 4000 * ops,
        "training_bytes": 8000 * ops,
        "train_seconds": ops / 3,
        "predict_us_per_row": 12.5,
        "peak_bytes": 1.5 * 2**30,
    }


def summary() -> RunSummary:
    return RunSummary(
        name="run " + EVIL[0],
        models={"ovr": numbers(0.9, 100), "tree": numbers(0.8, 12), EVIL[0]: numbers(0.7, 50), EVIL[4]: {"top1": 0.1}},
        n_classes=100,
        kinds={"ovr": "ovr", "tree": "label-tree on <pq>"},
        dataset={"rows": 36000, "path": EVIL[5], "split": EVIL[0]},
        class_ids=EVIL,
        class_names=EVIL,
        details={
            "tree": {"worst_classes": [[c, 1, 4] for c in range(len(EVIL))], "confused_pairs": [[0, 1, 3], [2, -1, 1]]},
            "ovr": {"worst_classes": [[0, 0, 2]], "confused_pairs": []},
        },
        notes=EVIL,
        warnings=EVIL,
        lost=("block 7 of <pq>",),
        timings=[StepTiming(EVIL[0], "ran", 3.25), StepTiming("train tree", "reused")],
        environment={"numpy": "2.4"},
        commands=("labelgrove run <config>",),
        config='name = "x"\n# <script>\n',
    )


class Page(HTMLParser):
    """Every tag with its attributes, every id, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "report.html"
    write_report(path, summary())
    return path


def test_names_are_text_and_nothing_runs_or_is_fetched(page_path: Path) -> None:
    text = page_path.read_text("utf-8")
    page = Page(text)
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "iframe", "object", "embed", "link", "img", "base", "form", "x", "pq"}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    for tag, attributes in page.tags:
        for name in ("href", "src", "xlink:href"):
            target = attributes.get(name) or ""
            assert re.match(r"#|$|report-figures/[a-z-]+\.csv$", target), (tag, name, target)
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in (policy or "")
    assert "script-src" not in (policy or "")
    assert not re.search(r"url\((?!#)|@import", text)
    assert EVIL[0] in page.text
    assert EVIL[1] in page.text
    assert not set(text) & {"\x00", "\x1b", "\u202e"}


def test_ids_are_unique_and_references_resolve(page_path: Path) -> None:
    page = Page(page_path.read_text("utf-8"))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids)) > 10
    used = {(a.get("xlink:href") or a.get("href") or "") for _, a in page.tags}
    styles = [" ".join(map(str, attributes.values())) for _, attributes in page.tags]
    used |= {found for style in styles for found in re.findall(r"(?<=url\()#[^)]*", style)}
    assert {target[1:] for target in used if target.startswith("#")} <= set(ids)


def test_the_same_run_gives_the_same_bytes_and_they_are_few(page_path: Path, tmp_path: Path) -> None:
    written = write_report(tmp_path / "report.html", summary())
    assert (tmp_path / "report.html").read_bytes() == page_path.read_bytes()
    assert len(page_path.read_bytes()) < 500_000
    for path in written:
        twin = page_path.parent / path.relative_to(tmp_path)
        assert path.read_bytes() == twin.read_bytes()
    assert not list(tmp_path.rglob("*.partial"))


def test_many_models_and_notes_stay_under_two_megabytes(tmp_path: Path) -> None:
    models = {f"model {i}": numbers(0.5 + i / 200, 1 + i) for i in range(60)}
    run = replace(summary(), models=models, notes=[f"note {i}" for i in range(10_000)])
    write_report(tmp_path / "r.html", run)
    text = (tmp_path / "r.html").read_text("utf-8")
    assert len(text) < 2_000_000
    assert "and 9,800 more" in text


def test_what_is_shown(page_path: Path) -> None:
    page = Page(page_path.read_text("utf-8"))
    for text in (
        "90.0 %",
        "36,000",
        "block 7 of <pq>",
        "labelgrove run <config>",
        "label-tree on <pq>",
        "3.2 s",
        "(none)",
    ):
        assert text in page.text, text
    assert [name for name in ("ovr", "tree", EVIL[0]) if f"\N{BLACK STAR} {name}" in page.text] == ["ovr", "tree"]
    assert page.text.count("\N{BLACK STAR}") == 3  # two models and the legend
    assert page.text.index("the most accurate model") < page.text.index("Pairs confused most")


def test_figures_are_also_csv(page_path: Path) -> None:
    folder = page_path.parent / "report-figures"
    assert {path.stem for path in folder.iterdir()} == {
        "accuracy-cost",
        "accuracy-bytes",
        "accuracy-held",
        "accuracy-training",
        "flat-error",
        "hierarchical-error",
        "timings",
        "trees-costs",
    }
    rows = list(csv.DictReader(io.StringIO((folder / "accuracy-cost.csv").read_text("utf-8"))))
    assert [row["model"] for row in rows] == ["ovr", "tree", EVIL[0]]
    assert [float(row["top1"]) for row in rows] == [0.9, 0.8, 0.7]
    assert [row["non_dominated"] for row in rows] == ["1", "1", "0"]
    assert [row["standard_error"] for row in rows] == ["", "", ""]  # how many test rows there were is not told


def test_accuracies_have_bars_of_one_standard_error() -> None:
    models = {name: {**numbers(top1, ops), "test_rows": 100.0} for name, top1, ops in (("a", 0.9, 100), ("b", 0.5, 10))}
    run = replace(summary(), models=models, kinds={"a": "label-tree", "b": "label-tree"})
    plots = {plot.name: plot for plot in plots_of(run)}
    for name in ("accuracy-cost", "accuracy-bytes", "trees-speedup"):
        rows = list(csv.DictReader(io.StringIO(plots[name].csv)))
        assert [float(row["standard_error"]) for row in rows] == pytest.approx([0.03, 0.05])
        assert "one standard error" in plots[name].caption
        bare = [replace(plot) for plot in plots_of(replace(run, models={n: numbers(0.9, 9) for n in "ab"}))]
        (other,) = [plot for plot in bare if plot.name == name]
        assert other.svg.count("LineCollection") == 0 < plots[name].svg.count("LineCollection")
        assert "standard error" not in other.caption


def test_figures_take_the_pages_colours_and_keep_names_as_text(page_path: Path) -> None:
    text = page_path.read_text("utf-8")
    figures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(figures) == 8
    assert "one-vs-rest" in figures[0]
    assert "one-vs-rest" in figures[1]  # the same for a phone
    for figure in figures:
        assert "var(--ink)" in figure
        assert not re.search("#0[1-4]0[1-4]0[1-4]", figure)
        assert "<style" not in figure
        assert "mathdefault" not in figure


def test_a_run_in_which_nothing_was_evaluated_still_has_a_page(tmp_path: Path) -> None:
    run = RunSummary("empty", {}, 10, lost=("every model",))
    assert [path.name for path in write_report(tmp_path / "r.html", run)] == ["r.html"]
    text = (tmp_path / "r.html").read_text("utf-8")
    assert "No model was evaluated." in text
    assert "every model" in text
    assert plain_table(run).count("\n") == 2


SHARES = {
    0.0: "0.0 %",
    1.0: "100.0 %",
    1 - 1e-15: "100.0 %",  # of a mean of ones
    0.9996: "99.96 %",
    0.99996: "99.996 %",
    0.999999: "> 99.999 %",
    0.0004: "0.04 %",
    0.000004: "< 0.001 %",
    0.7594: "75.9 %",
    -0.0004: "-0.0 %",
    1.5: "150.0 %",
}


@pytest.mark.parametrize("share", SHARES)
def test_no_share_is_rounded_to_a_bound_that_it_does_not_reach(share: float) -> None:
    assert percent(share) == SHARES[share]
    told = re.fullmatch(r"(?:([<>]) )?([0-9.]+) %", percent(share, 0))
    if 1e-12 < share < 1 - 1e-12:
        assert told is not None
        assert 0 < float(told[2]) < 100


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_unknown_numbers_are_dashes_and_leave_the_figures_out(tmp_path: Path, value: float | None) -> None:
    run = RunSummary("x", {"m": dict.fromkeys((column.key for column in WIDE_COLUMNS), value)}, 10)
    assert len(write_report(tmp_path / "r.html", run)) == 1
    assert [column.cell(run.models["m"]) for column in COLUMNS] == ["-"] * len(COLUMNS)


def test_one_model_alone_is_drawn(tmp_path: Path) -> None:
    write_report(tmp_path / "r.html", RunSummary("x", {"m": numbers(1.0, 1.0)}, 1))
    assert "<svg" in (tmp_path / "r.html").read_text("utf-8")


# ---- which models stand out --------------------------------------------------------------------------------------

few = st.integers(0, 4).map(float)


@given(st.dictionaries(st.text(max_size=3), st.tuples(few, few), max_size=8))
def test_non_dominated_matches_the_definition(points: dict[str, tuple[float, float]]) -> None:
    models = {name: {"top1": gain, "test_ops_per_row": cost} for name, (gain, cost) in points.items()}
    assert non_dominated(models) == naive.non_dominated(points)


def test_models_without_numbers_never_stand_out() -> None:
    models: dict[str, dict[str, float | None]] = {"a": {"top1": math.nan, "test_ops_per_row": 1}, "b": {"top1": 0.5}}
    assert non_dominated(models) == set()
    assert best_model(models) == "b"
    assert best_model({}) is None


def test_the_best_model_is_the_most_accurate_then_the_cheapest() -> None:
    models: dict[str, Any] = {"a": numbers(0.8, 9), "b": numbers(0.9, 9), "c": numbers(0.9, 5), "d": numbers(0.9, 5)}
    assert best_model(models) == "c"


# ---- the terminal ------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_not_a_terminal_gets_plain_aligned_text() -> None:
    out = io.StringIO()
    print_table(summary(), out)
    text = out.getvalue()
    lines = text.splitlines()
    assert "\x1b" not in text
    assert " ".join(lines[0].split()) == (
        "model accuracy hier. error speed-up training ops parameters held in training training predict/row peak memory"
    )
    assert " ".join(lines[2].split()) == "* ovr 90.0 % 0.100 1x 4,000 390.6 KiB 781.2 KiB 33.3 s 12.5 us 1.5 GiB"
    assert [line.index("%") for line in lines[2:5]] == [lines[2].index("%")] * 3


def test_what_is_doubtful_goes_to_the_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(replace(summary(), findings=["NotConverged: tr: gap"]))
    said = capsys.readouterr()
    assert said.err == "warning: NotConverged: tr: gap\n"
    assert "NotConverged" not in said.out
    assert "tree" in said.out


def test_a_terminal_gets_colours_unless_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    print_table(summary(), out)
    assert "\x1b[" in out.getvalue()
    assert "<script>alert(1)</script>" in out.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    print_table(summary(), plain)
    assert plain.getvalue() == f"{plain_table(summary())}{last_lines(summary())[0]}\n"


@pytest.mark.parametrize("name", EVIL)
def test_any_name_prints_as_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    run = replace(summary(), name=name, models={name: numbers(0.5, 10)})
    for out in (Terminal(), io.StringIO()):
        print_table(run, out)
        assert printable(name) in out.getvalue()
        assert not set(out.getvalue()) & {"\x00", "\u202e"}


SMALL = SmallTable(
    "Others", ("  model", *(f"column {i}" for i in range(12))), [["* a" * 30, *["x" * 9] * 11, "y" * 99]]
)


@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_every_table_fits_a_terminal_and_is_whole_in_a_pipe(term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("NO_COLOR", raising=False)
    run = replace(summary(), tables=[SMALL])
    out, pipe = Terminal(), io.StringIO()
    print_table(run, out)
    lines = re.sub("\x1b\\[[0-9;]*m", "", out.getvalue()).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("* a" in line for line in lines) > 2  # the name is beside each part
    print_table(run, pipe)
    lines = pipe.getvalue().splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("  model") and "column 11" in line)
    assert set(lines[place + 1]) == {"-"}
    assert lines[place + 2].startswith("* a" * 30)
    assert lines[place + 2].endswith("y" * 99)


def test_an_output_of_ascii_only_does_not_fail() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    print_table(replace(summary(), models={"字": numbers(0.5, 10)}), out)
    assert b"50.0 %" in raw.getvalue()


# ---- numbers -----------------------------------------------------------------------------------------------------


def test_no_line_of_the_page_ends_within_a_number() -> None:
    text = unbroken("Take km: 50.6 \N{PLUS-MINUS SIGN} 1.7 %, > 99.9 % in 3 us, 2.5 MiB of 3 samples, 4 men")
    assert text.split(" ") == [
        "Take",
        "km:",
        "50.6\xa0\N{PLUS-MINUS SIGN}\xa01.7\xa0%,",
        *(">\xa099.9\xa0%", "in", "3\xa0us,", "2.5\xa0MiB", "of", "3", "samples,", "4", "men"),
    ]


def test_numbers_as_people_read_them() -> None:
    assert [size(value) for value in (0, 1023, 1024, 3 << 20, 5 << 30, 7 << 40)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "3.0 MiB",
        "5.0 GiB",
        "7.0 TiB",
    ]
    assert [seconds(value) for value in (0.04, 99.9, 100, 3599.6, 7260)] == [
        "0.0 s",
        "99.9 s",
        "1 min 40 s",
        "1 h 00 min",
        "2 h 01 min",
    ]
    assert [times(value) for value in (0.5, 1, 12.94, 1234)] == ["0.5x", "1x", "12.9x", "1,234x"]
    assert [count(value) for value in (0.5, 12.34, 48080)] == ["0.5", "12.3", "48,080"]


def test_csv_text_is_no_formula() -> None:
    text = csv_text(["a", "b"], [["=1+1", 2.5], ["-x", None], ['ok, "yes"', -3]])
    assert text == 'a,b\n\'=1+1,2.5\n\'-x,\n"ok, ""yes""",-3\n'
