"""Colours of figures, which stand for those that the page defines."""

from __future__ import annotations

INK, FAINT, MAIN, OTHER = "#010101", "#020202", "#030303", "#040404"  # stand for colours that the page defines
PAGE_COLOURS = {INK: "var(--ink)", FAINT: "var(--faint)", MAIN: "var(--main)", OTHER: "var(--other)"}
