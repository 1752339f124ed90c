"""Tables beside that of models: certificates, what codes cost, codes and the retrievals with them (seeds averaged)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from pipeline.config import RunConfig
from pipeline.report.certificates import certificate_table
from pipeline.report.compression import compression_table
from pipeline.report.image_features import image_table
from pipeline.report.metrics import Metrics, known
from pipeline.report.numbers import count, percent
from pipeline.report.summary import SmallTable
from pipeline.report.sweeps import Repeats, code_repeats, compressions_of, repeats_of

Numbers = Mapping[str, Metrics]  # name -> plain numbers


def small_tables(
    config: RunConfig,
    models: Numbers,
    encodings: Numbers,
    retrievals: Numbers,
    row_bytes: Mapping[str, float],
    measured: Numbers,
) -> list[SmallTable]:
    """Those of a run's tables that have any line.

    row_bytes  name of rows -> bytes of one of them, where known; measured: how fast each encoding was
    """
    codes = [_codes_line(group, encodings) for group in code_repeats(config)]
    found = [_retrieval_line(group, retrievals) for group in repeats_of(config)]
    tables = [
        certificate_table(models),
        compression_table(compressions_of(config), models, row_bytes),
        image_table(encodings, measured),
        SmallTable(
            "Codes", ("codes", "seeds", "zeros in rows", "empty samples", "expected by chance", "bytes/row"), codes
        ),
        SmallTable("Retrieval", ("retrieval", "seeds", "queries", "mean average precision", "precision at 1"), found),
    ]
    return [table for table in tables if table.rows]


def _codes_line(group: Repeats, encodings: Numbers) -> tuple[str, ...]:
    shares = [_share(list(_values(group, encodings, key))) for key in ("sparsity", "empty_codes", "expected_empty")]
    nbytes = max(_values(group, encodings, "bytes_per_row"), default=0.0)
    return (group.label, str(len(group.names)), *shares, count(nbytes))


def _retrieval_line(group: Repeats, retrievals: Numbers) -> tuple[str, ...]:
    precision = list(_values(group, retrievals, "mean_average_precision"))
    queries = max(_values(group, retrievals, "queries"), default=0.0)
    first = _share(list(_values(group, retrievals, "precision_at_1")))
    return (group.label, str(len(group.names)), f"{queries:,.0f}", _spread(precision), first)


def _values(group: Repeats, numbers: Numbers, key: str) -> Iterator[float]:
    for name in group.names:
        if (value := known(numbers.get(name, {}), key)) is not None:
            yield value


def _share(values: Sequence[float]) -> str:
    if not values:
        return "-"
    mean = math.fsum(values) / len(values)
    return percent(mean, 3 if 0.99 < mean < 1 else 1)  # of text, nearly all are zeros


def _spread(values: Sequence[float]) -> str:
    """Mean, and the standard deviation of one value where there are several."""
    if not values:
        return "-"
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.4f}"
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return f"{mean:.4f} \N{PLUS-MINUS SIGN} {spread:.4f}"
