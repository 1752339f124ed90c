"""The README's picture, drawn from a finished run of the demo: `python -m tests.demo_picture demo/runs/characters`.

Accuracy against dot products per row, the same figure as on the run's page, with colours of its own on a light ground,
so that it shows in any viewer. Nothing in it depends on seconds: every machine of one CPU family draws the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from pipeline.report.figures import Scale, scatter
from pipeline.report.labels import Lines, Point
from pipeline.report.numbers import count
from pipeline.report.summary import non_dominated

PLACE = Path(__file__).resolve().parents[1] / "notebooks" / "demo.svg"
COLOURS = {"--ink": "#1a1a1a", "--faint": "#8a8a8a", "--main": "#0b5fa5", "--other": "#b35900", "--paper": "#ffffff"}
GROUND = '<rect width="100%" height="100%" fill="#ffffff"/>'


def picture(run: Path) -> str:
    """The figure of a run folder as the text of an SVG file. Raises OSError where there is no finished run."""
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    models, n_classes = metrics["models"], int(metrics["run"]["n_classes"])
    marked = non_dominated(models)
    points = [
        Point(name, found["test_ops_per_row"], 100 * found["top1"], name in marked) for name, found in models.items()
    ]
    lines = Lines(n_classes, f"{n_classes:,} classes: one-vs-rest")
    drawn = scatter(points, Scale("dot products per row", count), "accuracy, %", lines)
    drawn = re.sub(r"var\((--\w+)\)", lambda found: COLOURS[found[1]], drawn)
    start = drawn.index(">", drawn.index("<svg")) + 1
    return f"{drawn[:start]}\n {GROUND}{drawn[start:]}\n"


if __name__ == "__main__":
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_text(picture(Path(sys.argv[1] if len(sys.argv) > 1 else "demo/runs/characters")), encoding="utf-8")
    print(PLACE)
