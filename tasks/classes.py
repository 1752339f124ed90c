"""The class table: which class a number stands for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClassTable:
    """Ids and names of the classes 0..n_classes-1; ids differ, names may be anything, and two may be the same."""

    ids: tuple[str, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def label(self, c: int) -> str:
        """How messages call class c: its name, with its id where that says more."""
        return repr(self.names[c]) if self.ids[c] in (self.names[c], str(c)) else f"{self.ids[c]} ({self.names[c]!r})"
