"""The first screen of the page, and the last line of the terminal: which of a run's models to use."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.report.advice import Advice, Candidate, accuracy_text, advise
from pipeline.report.numbers import MISSING, count, microseconds, size
from pipeline.report.relaxed_members import LINEAR, apart_from_others, models_of_all_classes, relaxed_members
from pipeline.report.summary import Metrics, RunSummary, known

DOT_PRODUCTS, KERNEL_VALUES = "dot products", "kernel values"
HEADING = ("model", "accuracy", "{}", "predict/row", "parameters")


@dataclass(frozen=True, slots=True)
class First:
    """What the first screen shows beside the figure: sentences, and a table of the models that no other beats.

    remarks  a word below the name of each model of the table
    """

    lines: tuple[str, ...] = ()
    heading: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    remarks: tuple[str, ...] = ()
    note: str = ""


def candidate(name: str, metrics: Metrics) -> Candidate | None:
    """A model of metrics.json; None where accuracy or cost are not known."""
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
    )


def comparable(run: RunSummary) -> tuple[str, list[Candidate]]:
    """What the cost of the models counts that compare, and these: of all classes, without kernels where any is.

    Of kernels those of the one that most models have, the first of equals.
    """
    whole, apart = models_of_all_classes(run), apart_from_others(run)
    linear = [one for name in whole if name not in apart and (one := candidate(name, whole[name]))]
    kernels = {one.name: one.kernel for one in relaxed_members(run) if one.kernel != LINEAR and one.sample is None}
    if len(linear) >= 2 or len(kernels) < 2:
        return DOT_PRODUCTS, linear
    most = max(dict.fromkeys(kernels.values()), key=[*kernels.values()].count)
    same = [name for name, kernel in kernels.items() if kernel == most]
    return KERNEL_VALUES, [one for name in same if (one := candidate(name, whole[name]))]


def test_rows_of(run: RunSummary) -> int:
    """Test rows that models of all classes were tested on; 0 where it is not known."""
    found = [known(metrics, "test_rows") for metrics in models_of_all_classes(run).values()]
    return int(max((rows for rows in found if rows is not None), default=0))


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
    others = [one for name in whole if name not in compared and (one := candidate(name, whole[name]))]
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
    """Empty where fewer than two models compare."""
    advice, (unit, found) = advice_of(run), comparable(run)
    by_name = {one.name: one for one in found}
    shown = [by_name[name] for name in advice.non_dominated if name in by_name]
    if not shown:
        return First()
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
    note = f"Models that no other beats in accuracy or {unit} without losing in the other, the cheapest first{error}."
    note += f" {unit.capitalize()} are per row, predict/row is the measured time of one worker."
    remarks = tuple(remark(one.name, advice) for one in shown)
    return First(advice.lines, tuple(text.format(unit) for text in HEADING), rows, remarks, note)


def remark(name: str, advice: Advice) -> str:
    """Below its name: "take this", "most accurate", both, or that it ties with the most accurate one."""
    words = ["take this"] * (name == advice.take) + ["most accurate"] * (name == advice.most_accurate)
    return ", ".join(words or ["ties with the best"] * (name in advice.tied))


def last_line(run: RunSummary) -> str:
    """What the terminal says under the table: take tree: ...; "" where nothing compares."""
    brief = advice_of(run).brief
    return brief[:1].lower() + brief[1:]
