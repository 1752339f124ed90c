"""WTA and densified WTA codes as an encoder that a model carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tasks.errors import ParamError
from tasks.hashing.code_rows import CodeHash
from tasks.hashing.wta import DWTA, CodeParams
from tasks.models.errors import ModelFormat
from tasks.models.slices import check_width
from tasks.rows import OneHot
from tasks.rows.base import Array, Rows
from tasks.rows.onehot import count_features

SETTINGS = ("hashes", "window", "shift", "range", "empty", "seed")
WINNER = "code h of a row = position (from 0) of the first largest of the columns windows[h], compared as float32"
PLAIN = {
    "first": f"{WINNER}; 0 where they are all 0",
    "none": f"{WINNER}; no feature where they are all 0",
}
DENSIFIED = (
    f"{WINNER}; where they are all 0, that of the next hash h + t (around the end) that is not so, + shift * t; "
    "modulo range, if given; no feature for a row of zeros"
)
FEATURE = "feature h * codes + code h is 1"


@dataclass(frozen=True, eq=False)
class CodeEncoder:
    """Rows as one-hot codes; the windows (n_hashes, window) int32 are kept, so that no generator has to stay as is."""

    hash: CodeHash

    @property
    def kind(self) -> str:
        return self.hash.params.kind

    @property
    def n_features(self) -> int:
        """Columns of the rows that it takes."""
        return self.hash.n_features

    def encode(self, rows: Rows) -> OneHot:
        """Codes of rows; of rows that are codes, those of what they stand for. Raises ColumnMismatch."""
        check_width(rows, self.n_features, f"{self.kind} encoder of the")
        codes, _ = self.hash.codes(rows)
        return OneHot(codes, self.hash.params.n_codes)

    def header(self) -> dict[str, Any]:
        params = self.hash.params
        meaning = DENSIFIED if params.kind == DWTA else PLAIN[params.empty]
        return {
            "kind": params.kind,
            **{name: getattr(params, name) for name in SETTINGS},
            "codes": params.n_codes,
            "n_features": self.n_features,
            "definition": f"{meaning}; {FEATURE}",
        }

    def tensors(self) -> dict[str, Array]:
        return {"windows": self.hash.windows}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """Raises ModelFormat on settings out of range and on windows that do not fit them."""
        try:
            params = CodeParams(kind=header["kind"], **{name: header[name] for name in SETTINGS})
            n_features = int(header["n_features"])
            count_features(params.hashes, params.n_codes)
            loaded = cls(CodeHash(params, n_features, _checked(tensors["windows"], params, n_features)))
        except (KeyError, TypeError, ValueError, ParamError) as error:
            raise ModelFormat(f"the settings of a wta or dwta encoder cannot be used ({error})") from error
        if header.get("codes") != params.n_codes:
            raise ModelFormat(
                f"{params.kind} encoder: {header.get('codes')} codes named, its settings give another number"
            )
        return loaded


def _checked(windows: Array, params: CodeParams, n_features: int) -> Array:
    """Windows of different features each; raises ValueError otherwise."""
    if windows.shape != (params.hashes, params.window) or windows.dtype != np.int32:
        raise ValueError("the windows do not have the shape that the header names")
    ordered = np.sort(windows, axis=1)
    if ordered.min() < 0 or ordered.max() >= n_features or (ordered[:, 1:] == ordered[:, :-1]).any():
        raise ValueError("the windows do not name different features of the rows")
    return windows
