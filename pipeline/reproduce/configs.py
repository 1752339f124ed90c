"""The configs that a figure runs: texts of `pipeline.presets`, filled in for a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.dataset import Dataset
from pipeline.preset import filled, path_from, plain_name, refuse_changed, write_text
from pipeline.reproduce.figure import PaperFigure, Part
from pipeline.reproduce.needs import left_out


@dataclass(frozen=True, slots=True)
class PartConfig:
    """A part of a figure, the file that its config goes to, and what it says."""

    part: Part
    path: Path
    text: str

    def write(self) -> None:
        """Unless it is there: `configs_of` has refused one that is not the same. Raises DiskFull."""
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_text(self.path, self.text)


def configs_of(figure: PaperFigure, dataset: Dataset, data: Path, folder: Path, seed: int) -> list[PartConfig]:
    """The configs of the parts that fit the dataset; none is written yet. Raises PresetChanged.

    They are those of `labelgrove run PRESET --data`, so that figures of the same preset share its run, and another
    seed has configs and runs of its own.
    """
    found: list[PartConfig] = []
    for part in figure.parts:
        if left_out(part, dataset):
            continue
        words = [part.template, part.kernel, plain_name(data), f"seed{seed}" if seed else ""]
        name = "-".join(filter(None, words))
        text = filled(part.template, dataset, name, path_from(folder, data), part.kernel)
        text = text.replace(f'name = "{name}"\n', f'name = "{name}"\nseed = {seed}\n', 1) if seed else text
        found.append(PartConfig(part, folder / f"{name}.toml", text))
        refuse_changed(found[-1].path, text)
    return found
