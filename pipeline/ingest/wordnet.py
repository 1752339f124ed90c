"""WordNet's `is_a` lists, as ImageNet's wordnet.is_a.txt: a parent and a child a line, and names in a file beside it.

Such a list is of all of WordNet: what counts of it are the nodes of the classes and what stands above them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.ingest.errors import TaxonomyFormat
from pipeline.ingest.files import text_lines
from pipeline.ingest.labels import normal

WORDS = "words.txt"  # beside the list: id, tab, what it is called


def is_wordnet(path: Path) -> bool:
    """By its name: wordnet.is_a.txt, is_a.tsv."""
    return path.stem.lower().endswith("is_a")


def spaced(lines: list[list[str]]) -> list[list[str]]:
    """Lines (their fields) that are two words with a space between wherever there is one; any others as they are."""
    words = [fields[0].split() if len(fields) == 1 else [] for fields in lines]
    two = all(len(found) == 2 or not "".join(fields).strip() for found, fields in zip(words, lines, strict=True))
    return words if two else lines


def words_beside(path: Path) -> dict[str, str]:
    """What people call an id, from words.txt in the folder of the list; {} without one. Raises TaxonomyFormat."""
    words = path.with_name(WORDS)
    return _names(text_lines(words), words.name) if words.is_file() else {}


def _names(lines: Sequence[str], source: str) -> dict[str, str]:
    names: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        key, _, name = (part.strip() for part in line.partition("\t"))
        if key and name:
            names[normal(key)] = normal(name)
        elif key or name:
            what = "an id and a name are expected, with a tab between"
            raise TaxonomyFormat(what, f"{source}, line {number}", "it names the nodes of the list beside it")
    return names
