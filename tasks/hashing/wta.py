"""Winner-take-all codes and their densified form (Chen & Shrivastava 2018): what can be set, and what codes mean.

A hash compares the values of `window` features; its code is the position, from 0, of the first largest one. A sample
is empty when all its values are exactly 0 (SPECS 2, reading 6). WTA gives an empty sample the code 0, or none; DWTA
gives it the code of the next hash to the right (around the end) that is not empty, plus `shift` per step (eq. 7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tasks.errors import ParamError

WTA: Literal["wta"] = "wta"
DWTA: Literal["dwta"] = "dwta"
LARGEST_CODE = 2**30 - 1  # sums of two codes fit int32


@dataclass(frozen=True, slots=True)
class CodeParams:
    """What makes the codes of a row; each hash has its own features, drawn by the seed."""

    kind: str  # "wta" or "dwta"
    hashes: int  # codes per row
    window: int = 4  # features compared per code (K in the paper)
    shift: int | None = None  # added per step to the hash that a code is borrowed from (C); None = window
    range: int | None = None  # codes are taken modulo this, last (R); None = not
    empty: str = "first"  # of an empty sample of "wta": "first" = code 0 as published, "none" = no code
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in (WTA, DWTA):
            raise ParamError("kind", self.kind, '"wta" or "dwta"', "these codes are known")
        for name, least, why in (
            ("hashes", 1, "there would be no code"),
            ("window", 2, "a code tells which of several features is largest"),
            ("seed", 0, "random streams are numbered from 0"),
        ):
            self._check(name, least, f">= {least}", why)
        if self.empty not in ("first", "none"):
            raise ParamError("empty", self.empty, '"first" or "none"', "an empty sample has code 0 or no code")
        if self.kind == WTA:
            self._check_plain()
        else:
            self._check_densified()

    def _check(self, name: str, least: int, accepted: str, why: str) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ParamError(name, value, f"a whole number {accepted}", why)

    def _check_plain(self) -> None:
        for name in ("shift", "range"):
            if getattr(self, name) is not None:
                raise ParamError(name, getattr(self, name), 'nothing with "wta"', "nothing is borrowed: it is for dwta")

    def _check_densified(self) -> None:
        if self.empty != "first":
            raise ParamError("empty", self.empty, 'nothing with "dwta"', "no sample stays empty: it is for wta")
        if self.shift is not None:
            accepted = f">= window ({self.window})"
            self._check("shift", self.window, accepted, "a borrowed code must not look like a code of its own")
        if self.range is not None:
            self._check("range", 2, ">= 2", "one code for everything tells nothing")
            if self.range > LARGEST_CODE + 1:
                raise ParamError("range", self.range, f"<= {LARGEST_CODE + 1}", "a code is an int32")
        if self.n_codes > LARGEST_CODE + 1:
            why = f"borrowed codes would reach {self.n_codes - 1:,}"
            raise ParamError("range", "none", f"a number <= {LARGEST_CODE + 1}, or less shift or hashes", why)

    @property
    def step(self) -> int:
        """Added to a borrowed code per step to the right."""
        return self.window if self.shift is None else self.shift

    @property
    def n_codes(self) -> int:
        """One more than the largest code."""
        if self.kind == WTA:
            return self.window
        unbounded = self.window + self.step * (self.hashes - 1)
        return unbounded if self.range is None else min(self.range, unbounded)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest of uint8, uint16 and int32 that holds all codes and the sentinel."""
        return dtype_of(self.n_codes)

    @property
    def sentinel(self) -> int:
        """Stands for no code: equal to itself, and to no code."""
        return sentinel_of(self.dtype)


def dtype_of(n_codes: int) -> np.dtype[Any]:
    """The smallest of uint8, uint16 and int32 that holds the codes 0..n_codes - 1 and the sentinel."""
    if n_codes <= 2**8 - 1:
        return np.dtype(np.uint8)
    return np.dtype(np.uint16) if n_codes <= 2**16 - 1 else np.dtype(np.int32)


def sentinel_of(dtype: np.dtype[Any]) -> int:
    """255, 65535 or -1: no code is equal to it."""
    return -1 if dtype == np.int32 else int(np.iinfo(dtype).max)
