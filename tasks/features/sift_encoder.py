"""Dense SIFT as an encoder that a model carries: from image files to descriptors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from tasks.errors import ParamError
from tasks.features.pixels import DamagedImage, grey_levels
from tasks.features.sift import SiftParams, describe
from tasks.models.errors import ColumnMismatch, ModelFormat
from tasks.rows import Descriptors, Images
from tasks.rows.base import Array, Rows
from tasks.rows.descriptors import SIFT_NUMBERS

DEFINITION = (
    "grey image, shrunk to max_side; SIFT (OpenCV) of every patch with its corner on the grid of `step` pixels, "
    "keypoint size patch / 6, angle 0; patches with a standard deviation below contrast left out; root: sqrt(x / sum "
    "x), else x / |x|"
)


@dataclass(frozen=True)
class SiftEncoder:
    """Images as descriptors of their patches; nothing is learnt."""

    params: SiftParams
    kind: ClassVar[str] = "sift"

    @property
    def n_features(self) -> int:
        """Images have no columns."""
        return 0

    def encode(self, rows: Rows) -> Descriptors:
        """Raises ColumnMismatch for rows that are no images, DamagedImage with the row among these."""
        if not isinstance(rows, Images):
            what = f"the model takes images, these are rows of {rows.n_features} columns"
            raise ColumnMismatch(what, f"rows of body {rows.body}", "give a folder of images")
        described = list(self._described(rows))
        values = np.concatenate([np.empty((0, SIFT_NUMBERS), np.uint8), *(found for found, _ in described)])
        places = np.concatenate([np.empty((0, 2), np.float32), *(found for _, found in described)])
        offsets = np.cumsum([0, *(len(found) for found, _ in described)]).astype(np.int64)
        return Descriptors(values, places, offsets, self.params.root)

    def _described(self, images: Images) -> Iterator[tuple[Array, Array]]:
        for i in range(images.n_rows):
            try:
                yield describe(grey_levels(images.file(i), self.params.max_side), self.params)
            except DamagedImage as error:
                raise DamagedImage(error.what, f"row {i} of these", error.hint) from error

    def header(self) -> dict[str, Any]:
        settings = asdict(self.params) | {"patches": list(self.params.patches)}
        return {"kind": self.kind, **settings, "definition": DEFINITION}

    def tensors(self) -> dict[str, Array]:
        return {}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:  # noqa: ARG003
        """Raises ModelFormat on settings out of range."""
        try:
            given = {name: header[name] for name in SiftParams.__dataclass_fields__}
            return cls(SiftParams(**given | {"patches": tuple(int(side) for side in given["patches"])}))
        except (KeyError, TypeError, ValueError, ParamError) as error:
            raise ModelFormat(f"the settings of a sift encoder cannot be used ({error})") from error
