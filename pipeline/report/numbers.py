"""Numbers as people read them, and the columns that the page and the terminal share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pipeline.report.metrics import Metrics, known

MISSING = "-"
MOST_DIGITS = 3  # behind the point, of a share in per cent that fewer would round to 0 or 100
ROUNDING = 1e-12


def percent(share: float, digits: int = 1) -> str:
    """A share as 99.9 %; see `in_percent`."""
    return f"{in_percent(share, digits)} %"


def in_percent(share: float, digits: int = 1) -> str:
    """A share in per cent with so many digits behind the point, or more, so that none just below 1 is shown as 100.0
    and none just above 0 as 0.0: 99.96, > 99.999."""
    if min(abs(share), abs(1 - share)) < ROUNDING:  # of sums of doubles: it is 0 or 1
        return f"{100 * round(share):.{digits}f}"
    most = max(digits, MOST_DIGITS) if 0 < share < 1 else digits
    for places in range(digits, most + 1):
        text = f"{100 * share:.{places}f}"
        if not 0 < share < 1 or float(text) not in (0, 100):
            return text
    return f"> {100 - 10.0**-most:.{most}f}" if share > 0.5 else f"< {10.0**-most:.{most}f}"


def plain(value: float) -> str:
    return f"{value:.3f}"


def times(value: float) -> str:
    return f"{value:.3g}x" if value < 1000 else f"{value:,.0f}x"


def count(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def size(value: float) -> str:
    """Bytes in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def short(value: float) -> str:
    """Three digits, an exponent without padding: 0.0125, 1.25e-5."""
    return re.sub(r"e([+-])0*(\d)", r"e\1\2", f"{value:.3g}").replace("e+", "e")


def microseconds(value: float) -> str:
    return f"{count(value)} us"


_IN_NUMBERS = re.compile(  # spaces before a unit, around a plus-minus sign, behind < and >
    r"(?<=\d) (?=(?:%|\N{PLUS-MINUS SIGN}|[KMGT]?i?B|us|s|min|h|points)(?!\w))"
    r"|(?<=\N{PLUS-MINUS SIGN}) |(?<=[<>]) (?=\d)"
)


def unbroken(text: str) -> str:
    """For pages: no line is broken between a number and its unit or its error."""
    return _IN_NUMBERS.sub("\N{NO-BREAK SPACE}", text)


def seconds(value: float) -> str:
    if value < 100:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table of models: the metric, its heading, how it is written, what it means."""

    key: str
    heading: str
    write: Callable[[float], str]
    meaning: str

    def cell(self, metrics: Metrics) -> str:
        value = known(metrics, self.key)
        return MISSING if value is None else self.write(value)


COLUMNS = (
    Column("top1", "accuracy", percent, "rows whose class is named first"),
    Column("hier_err", "hier. error", plain, "mean height of the lowest common ancestor of true and predicted class"),
    Column(
        "speedup",
        "speed-up",
        times,
        "dot products (of kernels: kernel values) of one-vs-rest over the model's own, per predicted row",
    ),
    Column("train_ops_per_row", "training ops", count, "vector operations of training per training row"),
    Column("model_bytes", "parameters", size, "bytes of parameters as saved, of the encodings that it carries, too"),
    Column("training_bytes", "held in training", size, "bytes of learnt numbers held while it is trained"),
    Column(
        "train_seconds",
        "training",
        seconds,
        "seconds of training, in a first run also of compiling kernels",
    ),
    Column(
        "predict_us_per_row",
        "predict/row",
        microseconds,
        "processor microseconds of one worker to rank the classes of a row",
    ),
    Column("peak_bytes", "peak memory", size, "peak memory of a worker in training, with what it kept from before"),
)
WIDE_COLUMNS = (
    *COLUMNS[:1],
    Column("top5", "top-5", percent, "rows whose class is among the five named first"),
    Column("mean_per_class_top1", "per class", percent, "mean over classes of the share of their rows that are right"),
    *COLUMNS[1:],
)
OPTIONAL_COLUMNS = (  # shown where a model has them
    Column("log_loss", "log-loss", plain, "mean of -log of the probability given to the right class"),
    Column(
        "calibration_error",
        "calibration",
        percent,
        "calibration error: mean distance of the probability stated and the share of such rows that are right; at 0 %, "
        "of rows of which a model is 70 % sure it has 70 % right",
    ),
    Column("rank", "rank", count, "rank of the weights, bias apart"),
)


def columns_of(models: Iterable[Metrics], columns: Sequence[Column]) -> tuple[Column, ...]:
    """`columns`, and beside the accuracies those that not every system has, where some model has them."""
    found = list(models)
    more = [one for one in OPTIONAL_COLUMNS if any(known(metrics, one.key) is not None for metrics in found)]
    behind = [column.key for column in columns].index("hier_err")
    rest = columns[behind:]
    if found and all(known(metrics, "hier_err") is None for metrics in found):  # without a taxonomy
        rest = rest[1:]
    return (*columns[:behind], *more, *rest)
