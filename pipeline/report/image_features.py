"""Features of images in one table: how wide their rows are, and what an image costs."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.report.metrics import Metrics, known
from pipeline.report.numbers import count, percent
from pipeline.report.summary import SmallTable

HEADINGS = ("features", "columns", "bytes/row", "descriptors/image", "images without", "images/s a core", "of it SIFT")


def image_table(encodings: Mapping[str, Metrics], measured: Mapping[str, Metrics]) -> SmallTable:
    """One line for each encoding of descriptors; encodings: what they came to, measured: how fast they were."""
    lines = []
    for name, numbers in encodings.items():
        described = known(numbers, "descriptors_per_image")
        if described is None:
            continue
        columns, nbytes, blank = (
            known(numbers, key) or 0.0 for key in ("columns", "bytes_per_row", "images_without_descriptors")
        )
        rate, share = (known(measured.get(name, {}), key) for key in ("images_per_core_second", "sift_share"))
        speed = "-" if rate is None else count(rate)
        part = "-" if share is None else percent(share)
        lines.append((name, count(columns), count(nbytes), f"{described:.1f}", count(blank), speed, part))
    return SmallTable("Features of images", HEADINGS, lines)
