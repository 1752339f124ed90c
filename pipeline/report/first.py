"""The first screen of the page, and the last line of the terminal: which of a run's models to use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.report.advice import Advice, Candidate, accuracy_text, advise, standard_error
from pipeline.report.metrics import Metrics, known
from pipeline.report.numbers import MISSING, count, microseconds, size
from pipeline.report.relaxed_members import (
    ALIASES,
    FLAT,
    LINEAR,
    apart_from_others,
    kind_of,
    models_of_all_classes,
    relaxed_members,
)
from pipeline.report.summary import RunSummary

DOT_PRODUCTS, KERNEL_VALUES = "dot products", "kernel values"
HEADING = ("model", "accuracy", "{}", "predict/row", "parameters")


@dataclass(frozen=True, slots=True)
class First:
    """What the first screen shows beside the figure: sentences, and a table of the models to choose from.

    takes    what to take: one sentence, or one of each set of test rows; lines  below each, what else to know
    remarks  what to say below each model of the table
    """

    takes: tuple[str, ...] = ()
    lines: tuple[tuple[str, ...], ...] = ()
    heading: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    remarks: tuple[str, ...] = ()
    note: str = ""


def candidate(run: RunSummary, name: str) -> Candidate | None:
    """A model by its numbers; None where accuracy or cost are not known."""
    metrics = run.models[name]
    accuracy, ops = known(metrics, "top1"), known(metrics, "test_ops_per_row")
    if accuracy is None or ops is None:
        return None
    return Candidate(
        name,
        accuracy,
        ops,
        known(metrics, "predict_us_per_row"),
        known(metrics, "model_bytes"),
        known(metrics, "train_seconds"),
        known(metrics, "hier_err"),
        run.measured_in.get(name, ""),
    )


def comparable(run: RunSummary) -> tuple[str, list[Candidate]]:
    """What the cost of the models counts that compare, and these: of all classes, without kernels where any is.

    Of kernels those of the one that most models have, the first of equals.
    """
    whole, apart = models_of_all_classes(run), apart_from_others(run)
    linear = [one for name in whole if name not in apart and (one := candidate(run, name))]
    kernels = {one.name: one.kernel for one in relaxed_members(run) if one.kernel != LINEAR and one.sample is None}
    if len(linear) >= 2 or len(kernels) < 2:
        return DOT_PRODUCTS, linear
    most = max(dict.fromkeys(kernels.values()), key=[*kernels.values()].count)
    same = [name for name, kernel in kernels.items() if kernel == most]
    return KERNEL_VALUES, [one for name in same if (one := candidate(run, name))]


def test_rows_of(run: RunSummary) -> int:
    """Test rows that models of all classes were tested on; 0 where it is not known."""
    found = [known(metrics, "test_rows") for metrics in models_of_all_classes(run).values()]
    return int(max((rows for rows in found if rows is not None), default=0))


def error_of(metrics: Metrics) -> float | None:
    """Standard error of a model's accuracy; None where that, or the number of its test rows, is not told."""
    accuracy, rows = known(metrics, "top1"), known(metrics, "test_rows")
    return standard_error(accuracy, int(rows)) if accuracy is not None and rows else None


def advice_of(run: RunSummary) -> Advice:
    """What the run was published with; else what its numbers alone say."""
    if run.advice is not None:
        return run.advice
    unit, found = comparable(run)
    if len(found) < 2:
        return Advice()
    advice = advise(found, test_rows_of(run), run.paired, run.n_classes if unit == DOT_PRODUCTS else None, unit)
    return _with_others(run, advice, {one.name for one in found})


def _with_others(run: RunSummary, advice: Advice, compared: set[str]) -> Advice:
    """Beside them the most accurate one of those that do not compare, where it is more accurate."""
    whole = models_of_all_classes(run)
    others = [one for name in whole if name not in compared and (one := candidate(run, name))]
    if not others:
        return advice
    best = max(others, key=lambda one: one.accuracy)
    if best.accuracy <= (known(whole[advice.most_accurate], "top1") or 0.0):
        return advice
    said = (
        f"Apart from these: {best.name}, {accuracy_text(best.accuracy, test_rows_of(run))} with "
        f"{count(best.test_ops)} {KERNEL_VALUES} per row, which do not compare with {DOT_PRODUCTS}."
    )
    return Advice((*advice.lines, said), advice.non_dominated, advice.take, advice.most_accurate, advice.tied)


def first_of(run: RunSummary) -> First:
    """Empty where fewer than two models compare; without a table where they were tested on different rows and it is
    others that compare."""
    advice, (unit, found) = advice_of(run), comparable(run)
    by_name = {one.name: one for one in found}
    names = {*advice.non_dominated, *advice.tied, advice.most_accurate}
    flat = [name for name in one_vs_rest(run, found) if advice.most_accurate and name not in names]
    shown = [one for one in found if one.name in names or one.name in flat]
    shown.sort(key=lambda one: (one.test_ops, -one.accuracy))
    takes, lines = tuple(choice.text for choice in run.choices), tuple(choice.lines for choice in run.choices)
    if not takes:
        takes, lines = advice.lines[:1], (advice.lines[1:],)
    if not shown:
        return First(takes, lines) if run.choices else First()
    n_test = test_rows_of(run)
    rows = tuple(
        (
            one.name,
            accuracy_text(one.accuracy, n_test),
            count(one.test_ops),
            MISSING if one.predict_us is None else microseconds(one.predict_us),
            MISSING if one.model_bytes is None else size(one.model_bytes),
        )
        for one in shown
    )
    error = f"; \N{PLUS-MINUS SIGN} is one standard error of {n_test:,} test rows" if n_test else ""
    groups = [f"models that no other beats in accuracy or {unit} without losing in the other"]
    groups += ["those that tie with the most accurate one"] * any(name in by_name for name in advice.tied)
    groups += ["one-vs-rest"] * bool(flat)
    note = f"{', and '.join(groups)}, the cheapest first{error}."
    note = note[:1].upper() + note[1:]
    note = f"Of {run.choices[0].of}: {note[:1].lower()}{note[1:]}" if run.choices else note
    note += f" {unit.capitalize()} are per row, predict/row is the processor time of one worker."
    remarks = tuple(remark(one.name, advice) for one in shown)
    return First(takes, lines, tuple(text.format(unit) for text in HEADING), rows, remarks, note)


def one_vs_rest(run: RunSummary, found: Sequence[Candidate]) -> list[str]:
    """The most accurate one-vs-rest of these models, if there is one."""
    flat = [one for one in found if kind_of(run, one.name) in (FLAT, *ALIASES)]
    return [max(flat, key=lambda one: (one.accuracy, -one.test_ops)).name] if flat else []


def remark(name: str, advice: Advice) -> str:
    """Below its name: "take this", "most accurate", or that it ties with the most accurate one; what holds of these."""
    words = ["take this"] * (name == advice.take) + ["most accurate"] * (name == advice.most_accurate)
    return ", ".join(words + ["ties with the best"] * (name in advice.tied))


def last_lines(run: RunSummary) -> list[str]:
    """What the terminal says under the table: take tree: ...; a line for each set of test rows, none where nothing
    compares."""
    said = [choice.text for choice in run.choices] or [advice_of(run).brief]
    return [text[:1].lower() + text[1:] for text in said if text]
