"""What every section of a config is, and what encodings and learners are told alike."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Sweep = Annotated[  # taken apart before the config is validated (pipeline/sweep.py)
    dict[str, list[int | float | str | bool]] | None,
    Field(exclude=True, description='one for each value: `sweep = { bits = [12, 14] }` with `name = "h-{bits}"`'),
]
OWN_ROWS = "x"  # the dataset's own rows


class Section(BaseModel):
    """Unknown keys refused, no silent conversions, frozen."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=True)


class Encoding(Section):
    """What every encoding is told."""

    keeps_columns: ClassVar[bool] = False  # whether its rows stand for those that it reads, column by column
    no_histograms: ClassVar[str] = ""  # why an additive kernel of its rows is none, where it is so
    other_kernel: ClassVar[str] = ""  # where its rows hold values below 0 whatever it reads: one that takes these

    takes: ClassVar[str] = "numbers"  # what the rows that it reads are: also "images", "descriptors"
    gives: ClassVar[str] = "numbers"  # what its own rows are

    name: Name = Field(description="what learners call it in `rows` and `test_rows`")
    sweep: Sweep = None
    rows: str = Field(OWN_ROWS, description='what is encoded: "x" or an earlier encoding')

    @property
    def why_no_histograms(self) -> str:
        """`no_histograms`, where the keys decide."""
        return self.no_histograms

    @property
    def kernel_of_negatives(self) -> str:
        """`other_kernel`, where the keys decide."""
        return self.other_kernel

    @property
    def keeps_signs(self) -> bool:
        """Whether its rows hold values below 0 where those that it reads do, and nowhere else."""
        return self.keeps_columns


class Learner(Section):
    """What every learner is told."""

    name: Name = Field(description="the model's folder and its name in the report")
    sweep: Sweep = None
    rows: str = Field(OWN_ROWS, description='what it learns from: "x" or an encoding')
    test_rows: str | None = Field(
        None, description="what it is tested on, and validation rows are of; default: as `rows`"
    )

    @property
    def tested_on(self) -> str:
        return self.test_rows or self.rows
