"""A seeded sample of descriptors of training images, on disk: what vocabularies and mixtures are learnt from."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Self

from pipeline.image_encodings import LocalEncoding
from pipeline.section import OWN_ROWS
from pipeline.stage import CARD_BYTES, FILE_BYTES, Estimate, Facts, Made, Stage, Work, encode_step
from pipeline.stages.sift import sift_of
from pipeline.stages.train import MEGABYTE
from tasks.digest import combine
from tasks.errors import InputError
from tasks.features.descriptor_sample import SampleFile
from tasks.features.image_blocks import sample_descriptors
from tasks.io import longest_side_of
from tasks.quantize.blocks import count_eligible, plan_sample
from tasks.rows.descriptors import SIFT_NUMBERS

FROM_EACH = 40  # descriptors of an image at least: so many images are enough for a sample
FOLDER = "descriptors"


class NoDescriptors(InputError):
    """The training images have too few patches with contrast to learn from."""


def sample_step(encoding: LocalEncoding) -> str:
    """The step of the sample that an encoding learns from: one for all with as large a sample of the same rows."""
    return f"sample_{encoding.rows}-{encoding.sampled}"


@dataclass(frozen=True)
class SampleStage(Stage):
    """So many images as needed, `each` descriptors of each; fewer where an image has fewer."""

    rows: str
    wanted: int
    most: int  # patches of one image

    @classmethod
    def of(cls, encoding: LocalEncoding, facts: Facts) -> Self:
        """Raises NoDescriptors when no image is as large as a patch."""
        if facts.dataset.body == "images" and not facts.rows[encoding.rows].row_floats:
            side = longest_side_of(facts.dataset.rows_store)
            what = f"no patch fits into any image: the longest side of all is {side} pixels"
            raise NoDescriptors(what, f"encode {encoding.rows}", "smaller patches, or larger images")
        return cls(encoding.rows, encoding.sampled, facts.rows[encoding.rows].row_floats)

    @property
    def name(self) -> str:
        return f"sample_{self.rows}-{self.wanted}"

    def settings(self) -> dict[str, Any]:
        return {"rows": self.rows, "sample": self.wanted}

    @property
    def inputs(self) -> tuple[str, ...]:
        return (encode_step(self.rows),)

    @property
    def reads_rows(self) -> bool:
        return True

    def estimate(self, facts: Facts) -> Estimate:
        blocks = len(facts.dataset.blocks())
        kept = SIFT_NUMBERS * self.wanted
        task = 2 * facts.rows[OWN_ROWS].block_bytes + 2 * facts.rows[self.rows].block_bytes + kept + 64 * MEGABYTE
        return Estimate(task, kept + 2 * blocks * FILE_BYTES + CARD_BYTES, blocks)

    def run(self, work: Work) -> Made:
        """Raises NoDescriptors."""
        started = time.perf_counter()
        folder = work.folder / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        blocks, dataset = work.train_blocks(OWN_ROWS), work.dataset.path
        n_train = work.dataset.split_counts["train"]
        each = max(1, min(FROM_EACH, self.most), -(-self.wanted // n_train))
        eligible = work.pool.map(count_eligible, blocks, dataset, name=f"count_{self.name}")
        parts = plan_sample(blocks, eligible, min(n_train, -(-self.wanted // each)), work.seed)
        shared = sift_of(work, self.rows), each, dataset, work.seed, str(folder)
        found = work.pool.map(sample_descriptors, parts, *shared, name=self.name)
        total = sum(rows for _, rows, _ in found)
        if not total:
            hint = "smaller patches, or a lower contrast, in the sift encoding"
            raise NoDescriptors("no training image has a patch with contrast", f"encode {self.rows}", hint)
        results = {"descriptors": total, "images": sum(part.rows for part in parts), "each": each}
        results["files"] = {name: rows for name, rows, _ in found}
        return Made(combine([digest for *_, digest in found]), results, {"seconds": time.perf_counter() - started})


def sample_files(work: Work, encoding: LocalEncoding) -> list[SampleFile]:
    """The parts of the sample that have any descriptors, in block order."""
    step = sample_step(encoding)
    folder, root = work.folders[step] / FOLDER, sift_of(work, encoding.rows).root
    files = work.inputs[step].results["files"]
    return [SampleFile(str(folder / name), rows, root) for name, rows in sorted(files.items()) if rows]
