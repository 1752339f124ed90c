"""Characters as classes: ids, names, and the taxonomy root > Unicode block > case or category > character."""

from __future__ import annotations

import unicodedata
from typing import Any

from pipeline.demo.unicode_blocks import block_of

CATEGORIES = {  # the general categories that the demo draws
    "Lu": "uppercase",
    "Ll": "lowercase",
    "Lt": "titlecase",
    "Lo": "letters without case",
    "Nd": "digits",
}
ROOT = "characters"


def drawable(shared: list[int]) -> list[int]:
    """The letters and digits among the code points whose block is known."""
    return [code for code in shared if unicodedata.category(chr(code)) in CATEGORIES and block_of(code)]


def class_id(code: int) -> str:
    """0x41 -> "U+0041"."""
    return f"U+{code:04X}"


def class_table(codes: list[int]) -> list[dict[str, str]]:
    """One {id, name} per class, in class order."""
    return [{"id": class_id(code), "name": unicodedata.name(chr(code))} for code in codes]


def taxonomy(codes: list[int]) -> dict[str, Any]:
    """`{"nodes": [{id, name, parent}], "leaves": [id of class 0, ...]}`; parents stand before their children."""
    inner: dict[str, dict[str, str | None]] = {ROOT: {"id": ROOT, "name": "characters", "parent": None}}
    leaves: list[dict[str, str | None]] = []
    for code in codes:
        block, category = str(block_of(code)), unicodedata.category(chr(code))
        group = f"{block}/{category}"
        inner.setdefault(block, {"id": block, "name": block, "parent": ROOT})
        inner.setdefault(group, {"id": group, "name": f"{block}, {CATEGORIES[category]}", "parent": block})
        leaves.append({"id": class_id(code), "name": unicodedata.name(chr(code)), "parent": group})
    return {"nodes": [*inner.values(), *leaves], "leaves": [leaf["id"] for leaf in leaves]}
